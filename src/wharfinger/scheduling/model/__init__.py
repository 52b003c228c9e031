"""Facts of scheduling beside a Kubernetes API, standard library only."""
