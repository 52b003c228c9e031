"""How the driver writes: compare-and-set by plain HTTP, as a kubelet or a controller does through its API server."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tests.faults.history import Change
from tests.integration.gateway import NODES, PODS, Gateway

AT_ONCE = 100
"""Objects of a transaction; a stock etcd takes 128."""


class Away(Exception):
    """etcd did not answer; perhaps it did what it was asked."""


def key_of(obj: Mapping[str, Any]) -> str:
    """Where an object lies."""
    metadata = obj["metadata"]
    return (
        f"{NODES}{metadata['name']}" if obj["kind"] == "Node" else f"{PODS}{metadata['namespace']}/{metadata['name']}"
    )


class Background:
    """A thread that runs `_run` until it is stopped."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends; raises what went wrong in it."""
        self._stop.set()
        self._thread.join(30)
        if self.failure is not None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error

    def _run(self) -> None:
        raise NotImplementedError


class Writer:
    """One client; of one thread."""

    def __init__(self, url: str) -> None:
        self._gateway = Gateway(url)

    def create(self, *objects: Mapping[str, Any]) -> bool:
        """Put objects that there are not, all or none of each hundred; raises `Away`."""
        done = True
        for start in range(0, len(objects), AT_ONCE):
            some = objects[start : start + AT_ONCE]
            compares = [{"key": _b64(key_of(obj)), "target": "CREATE", "create_revision": "0"} for obj in some]
            done &= self._txn(compares, [_put(key_of(obj), obj) for obj in some])
        return done

    def replace(self, known: Change, obj: Mapping[str, Any]) -> bool:
        """Put an object if it still is as it was known; raises `Away`."""
        return self._txn([_unmoved(known)], [_put(known.key, obj)])

    def delete(self, known: Change) -> bool:
        """Delete an object if it still is as it was known; raises `Away`."""
        return self._txn([_unmoved(known)], [{"request_delete_range": {"key": _b64(known.key)}}])

    def _txn(self, compares: Sequence[Mapping[str, Any]], writes: Sequence[Mapping[str, Any]]) -> bool:
        try:
            answer = self._gateway.call("/kv/txn", {"compare": list(compares), "success": list(writes)})
        except (OSError, http.client.HTTPException, RuntimeError, ValueError) as error:
            raise Away(str(error)) from error
        return bool(answer.get("succeeded"))


def _unmoved(known: Change) -> dict[str, str]:
    return {"key": _b64(known.key), "target": "MOD", "mod_revision": str(known.mod_revision)}


def _put(key: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"request_put": {"key": _b64(key), "value": _b64(json.dumps(obj))}}


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
