"""etcd: the only package that talks to it.

`store` is the Protocol that everything else programs against. `etcd` is the adapter; its two protocols are
`etcd_json` (the only file importing etcd3-py's client) and `etcd_grpc` (the only file importing grpcio).
`table` makes keys. This package moves bytes: their meaning belongs to `objects` and to the contracts of each wing.
"""
