"""The HTTP server of every process: who may read what, over TLS or not.

`server.py` puts it together: `listening.py` and `tls.py` accept connections, `access.py` decides who may read,
and `health.py`, `exposition.py`, `pod_resources.py` and `zpages.py` write the pages. What the
pages contain comes from the composition roots (`content.py`), how they are served from `options.py`.
"""
