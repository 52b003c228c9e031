"""Clears nodes whose pods cannot stay."""
