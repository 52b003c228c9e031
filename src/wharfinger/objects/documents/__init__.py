"""Bytes and mappings to facts and back: the only room that deals with YAML, JSON and the spelling of fields."""
