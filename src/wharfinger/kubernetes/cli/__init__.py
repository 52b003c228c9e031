"""`wharfinger kubernetes`: what concerns the Kubernetes API whose pods are scheduled."""
