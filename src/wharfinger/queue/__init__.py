"""Pods that are not bound yet: gated, active, in flight, waiting. Pure, with an injected clock.

`scheduling_queue` is the facade; the parts lie beside it, one file each. Neighbours: `control.intake`
tells it facts, `control.dispatcher` starts what it pops, `control.waker` asks for candidates.
"""
