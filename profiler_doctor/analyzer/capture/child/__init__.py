"""What lives in the user's own process: standard library until the script itself imports torch."""
