"""What hubs and the agents of members keep in etcd below `/wharfinger.dev/hub/`. Keys: `contracts.placement_keys`.

::

    decisions/<P>          DecisionRecord      commit_decision, by compare-and-set
    policies/<P>/<n>       PolicyRecord        the same transaction, create-only
    evictions/<name>       EvictionRecord      the same transaction, once for each life of the eviction
    members/<member>       MemberRecord        the member's agent, under its lease
    memberstatus/<member>  MemberStatusRecord  the member's agent
    drains/<member>        DrainRecord         the CLI
    hubs/<hub>             HubRecord           the hub, under its lease

P is the reference of a placement: `cluster/<name>` or `ns/<namespace>/<name>`. What is delivered:
`contracts.delivery_records`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from pydantic import Field

from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.model.placement import (
    ChosenMember,
    MemberScores,
    MemberVerdict,
    PlacementDecision,
    PolicyCondition,
)
from wharfinger.process.records import Record

_AS_THEY_ARE: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("identity", "placement"), int),
    **dict.fromkeys(("digest", "counting", "token", "time"), str),
    **dict.fromkeys(("abandons", "deleting"), bool),
}
"""Fields of a decision's record that are stored by their names, and how each is read."""
DECISION_LIMIT = 16 * 1024 * 1024
"""Bytes of a decision that is not deflated: far more than 5,000 members take."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """The whole choice for one placement, and what it was made from."""

    decision: PlacementDecision
    identity: int
    """Create revision of the placement's object."""
    placement: int
    """Mod revision of the placement's object; 0 = it was gone."""
    digest: str
    """Of the policy without its number of members."""
    counting: str = ""
    """Digest of all that counts in the decision (`deciding.question.counting`), in hexadecimal digits."""
    abandons: bool = False
    """Whether what was delivered stays when the placement is deleted."""
    deleting: bool = False
    """Whether the placement was being deleted: nothing is chosen any more."""
    evicted: frozenset[str] = frozenset()
    """Members it was evicted from whose works are not gone."""
    seen: StreamRevisions = field(default_factory=StreamRevisions)
    ages: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Member -> seconds since its last heart-beat, and since its health changed."""
    token: str = ""
    """Tells whether a commit whose answer was lost is this one."""
    time: str = ""
    """RFC 3339, UTC."""
    workflow_id: str = ""
    run_id: str = ""

    def to_bytes(self) -> bytes:
        """As stored: JSON, deflated. Texts and pairs of plugin and code that many members share stand there once."""
        decision = self.decision
        texts, pairs = _Interned(), _Interned()
        written: dict[str, Any] = {
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            "generation": decision.generation,
            "policy": decision.policy,
            "number": decision.number,
            "chosen": [
                [one.name, one.identity, one.policy, _scores(one.scores), texts.number(_without_name(one))]
                for one in decision.chosen
            ],
            "others": [
                [one.name, pairs.number((one.plugin, one.code)), texts.number(_without_name(one)), _scores(one.scores)]
                for one in decision.verdicts
            ],
            "condition": [decision.condition.status, decision.condition.reason, decision.condition.message],
            "deviations": sorted(decision.deviations),
            "evicted": sorted(self.evicted),
            "seen": [self.seen.members, self.seen.objects, self.seen.hub],
            "ages": _grouped(self.ages),
            "workflowId": self.workflow_id,
            "runId": self.run_id,
        }
        written["texts"], written["pairs"] = texts.values, pairs.values
        return zlib.compress(orjson.dumps(written), 6)

    @classmethod
    def from_bytes(cls, value: bytes) -> DecisionRecord:
        """Raises `ValueError` for what is none."""
        found = inflated(value)
        with _reading():
            texts, pairs = found["texts"], found["pairs"]
            return cls._read(
                found,
                tuple(
                    MemberVerdict(
                        name, pairs[pair][0], pairs[pair][1], _with_name(texts[text], name), _read_scores(scores)
                    )
                    for name, pair, text, scores in found["others"]
                ),
            )

    @classmethod
    def of_chosen(cls, found: Mapping[str, Any]) -> DecisionRecord:
        """An inflated record without its verdicts, which are most of it. Raises `ValueError`."""
        with _reading():
            return cls._read(found, ())

    @classmethod
    def _read(cls, found: Mapping[str, Any], verdicts: tuple[MemberVerdict, ...]) -> DecisionRecord:
        texts = found["texts"]
        return cls(
            decision=PlacementDecision(
                policy=int(found["policy"]),
                generation=int(found["generation"]),
                number=found["number"],
                chosen=tuple(
                    ChosenMember(name, identity, policy, _read_scores(scores), _with_name(texts[text], name))
                    for name, identity, policy, scores, text in found["chosen"]
                ),
                verdicts=verdicts,
                condition=PolicyCondition(*found["condition"]),
                deviations=frozenset(found["deviations"]),
            ),
            **{name: read(found[name]) for name, read in _AS_THEY_ARE.items()},
            evicted=frozenset(found["evicted"]),
            seen=StreamRevisions(**dict(zip(("members", "objects", "hub"), found["seen"], strict=True))),
            ages={name: (one[0], one[1]) for one, names in found["ages"] for name in names},
            workflow_id=str(found["workflowId"]),
            run_id=str(found["runId"]),
        )


def verdict_pairs(found: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Who was not chosen, with plugin and code, of an inflated record. Raises `ValueError`."""
    with _reading():
        pairs = [(str(plugin), str(code)) for plugin, code in found["pairs"]]
        for name, pair, _, _ in found["others"]:
            yield name, pairs[pair]


