"""Archives of recorded decisions: their format, filling them, and reading them."""
