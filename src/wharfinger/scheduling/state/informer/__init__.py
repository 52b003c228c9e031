"""The informer: etcd's watch, decoded and applied to the cache in revision order."""
