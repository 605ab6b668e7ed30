"""What we know about illness: one file a rule."""
