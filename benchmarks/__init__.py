"""How fast and how large: our reader and analysis beside the plain way and beside other tools, on the same files."""
