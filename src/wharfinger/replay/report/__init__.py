"""What a replay found, for people and for programs."""
