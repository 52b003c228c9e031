"""What a web page of another origin can have a browser send without asking before: a simple request."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from tests.patience import patient


def asked(etcd: str, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer of etcd's JSON gateway."""
    connection = http.client.HTTPConnection(urlsplit(etcd).netloc, timeout=patient(5))
    try:
        connection.request("POST", f"/v3/{path}", body, {"Content-Type": "text/plain", **headers})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()
