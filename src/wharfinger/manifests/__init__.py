"""Bytes and mappings to model and back: the only room that deals with YAML, JSON and field spelling."""
