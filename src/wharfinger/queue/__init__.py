"""Pods that are not bound yet: gated, active, in flight, waiting. Pure, with an injected clock.

`scheduling_queue` is the facade; the parts lie beside it, one file each. Neighbours: `worker_loops.intake`
tells it facts, `worker_loops.dispatcher` starts what it pops, `worker_loops.waker` asks for candidates.
"""
