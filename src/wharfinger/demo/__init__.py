"""The demonstration: a real cluster's pods, a killed worker, and an audit of what etcd recorded."""
