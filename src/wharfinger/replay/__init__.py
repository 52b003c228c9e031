"""Recorded decisions, decided again: as they were, or under another configuration."""
