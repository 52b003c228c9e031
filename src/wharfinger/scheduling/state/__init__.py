"""What a worker knows of the cluster: the informer fills the cache and the queue."""
