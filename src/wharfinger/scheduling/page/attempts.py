"""A pod's recorded attempts, and decisions made again: asked of Temporal and etcd when somebody opens them.

Columns again: a decision on 5,000 nodes is a few arrays, kept as bytes for the next who asks.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any
from urllib.parse import quote

import orjson
from temporalio.client import Client

from wharfinger.errors import NotFound
from wharfinger.etcd.store import Store
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.follow.plain import bounded, moment, text
from wharfinger.page.web.inputs import TooLong
from wharfinger.scheduling.reading import deciding_again, explanation
from wharfinger.scheduling.reading.attempts import explain_pod
from wharfinger.scheduling.reading.explanation import Explanation
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.scheduling.reading.recomputation import Recomputation, RecordedDecision
from wharfinger.serving.shared_answers import SharedAnswers

LAST = 50
"""Attempts that are shown."""
WITHIN = 10.0
"""Seconds for Temporal's answer."""
AGAIN_WITHIN = 60.0
"""Seconds for a decision made again: it reads the whole cluster at an old revision."""
AT_ONCE = 2
KEPT_DECISIONS = 32
MOST_MAKING = 16
"""Decisions that are made, or wait for their turn."""
MOST_NODES_TOLD = 200

Connect = Callable[[], Awaitable[Client]]


class PodAttempts:
    """Reads attempts and makes decisions again."""

    def __init__(self, store: Store, connect: Connect, *, cluster: str, ui: str, namespace: str) -> None:
        """`connect` answers the client of Temporal, made when it is first needed; `ui`: base URL of Temporal's own UI,
        empty for none.
        """
        self._store = store
        self._connect = connect
        self._cluster = cluster
        self._runs = f"{ui}/namespaces/{quote(namespace, safe='')}/workflows" if ui else ""
        self._turn = asyncio.Semaphore(AT_ONCE)
        self.decisions: SharedAnswers[tuple[PodKey, str], bytes] = SharedAnswers(
            time.monotonic,
            most=KEPT_DECISIONS,
            at_once=MOST_MAKING,
            most_waiting=MOST_MAKING,
            full=lambda: TooLong(f"{MOST_MAKING} other decisions are made again just now: try again in a moment"),
        )
        """Decisions made again, as compressed JSON, by pod and run."""

    async def explained(self, key: PodKey, limit: int = LAST) -> dict[str, Any]:
        """Everything recorded of a pod, as `wharfinger explain -o json` has it, with links into Temporal's UI.

        Raises `ServerError` while Temporal is away, `StoreError`, `NotFound`, `TooLong`.
        """
        found = await self.recorded(key, limit)
        if found.state == "deleted" and not found.attempts:
            raise NotFound(f"there is no pod {text(str(key))}, and Temporal keeps no attempt of one")
        plain = explanation.to_plain(found)
        plain["attempts"] = [one | {"link": self.link(one["workflowId"], one["runId"])} for one in plain["attempts"]]
        plain["link"] = f"{self._runs}?query={quote(found.query, safe='')}" if self._runs and found.query else None
        told: dict[str, Any] = bounded(plain)
        return told

    async def decision(self, key: PodKey, number: int | None) -> dict[str, Any]:
        """The decision of one attempt (None = the newest that decided), made again, in columns.

        Raises as `explained`, and `NotFound` once etcd has compacted the revision.
        """
        return await self._decided((await self.recorded(key)).attempts, key, number)

    async def difference(self, key: PodKey, first: int, second: int) -> dict[str, Any]:
        """What is another between two attempts: as recorded, and node by node where both can be decided again."""
        found = (await self.recorded(key)).attempts
        attempts = {}
        for number in (first, second):
            chosen = [one for one in found if one.attempt == number]
            if not chosen:
                raise NotFound(f"Temporal keeps no attempt {number} of pod {key}")
            attempts[number] = chosen[-1]
        told = recorded_difference(attempts[first], attempts[second])
        try:
            before, after = await asyncio.gather(self._decided(found, key, first), self._decided(found, key, second))
        except NotFound as error:
            return told | {"nodes": None, "note": text(str(error))}
        return told | {"nodes": node_differences(before, after), "note": None}

    def link(self, workflow_id: str, run_id: str) -> str | None:
        """Where Temporal's own UI shows a run; None without one."""
        if not self._runs or not workflow_id:
            return None
        return f"{self._runs}/{quote(workflow_id, safe='')}/{quote(run_id, safe='')}/history"

    async def recorded(self, key: PodKey, limit: int = LAST) -> Explanation:
        """What is recorded of a pod, whether it is there or not. Raises as `explained`."""
        try:
            async with asyncio.timeout(WITHIN):
                client = await self._connect()
                return await explain_pod(client, self._store, cluster=self._cluster, key=key, limit=limit)
        except TimeoutError as error:
            raise TooLong(f"Temporal did not answer within {WITHIN:.0f} s") from error

    async def _decided(self, attempts: Sequence[Attempt], key: PodKey, number: int | None) -> dict[str, Any]:
        """One of these attempts decided again, once for all who ask for it."""
        attempt, decision = deciding_again.decision_of(attempts, key, number)

        async def made() -> tuple[bytes, float]:
            found = await self._again(decision)
            return await asyncio.to_thread(lambda: zlib.compress(orjson.dumps(columns(attempt, found)), 1)), inf

        told: dict[str, Any] = orjson.loads(zlib.decompress(await self.decisions.get((key, attempt.run_id), made)))
        return told

    async def _again(self, decision: RecordedDecision) -> Recomputation:
        try:
            async with asyncio.timeout(AGAIN_WITHIN), self._turn:
                return await deciding_again.decide_again(self._store, decision, load_profiles, apart=True)
        except TimeoutError as error:
            raise TooLong(f"deciding again took longer than {AGAIN_WITHIN:.0f} s and was given up") from error


