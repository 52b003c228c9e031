"""`/healthz`, `/livez` and `/readyz`, each with a page for every check, and what they found as metrics.

There are two forms. kube-scheduler's prints `ok`, or with `?verbose` or a failure every check, without reasons, because
the page is open to all; a failure has status 500. Our own lists every check of `/readyz` with its reason and has status
503. `?exclude=NAME` leaves checks out of either; `?format=json` of our own gives JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from wharfinger.serving.content import OK, Content

log = logging.getLogger(__name__)

KINDS = ("healthz", "livez", "readyz")
PING = "ping"
"""The check of a page that has no other."""


class Text(NamedTuple):
    """A page: status, body and media type."""

    status: int
    body: str
    media_type: str = "text/plain"


class HealthPages:
    """Writes the pages of one server."""

    def __init__(self, content: Content, *, kubernetes: bool) -> None:
        """`kubernetes`: kube-scheduler's form."""
        self._content = content
        self._kubernetes = kubernetes
        self._registry = CollectorRegistry()
        self._last = Gauge(
            "kubernetes_healthcheck", "1 if the check passed when it was last made.", ["name", "type"],
            registry=self._registry,
        )  # fmt: skip
        self._all = Counter(
            "kubernetes_healthchecks", "Checks by their result.", ["name", "type", "status"], registry=self._registry
        )

    def slis(self) -> bytes:
        """`/metrics/slis`: the results of all checks that were made."""
        return generate_latest(self._registry)

    def page(self, kind: str, *, verbose: bool, exclude: Collection[str], as_json: bool) -> Text:
        """Make every check of a page that is not excluded."""
        made = {name: said for name, said in self._checks(kind).items() if name not in exclude}
        for name, said in made.items():
            self._observe(kind, name, said)
        if self._kubernetes:
            return self._as_kubernetes(kind, made, verbose, exclude)
        return _as_json(made) if as_json else _as_list(kind, made, verbose=verbose)

    def one(self, kind: str, name: str) -> Text | None:
        """Make one check; None when there is none of that name. The reason is shown: the page is not an open one."""
        said = self._checks(kind).get(name)
        if said is None:
            return None
        self._observe(kind, name, said)
        failed = 500 if self._kubernetes else 503
        return Text(200, "ok") if said == OK else Text(failed, f"internal server error: {said}\n")

    def _checks(self, kind: str) -> Mapping[str, str]:
        content = self._content
        checks = {"healthz": content.healthz, "livez": content.livez, "readyz": content.checks}[kind]()
        return checks or {PING: OK}

    def _observe(self, kind: str, name: str, said: str) -> None:
        self._last.labels(name, kind).set(said == OK)
        self._all.labels(name, kind, "success" if said == OK else "error").inc()

    def _as_kubernetes(self, kind: str, made: Mapping[str, str], verbose: bool, exclude: Collection[str]) -> Text:
        lines = []
        for name in self._checks(kind):
            if name not in made:
                lines.append(f"[+]{name} excluded: ok")
            elif made[name] == OK:
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
        unknown = sorted(set(exclude).difference(self._checks(kind)))
        if unknown:
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        failed = {name: said for name, said in made.items() if said != OK}
        if failed:
            log.info("health_check_failed page=%s checks=%r", kind, failed)
            return Text(500, "\n".join([*lines, f"{kind} check failed"]) + "\n")
        return Text(200, "\n".join([*lines, f"{kind} check passed"]) + "\n") if verbose else Text(200, "ok")


def _as_json(made: Mapping[str, str]) -> Text:
    ready = _passed(made)
    body = json.dumps({"ready": ready, "checks": {name: said for name, said in made.items() if name != PING}})
    return Text(200 if ready else 503, body, "application/json")


def _as_list(kind: str, made: Mapping[str, str], *, verbose: bool) -> Text:
    ready = _passed(made)
    if ready and kind != "readyz" and not verbose:
        return Text(200, "ok\n")
    lines = [f"[{'+' if said == OK else '-'}] {name}: {said}" for name, said in made.items()]
    verdict = "ready" if kind == "readyz" else kind
    lines.append(verdict if ready else f"not {verdict}")
    return Text(200 if ready else 503, "\n".join(lines) + "\n")


def _passed(made: Mapping[str, str]) -> bool:
    return all(said == OK for said in made.values())
