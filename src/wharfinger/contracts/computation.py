"""What a decision was computed from, and what it saw: enough to explain it, and to compute it again.

Decisions for one pod (`contracts.scheduling`) and for many (`contracts.cohort_scheduling`) carry it alike.
"""

from __future__ import annotations

from pydantic import Field

from wharfinger.contracts.contract import Contract


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


class OwnNodes(Contract):
    """The deciding worker preferred nodes of its own, those that rendezvous hashing over the members gives it."""

    me: str
    """`<tenant>/<slot>`."""
    members: tuple[str, ...] = ()
    """Who shared the nodes; empty = too many to be told."""
    margin: int
    """Points of the total by which its own nodes might be worse than the best."""


class Computation(Contract):
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
    nodes: int = 0
    """In the snapshot."""
    feasible: int = 0
    """How many passed every filter."""
    worker: str = ""
    """Who decided, for people."""
    fleet_revision: str = ""
    """Of the template that the deciding instance was made from; empty for a worker started by hand."""
    micros: int = 0
    """Time the decision took."""
