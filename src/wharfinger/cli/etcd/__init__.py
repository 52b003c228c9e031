"""`wharfinger etcd`: users of etcd, and their roles."""
