"""For tests of plugins and of programs on wharfinger's client: a store in memory, virtual processes, and builders.

::

    MemoryStore      etcd in memory: true revisions, watches, leases, compaction, and switches for what may go wrong
    MemoryUpstream   a Kubernetes API server in memory: objects, binding, watches, and switches for what may go wrong
    FakeRuntime      an agent's processes without an operating system
    node_manifest    a node as kubectl prints it, for `Simulator.add` or for a store
    pod_manifest     the same for a pod
    node, pod        the same as facts, as plugins get them
    snapshot         nodes with the pods bound to them, as plugins get them
    plugin_call      the last argument of an asynchronous PreBind
    bind_call        the same of an asynchronous Bind

A cluster that is decided on is `wharfinger.whatif.simulator.simulator.Simulator`. Nothing in production imports this
wing.
"""

from __future__ import annotations

from wharfinger.testing.builders import bind_call, node, node_manifest, plugin_call, pod, pod_manifest, snapshot
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore
from wharfinger.testing.memory_upstream import MemoryUpstream

__all__ = [
    "FakeRuntime",
    "MemoryStore",
    "MemoryUpstream",
    "bind_call",
    "node",
    "node_manifest",
    "plugin_call",
    "pod",
    "pod_manifest",
    "snapshot",
]
