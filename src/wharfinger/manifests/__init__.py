"""Bytes and mappings to model and back: the only room that knows YAML, JSON and field spelling."""
