"""Pods that are not bound yet: gated, active, in flight, waiting. Pure, with an injected clock."""
