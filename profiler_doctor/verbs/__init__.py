"""What the user says: one file a verb, each the story of that verb."""
