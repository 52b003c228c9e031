"""The Kubernetes API server that wharfinger schedules for: what is asked of it, and how it is reached.

Objects live there; etcd has copies of them, and promises of binds that are sent there. This wing knows
neither: it lists, watches and writes objects as JSON. `client.py` says what is needed; `transport.py` does it
over HTTP, `wharfinger.testing.memory_upstream` in memory. A kubeconfig (`kubeconfig.py`) says where the server
is and who we are there.
"""
