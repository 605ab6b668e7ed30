"""The trace files of the field: one file a format, each knowing its own files by their content."""
