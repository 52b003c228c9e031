"""The documented import path of `objects.model.events`."""
