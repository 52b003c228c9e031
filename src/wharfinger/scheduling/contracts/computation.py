"""What a decision was computed from, and what it saw: enough to explain it, and to compute it again.

Decisions for one pod (`contracts.scheduling`) and for many (`contracts.cohort_scheduling`) carry it alike.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wharfinger.process.contract import Contract, Sparse


class Assumed(Contract):
    """A pod counted on a node by this worker before etcd said so."""

    pod: str
    create_revision: int
    node: str


class Nominated(Contract):
    """A pending pod that preemption made room for on a node."""

    pod: str
    create_revision: int
    node: str


class ScoredNode(Contract):
    """One node's total and the weighted normalised score of each plugin."""

    node: str
    total: int
    plugins: dict[str, int] = Field(default_factory=dict)


class PluginRefusal(Contract):
    """How many nodes one plugin refused first, by reason."""

    plugin: str
    reasons: dict[str, int]


class LateVerdict(Sparse):
    """Reserve or Permit did not let the pod have the node that was chosen for it."""

    point: Literal["reserve", "permit"]
    plugin: str
    """Whose verdict it is; its words are the decision's message."""
    node: str
    """The one that was chosen."""
    wait: bool = False
    """Permit asked to wait, where pods do not wait."""


class OwnNodes(Sparse):
    """The deciding worker preferred nodes of its own, those that rendezvous hashing over the members gives it."""

    me: str
    """`<tenant>/<slot>`."""
    members: tuple[str, ...] = ()
    """Who shared the nodes; empty = too many to be told."""
    digest: str = ""
    """Of those too many (`framework.scoring.members_digest`): etcd has their registrations."""
    margin: int
    """Points of the total by which its own nodes might be worse than the best."""


class Computation(Sparse):
    """What is needed to compute the same decision again."""

    revision: int
    """Of the snapshot."""
    profile: str = ""
    """SHA-256 of the completed configuration, see the key `profiles/<sha256>`."""
    profile_name: str = "default-scheduler"
    assumed: tuple[Assumed, ...] = ()
    nominated: tuple[Nominated, ...] = ()
    """Nominations that the decision reckoned with."""
    start: int = 0
    """Where a sampling profile began to look; always 0 for one that looks at every node."""
    own_nodes: OwnNodes | None = None
    """Which nodes went before slightly better ones; None = the best node was chosen."""
    gang: str = ""
    """`<namespace>/<name>` of the gang that was decided as a whole; empty for a decision for the pod alone."""
    domain: str = ""
    """`<key>=<value>` of each label that the node had to have for the gang's sake, with commas; empty for any node.

    In a value, `%2C` stands for a comma and `%25` for a percent sign.
    """
    approximate: bool = False
    """The overlay (assumed and nominated pods) was too large to keep."""
    overlay: str = ""
    """Digest of the assumed pods (`state.cache.assumptions`), where they are too many to be named."""
    begun: tuple[str, ...] = ()
    """Pods that were assumed since the worker's last decision without one of its own, because it binds for others:
    `<ns>/<name> <create revision> <node>` each."""
    ended: tuple[str, ...] = ()
    """Pods that are assumed no more since then, though etcd does not show them bound or gone: `<ns>/<name> <create
    revision>` each."""
    lost: tuple[str, ...] = ()
    """Pods that earlier decisions of the worker placed and that it did not bind, since the results of these are perhaps
    not recorded: `<ns>/<name> <create revision> <node> <number of the decision>` each."""
    nodes: int = 0
    """In the snapshot."""
    feasible: int = 0
    """How many passed every filter."""
    worker: str = ""
    """Who decided, for people."""
    incarnation: str = ""
    """Which life of which worker decided: `<digest of its software>-<chance>`, see the key `software/<digest>`."""
    number: int = 0
    """Of this decision among those of the incarnation, from 1; the pods of a stretch, and those of a gang, are one."""
    clock: str = ""
    """The time of day that was read (RFC 3339): only where pods that are being evicted were waited for."""
    fleet_revision: str = ""
    """Of the template that the deciding instance was made from; empty for a worker started by hand."""
    micros: int = 0
    """Time the decision took."""

    def to_commit(self) -> Computation:
        """What a bind needs of it; the history has the rest already, with the decision."""
        overlay = {"assumed": (), "own_nodes": None, "overlay": "", "begun": (), "ended": (), "lost": ()}
        kept = overlay | {"incarnation": "", "number": 0, "clock": ""}
        return self.model_copy(update=kept)