def columns(attempt: Attempt, found: Recomputation) -> dict[str, Any]:
    """A decision made again: by node in columns; verdicts are 0 passes, -1 skipped, -2 not asked, else number of a
    text in `reasons`, from 1.
    """
    plain = deciding_again.to_plain(attempt, found)
    nodes = plain.pop("nodes")
    reasons: dict[str, int] = {}
    verdicts: dict[str, list[int]] = {}
    plugins = dict.fromkeys([*found.filters, *(plugin for one in found.nodes for plugin in one.refusals)])
    for plugin in plugins:
        column = verdicts[plugin] = []
        for one in nodes:
            verdict = one["filters"].get(plugin)
            if verdict is None or verdict["verdict"] == "passes":
                column.append(0)
            elif verdict["verdict"] == "refuses":
                said = text("; ".join(verdict["reasons"]) or "refused")
                column.append(reasons.setdefault(said, len(reasons) + 1))
            else:
                column.append(-1 if verdict["verdict"] == "skipped" else -2)
    return plain | {
        "names": [text(one["node"]) for one in nodes],
        "feasible": [int(one["feasible"]) for one in nodes],
        "examined": [int(one["examined"]) for one in nodes],
        "totals": [one["total"] for one in nodes],
        "verdicts": verdicts,
        "reasons": list(reasons),
        "scoresByPlugin": {plugin: [one["scores"].get(plugin) for one in nodes] for plugin in found.scorers},
    }


def recorded_difference(first: Attempt, second: Attempt) -> dict[str, Any]:
    """What two records say differently."""
    sides = [_side(one) for one in (first, second)]
    refusals = [_flat(one) for one in (first, second)]
    changed = [
        {
            "plugin": plugin,
            "reason": text(reason),
            "before": refusals[0].get(place, 0),
            "after": refusals[1].get(place, 0),
        }
        for place in sorted(refusals[0].keys() | refusals[1].keys())
        for plugin, reason in [place]
        if refusals[0].get(place, 0) != refusals[1].get(place, 0)
    ]
    return {"first": sides[0], "second": sides[1], "refusals": changed}


def node_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes that came, went, or are judged differently."""
    rows = {name: row for row, name in enumerate(before["names"])}
    now = {name: row for row, name in enumerate(after["names"])}
    changed: list[dict[str, Any]] = []
    counts = {"opened": 0, "closed": 0, "otherReasons": 0, "otherTotal": 0, "same": 0}
    for name in before["names"]:
        if name not in now:
            continue
        old, new = _judged(before, rows[name]), _judged(after, now[name])
        kind = _kind_of(old, new)
        counts[kind] += 1
        if kind != "same" and len(changed) < MOST_NODES_TOLD:
            changed.append({"node": name, "kind": kind, "before": old, "after": new})
    order = ("opened", "closed", "otherReasons", "otherTotal")
    return {
        "added": [name for name in after["names"] if name not in rows][:MOST_NODES_TOLD],
        "removed": [name for name in before["names"] if name not in now][:MOST_NODES_TOLD],
        "counts": counts,
        "changed": sorted(changed, key=lambda one: (order.index(str(one["kind"])), str(one["node"]))),
    }


def _judged(decision: Mapping[str, Any], row: int) -> dict[str, Any]:
    refused = {
        plugin: decision["reasons"][codes[row] - 1] for plugin, codes in decision["verdicts"].items() if codes[row] > 0
    }
    return {"feasible": bool(decision["feasible"][row]), "refusedBy": refused, "total": decision["totals"][row]}


def _kind_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    if old["feasible"] != new["feasible"]:
        return "opened" if new["feasible"] else "closed"
    if old["refusedBy"] != new["refusedBy"]:
        return "otherReasons"
    return "otherTotal" if old["total"] != new["total"] else "same"


def _side(attempt: Attempt) -> dict[str, Any]:
    computation = attempt.computation
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "started": moment(attempt.started),
        "node": attempt.node,
        "revision": computation.get("revision"),
        "profile": computation.get("profile_name"),
        "profileDigest": computation.get("profile"),
        "nodes": computation.get("nodes", 0),
        "feasible": computation.get("feasible", 0),
        "message": text(attempt.message),
        "ranking": attempt.ranking[:5],
    }


def _flat(attempt: Attempt) -> dict[tuple[str, str], int]:
    return {
        (plugin, reason): count for plugin, reasons in attempt.refusals.items() for reason, count in reasons.items()
    }
