"""KubeSchedulerConfiguration: pydantic models, defaults, completion, validation."""
