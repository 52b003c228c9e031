"""Pods that are not bound yet: gated, active, in flight, waiting. Pure, with an injected clock.

`scheduling_queue` is the facade; the parts lie beside it, one file each. Neighbours: `worker_loops.pod_events`
passes pods in, `worker_loops.dispatcher` starts the pods that it pops, `worker_loops.waker` takes candidates.
"""