def inflated(value: bytes) -> dict[str, Any]:
    """A stored decision as the mapping that it is. Raises `ValueError` for what is none."""
    found = orjson.loads(inflated_bytes(value))
    if not isinstance(found, dict):
        raise ValueError("is no decision: no mapping")
    return found


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"is no decision: {error!r}"[:200]) from error


class PolicyRecord(Record):
    """A policy that was decided by. Its number is its name."""

    policy: dict[str, Any]
    """`spec.policy`, as written; empty = all members."""
    digest: str
    time: str = ""
    """RFC 3339, UTC, of the first decision by it."""


class EvictionRecord(Record):
    """How an eviction ended."""

    identity: int = 0
    """Create revision of its object: it says nothing of another one of that name. 0 = any, of an earlier release."""
    valid: bool
    executed: bool
    message: str
    placement: str = ""
    """P."""
    cluster: str = ""
    time: str = ""
    """RFC 3339, UTC."""
    workflow_id: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        return f"{'executed' if self.executed else 'blocked' if self.valid else 'invalid'}: {self.message}"


class MemberRecord(Record):
    """A member's agent."""

    identity: int
    """Create revision of the MemberCluster that it reports for."""
    boot_id: str = ""
    pid: int = 0
    host: str = ""
    version: str = ""
    format: str = ""
    """Of the member's pods and nodes; empty from agents of earlier releases."""
    time: str = ""
    """RFC 3339, UTC, of its start."""


class MemberStatusRecord(Record):
    """What a member's agent says: the status of a MemberCluster, as KubeFleet writes it, without any time."""

    identity: int
    status: dict[str, Any] = Field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    """Placements, by reference, of which something is on the member although the hub knows none of that name."""


class DrainRecord(Record):
    """A member that takes nothing new, or also gives up what it has."""

    want: Literal["cordon", "drain"]
    identity: int = 0
    """Create revision of the MemberCluster: it says nothing of another one of that name. 0 = any, of an earlier
    release."""
    by: str = ""
    why: str = ""
    time: str = ""
    """RFC 3339, UTC."""


class HubRecord(Record):
    """A hub."""

    boot_id: str = ""
    pid: int = 0
    host: str = ""
    health: str = ""
    version: str = ""
    time: str = ""
    """RFC 3339, UTC, of its start."""


class _Interned:
    """Values by number, each once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


_NAME = "\x00"
"""Stands for the member's own name in a text, so that what is said of many members is one text."""


def _without_name(one: ChosenMember | MemberVerdict) -> str:
    return one.reason.replace(f'"{one.name}"', _NAME)


def _with_name(text: str, name: str) -> str:
    return text.replace(_NAME, f'"{name}"')


def _scores(scores: MemberScores | None) -> list[int] | None:
    return None if scores is None else [scores.spread, scores.affinity]


def _read_scores(written: Any) -> MemberScores | None:
    return None if written is None else MemberScores(int(written[0]), int(written[1]))


def _grouped(ages: Mapping[str, tuple[float | None, float | None]]) -> list[Any]:
    """Ages, each with the members that have it: almost all are heard now."""
    found: dict[tuple[float | None, float | None], list[str]] = {}
    for name, age in ages.items():
        found.setdefault(age, []).append(name)
    return [[list(age), names] for age, names in found.items()]


def inflated_bytes(value: bytes) -> bytes:
    """What was deflated. Raises `ValueError` for what was not, or is too large."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(value, DECISION_LIMIT)
    except zlib.error as error:
        raise ValueError(f"is not deflated: {error}") from error
    if inflater.unconsumed_tail or not inflater.eof:
        raise ValueError("is cut off, or too large")
    return found
