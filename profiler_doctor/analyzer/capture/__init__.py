"""Run the user's script as it would run without us, and record it on the way."""
