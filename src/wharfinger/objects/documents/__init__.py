"""Bytes and mappings to facts and back, and the spelling of Kubernetes' fields (those of rk8s: `objects.rk8s`)."""
