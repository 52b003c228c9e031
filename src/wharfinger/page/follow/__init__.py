"""What the page reads beside etcd: metrics of processes, and whether Temporal answers."""
