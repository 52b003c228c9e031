"""The registry: the only room that talks to etcd.

`store` is the Protocol that all other rooms program against. `etcd` is the adapter; its two protocols are
`etcd_json` (the only file importing etcd3-py's client) and `etcd_grpc` (the only file importing grpcio).
`keys` makes every key. The registry moves bytes: their meaning belongs to `manifests` (objects) and
`contracts` (our records).
"""
