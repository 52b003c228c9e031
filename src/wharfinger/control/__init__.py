"""The loops of a worker process: informer, shards, dispatcher, waker."""
