"""What we know about cures: one file a fix."""
