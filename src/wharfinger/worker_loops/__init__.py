"""The loops of a worker process: membership, shards, dispatcher, waker."""
