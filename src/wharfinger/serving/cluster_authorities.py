"""The authorities that sign client certificates in a cluster, as its API server publishes them.

kube-scheduler looks them up where `--client-ca-file` is not given, in the ConfigMap
`kube-system/extension-apiserver-authentication`. The composition root calls `client_authorities` once the cluster
answers, and again from time to time, and gives the text to `Server.trust`.
"""

from __future__ import annotations

import logging

from wharfinger.apiserver.client import ApiResource, Upstream
from wharfinger.errors import UpstreamError

log = logging.getLogger(__name__)

CONFIG_MAPS = ApiResource("", "v1", "configmaps", namespaced=True)
NAMESPACE, NAME, KEY = "kube-system", "extension-apiserver-authentication", "client-ca-file"


async def client_authorities(upstream: Upstream, *, logged: set[str] | None = None) -> str:
    """Their certificates as PEM; empty, with a log line, where they cannot be had: then no certificate is accepted.

    `logged` keeps the reason that was logged last, which is not logged again until it is another one.
    """
    reasons = logged if logged is not None else set()
    try:
        answer = await upstream.get(CONFIG_MAPS, NAME, namespace=NAMESPACE)
    except UpstreamError as error:
        why = str(error)
    else:
        if answer.done and answer.object is not None:
            reasons.clear()
            return str((answer.object.get("data") or {}).get(KEY, ""))
        why = answer.message or f"status {answer.code}"
    if why not in reasons:
        log.warning("client_authorities_unknown error=%r", why)
    reasons.clear()
    reasons.add(why)
    return ""
