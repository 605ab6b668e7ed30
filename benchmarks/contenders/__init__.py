"""What is measured, one file each: its imports first, then `run(path)`, which is timed."""
