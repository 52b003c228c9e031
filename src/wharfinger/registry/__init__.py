"""The registry: the only room that talks to etcd.

`store` is the Protocol that all other rooms program against; `etcd` the adapter (the only file importing
the client); `memory` a shipped fake with true revisions, watches, leases and compaction; `keys` makes
every key. The registry moves bytes: their meaning belongs to `manifests` (objects) and `contracts`
(our records).
"""
