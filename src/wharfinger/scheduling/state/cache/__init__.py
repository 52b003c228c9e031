"""What this worker believes the cluster holds: etcd's objects, plus pods it assumes bound.

Fed by `state.informer.informer`, read by activities and the simulator through immutable snapshots
(`framework.snapshot`), columns over the nodes. It does not depend on etcd or on how objects are encoded.
"""
