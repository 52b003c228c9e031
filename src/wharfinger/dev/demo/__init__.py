"""The demonstration: a real cluster's pods, a worker killed in the middle, and an audit of what etcd recorded.

`openb` makes the objects, `story` does what is shown and `view` shows it, `audit` judges from etcd's own history
(integration tests and benchmarks use it too).
"""
