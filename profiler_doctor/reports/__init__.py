"""What the user sees: one file a way of showing the document."""
