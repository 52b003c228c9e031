"""What admission in a Kubernetes API server does to new pods and claims: defaults, and reasons why one is not made."""
