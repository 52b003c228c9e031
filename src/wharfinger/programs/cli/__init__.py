"""Commands that start processes, and those about etcd's users and backups. `kube-scheduler` is one of them."""
