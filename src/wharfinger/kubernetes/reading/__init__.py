"""Answers about a Kubernetes API: how its copies stand, and where they differ."""
