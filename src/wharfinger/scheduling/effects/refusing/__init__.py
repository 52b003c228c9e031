"""Refuses pods, and makes room for them: attempt records, nominations and evictions."""
