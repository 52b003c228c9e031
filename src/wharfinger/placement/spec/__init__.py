"""What users write of placements, overrides, strategies and members: pydantic models, defaults, validation."""
