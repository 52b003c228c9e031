"""The loops of a worker for a Kubernetes API: importing, the lease of its name, and sweeps of promises and refusals."""
