"""A Kubernetes API as the store of pods and nodes: its objects are copied, binds are promised and sent there.

The client of such an API is `apiserver`; scheduling goes on as ever, and puts the promise into its transaction.
"""
