"""The page's view of the Kubernetes API."""
