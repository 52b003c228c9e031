"""The form of a report that is kept as a file: what `replay --keep-in` writes and the web page reads.

`report` is what `-o json` prints (docs/json-outputs.md). Fields are added with defaults and never renamed, so a page of
the previous or the next release reads it. Reading trusts nothing: every field has a type and a range, and what is not
known is left out. `kept_reports` has the files.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

KIND = "ReplayReport"
VERSION = 1
_EXACT = 2**53
"""Up to here browsers have whole numbers."""

Count = Annotated[int, Field(ge=0, le=_EXACT)]
Points = Annotated[int, Field(ge=-_EXACT, le=_EXACT)]
Figure = Annotated[float, Field(ge=0, le=_EXACT)]


class _Form(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True, allow_inf_nan=False)


class VerdictCounts(_Form):
    """Decisions by how they compare; of a rerun, pods."""

    same: Count = 0
    figures: Count = 0
    elsewhere: Count = 0
    refused: Count = 0
    placed: Count = 0
    evicted: Count = 0
    otherwise: Count = 0
    unreplayable: Count = 0


class PackingMeans(_Form):
    """How full the chosen nodes are, from 0 to 1; None without a placement."""

    recorded: Figure | None = None
    again: Figure | None = None


class PackingPoint(PackingMeans):
    """The same of one minute."""

    time: str


class WorkloadCounts(VerdictCounts):
    """Of one workload."""

    workload: str


class NamespaceCounts(VerdictCounts):
    """Of one namespace."""

    namespace: str
    packing: PackingMeans = PackingMeans()


class ReasonCounts(_Form):
    """How often pods were refused for one reason."""

    verdict: str
    message: str
    decisions: Count
    namespaces: dict[str, Count] = {}


class LackExample(_Form):
    """One pod whose decision could not be made again."""

    pod: str
    detail: str = ""


class LackCounts(_Form):
    """Decisions that lack the same."""

    lack: str
    decisions: Count
    namespaces: dict[str, Count] = {}
    examples: list[LackExample] = []


class SaidOfPod(_Form):
    """One decision in short."""

    node: str = ""
    total: Points | None = None
    scores: dict[str, Points] = {}
    message: str = ""
    rejectors: list[str] = []
    nominated_node: str = ""
    victims: list[str] = []
    domain: str = ""


class DifferingPod(_Form):
    """A pod that was decided otherwise, with both decisions."""

    pod: str
    verdict: str
    differs: list[str] = []
    apart: Count = 0
    revision: Count = 0
    profile: str = ""
    workflow_id: str = ""
    run_id: str = ""
    recorded: SaidOfPod
    again: SaidOfPod


class BuildCounts(_Form):
    """Decisions of one build, with one set of packages."""

    digest: str = ""
    build: str | None = None
    packages: dict[str, str] = {}
    decisions: Count = 0


class ArchiveGap(_Form):
    """Revisions between which an archive lacks events."""

    after: Count
    before: Count
    restored: bool = False


class _Figures(_Form):
    change: list[str] = []
    since: str | None = None
    until: str | None = None
    seconds: Figure = 0.0
    runs: Count = 0
    revision: Count = 0
    gaps: list[ArchiveGap] = []
    lost: Count = 0
    undecided: Count = 0
    unread: Count = 0
    decisions: Count
    summary: VerdictCounts
    profiles: dict[str, VerdictCounts] = {}
    workloads: list[WorkloadCounts] = []
    namespaces: list[NamespaceCounts] = []
    reasons: list[ReasonCounts] = []


class ShadowFigures(_Figures):
    """The report of `--mode shadow`."""

    mode: Literal["shadow"] = "shadow"
    same_share: Figure | None = None
    differs: dict[str, Count] = {}
    unreplayable: list[LackCounts] = []
    packing: PackingMeans = PackingMeans()
    packing_over_time: list[PackingPoint] = []
    pods: list[DifferingPod] = []
    builds: list[BuildCounts] = []


class ClusterFigures(_Form):
    """A cluster at one time."""

    use: dict[str, Figure] = {}
    """Per cent by resource."""
    fragmentation: dict[str, Figure] = {}
    """By resource, the share of what is free that lies on nodes where a pod that asks for it does not fit."""


class LivedMoment(_Form):
    """Both clusters at one revision."""

    revision: Count
    time: str | None = None
    """About when that was: when the last run before it began; None where none had."""
    recorded: ClusterFigures
    again: ClusterFigures


class LivedDifference(_Form):
    """A pod that ended otherwise in a rerun."""

    pod: str
    verdict: str
    recorded: str = ""
    again: str = ""
    message: str = ""
    recorded_message: str = ""
    recorded_total: Points | None = None
    recorded_scores: dict[str, Points] = {}
    again_total: Points | None = None
    evicted: bool = False


class LivedEviction(_Form):
    """A victim of a rerun."""

    victim: str
    preemptor: str


class RerunFigures(_Figures):
    """The report of `--mode rerun`."""

    mode: Literal["rerun"]
    evictions: list[LivedEviction] = []
    eviction_count: Count = 0
    stopped: bool = False
    over_time: list[LivedMoment] = []
    pods: list[LivedDifference] = []


class LivedEnds(_Form):
    """Where each pod of a rerun ended; not part of `-o json`."""

    nodes: list[str]
    pods: list[tuple[str, Count, Annotated[int, Field(ge=-1)]]]
    """Pod, create revision, and number of its node; -1 = none."""
    evicted: list[Count] = []
    """Places of victims among these pods; they have no node."""


class KeptReport(_Form):
    """One file."""

    kind: Literal["ReplayReport"] = "ReplayReport"
    version: Literal[1] = 1
    made: AwareDatetime
    """When the replay began."""
    build: str = ""
    """Release that made it."""
    cluster: str = ""
    archive: str = ""
    """Name of the archive that was replayed; empty = the servers' records."""
    command: str = ""
    """How to make it again."""
    report: Annotated[ShadowFigures | RerunFigures, Field(discriminator="mode")]
    ends: LivedEnds | None = None
    """Of a rerun; None where there are too many."""


class KeptHead(_Form):
    """What says whether the rest can be read."""

    kind: Literal["ReplayReport"]
    version: Count
