"""Pods that are not bound yet: gated, active, in flight, waiting. Pure, with an injected clock.

`scheduling_queue` is the facade; the parts lie beside it, one file each. Neighbours: `loops.pod_events`
passes pods in, `loops.dispatcher` starts the pods that it pops, `loops.waker` takes candidates.
"""
