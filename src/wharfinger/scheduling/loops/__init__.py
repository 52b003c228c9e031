"""The loops of a worker: dispatcher, groups, shards, waker, and what follows their runs."""
