"""Dynamic configuration: follows the stored values and applies them while the worker runs."""
