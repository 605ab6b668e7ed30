"""Events into numbers that more than one rule could want: pure functions from a trace to a table."""
