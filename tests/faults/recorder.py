"""Writes down etcd's history as it happens: a watch over all keys from the first revision, by plain HTTP.

Compaction may only go up to what was read, or there would be nothing left to judge. That nothing is missing is shown
twice: revision follows revision, and the keys that these leave are the keys that etcd says it has.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults.history import Change, Continuity, Gap, Revision, change_of, state_after
from tests.integration.gateway import Gateway

EVERYTHING = {"key": "AA==", "range_end": "AA=="}
"""A zero byte each: all keys."""
IDLE = 15.0
"""Seconds of silence after which it connects again; etcd tells its progress every 5 s."""


class Recorder:
    """A thread that follows one etcd through all its restarts."""

    def __init__(self, url: str, file: Path) -> None:
        self._host = urllib.parse.urlsplit(url).netloc
        self._file = file
        self._continuity = Continuity()
        self._heard = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self.revisions: list[Revision] = []
        self.failure: str = ""
        """Why the record is worth nothing; empty while it is sound."""
        self._latest: dict[str, Change] = {}
        self._connection: http.client.HTTPConnection | None = None

    @property
    def read(self) -> int:
        """The last revision that is written down."""
        return self._continuity.last

    def latest(self, prefix: str) -> list[Change]:
        """The keys under the prefix as far as was heard, as any informer knows them."""
        with self._heard:
            return [change for key, change in self._latest.items() if key.startswith(prefix)]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # it waits for the next message
        self._thread.join(IDLE + 5)

    def wait_for(self, revision: int, seconds: float) -> bool:
        """Whether everything up to the revision is written down within so many seconds."""
        return self.until(lambda: self.read >= revision, seconds)

    def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Whether it becomes true within so many seconds; asked anew whenever something was heard."""
        with self._heard:
            return self._heard.wait_for(lambda: bool(self.failure) or true(), seconds) and not self.failure

    def prove(self, gateway: Gateway, seconds: float = 30.0) -> list[str]:
        """What speaks against the record: nothing, when it is whole up to now."""
        now = gateway.revision()
        if not self.wait_for(now, seconds):
            return [self.failure or f"the record ends at {self.read}, etcd is at {now}"]
        answer = gateway.call("/kv/range", {**EVERYTHING, "revision": str(now)})
        there = {change.key: change for change in (change_of({"kv": kv}) for kv in answer.get("kvs", ()))}
        recorded = state_after(revision for revision in self.revisions if revision.number <= now)
        differing = [key for key in there.keys() | recorded.keys() if there.get(key) != recorded.get(key)]
        return [f"{key}: etcd has another state than the record at {now}" for key in sorted(differing)]

    def _run(self) -> None:
        with self._file.open("w", encoding="utf-8") as file:
            while not self._stop.is_set() and not self.failure:
                try:
                    for message in self._messages():
                        self._take(message, file)
                        if self._stop.is_set():
                            return
                except (OSError, http.client.HTTPException, ValueError):
                    time.sleep(0.05)  # etcd is away: what it says next begins where this ended

    def _messages(self) -> Iterator[dict[str, Any]]:
        connection = self._connection = http.client.HTTPConnection(self._host, timeout=IDLE)
        request = {**EVERYTHING, "start_revision": str(self.read + 1), "progress_notify": True}
        try:
            connection.request("POST", "/v3/watch", json.dumps({"create_request": request}))
            answer = connection.getresponse()
            while line := answer.readline():
                yield json.loads(line)["result"]
        except KeyError:
            return  # an error instead of a result: etcd is on its way down
        finally:
            connection.close()

    def _take(self, message: dict[str, Any], file: Any) -> None:
        if message.get("canceled"):
            self._fail(f"the watch was cancelled at {self.read}: {message}")
            return
        now = time.time()
        with self._heard:  # who waits for a revision finds all of it here once it is read
            try:
                revisions = self._continuity.take(message, now)
            except Gap as gap:
                self._fail(str(gap))
                return
            self.revisions.extend(revisions)
            for change in (change for revision in revisions for change in revision.changes):
                if change.value is None:
                    self._latest.pop(change.key, None)
                else:
                    self._latest[change.key] = change
            self._heard.notify_all()
        if revisions:
            file.write(json.dumps({"time": now, "message": message}, separators=(",", ":")) + "\n")
            file.flush()

    def _fail(self, why: str) -> None:
        with self._heard:
            self.failure = why
            self._heard.notify_all()


def read_back(file: Path) -> list[Revision]:
    """The revisions of a record that was kept. Raises `Gap`."""
    continuity = Continuity()
    lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return [revision for line in lines for revision in continuity.take(line["message"], line["time"])]
