"""What users write of a fleet: pydantic models, defaults, validation."""
