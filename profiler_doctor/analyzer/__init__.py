"""From a program to facts: capture, formats, measures, replay, trial, statistics."""
