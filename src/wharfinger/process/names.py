"""Workflow ids, task queues, search attributes and types of failures, and the queries that find runs by them.

Every id begins with the cluster's name, so that clusters can share a Temporal namespace.

A pod's own attempts carry its name (`WharfingerPod`). A cohort or a gang decides up to hundreds of pods, and Temporal
takes 2 KiB a search attribute, so its run carries a short digest of each pod's name instead (`WharfingerPods`). A small
group carries the names, too.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from typing import Literal

from wharfinger.errors import UsageError
from wharfinger.objects.model import names
from wharfinger.objects.model.names import is_dns_label

DEFAULT_CLUSTER = "wharfinger"
COMMON = names.COMMON
RESERVED_TENANTS = names.RESERVED_TENANTS
TENANT_LABEL = "wharfinger.dev/tenant"
"""Unless it is set otherwise."""
ATTEMPT_ANNOTATION = names.ATTEMPT_ANNOTATION

SCHEDULE_ATTEMPT = "ScheduleAttempt"
SCHEDULE_COHORT = "ScheduleCohort"
FLEET = "Fleet"
ROLLING_UPDATE = "RollingUpdate"
NODE_EVICTION = "NodeEviction"
SCHEDULE_PLACEMENT = "SchedulePlacement"
ROLL_OUT_PLACEMENT = "RollOutPlacement"
STAGED_UPDATE_RUN = "StagedUpdateRun"


class FailureType(StrEnum):
    """Types of the errors that fail a run, mostly an attempt; its retry policy retries all but the last two."""

    UNSCHEDULABLE = "Unschedulable"
    """No node now: the pod waited, or was woken."""
    CONTENDED = "Contended"
    """Another pod took the room first."""
    BEHIND = "Behind"
    """This worker's cache has not seen the pod's revision in time."""
    UNAVAILABLE = "Unavailable"
    """The store did not answer: Temporal retries activities that write, the chain retries decisions."""
    SCHEDULER_ERROR = "SchedulerError"
    """A plugin raised, or something else that should not happen."""
    WRONG_ID = "WrongWorkflowId"
    """The run was started under an id that is not the pod's own; never retried."""
    INVALID_INPUT = "InvalidInput"
    """The input names no pod; never retried."""


AFTER_COHORT = "cohort "
"""Begins the cause of a chain that follows on a cohort's record: then its `<workflow id>@<run id>`."""

SEARCH_POD = "WharfingerPod"
SEARCH_PODS = "WharfingerPods"
SEARCH_NODE = "WharfingerNode"
SEARCH_OUTCOME = "WharfingerOutcome"
SEARCH_TENANT = "WharfingerTenant"
SEARCH_PLACEMENT = "WharfingerPlacement"
SEARCH_ATTRIBUTES: Mapping[str, Literal["Keyword", "KeywordList"]] = {
    SEARCH_POD: "Keyword",
    SEARCH_PODS: "KeywordList",
    SEARCH_NODE: "Keyword",
    SEARCH_OUTCOME: "Keyword",
    SEARCH_TENANT: "Keyword",
    SEARCH_PLACEMENT: "Keyword",
}
"""With their types; registered at start-up."""
SEARCH_BUILDS = "BuildIds"
"""Temporal's own: the builds of workers that completed tasks of a run."""

NAME_LIMIT = 255
"""Characters of a workflow id and of a keyword search attribute: what Temporal on SQL stores takes of each."""


def check_cluster(name: str) -> str:
    """The cluster name, when it can be one; raises `UsageError`."""
    if not is_dns_label(name):
        raise UsageError(f"cluster name {name!r} is no DNS label (lower case letters, digits, dashes)")
    return name


def check_tenant(name: str) -> str:
    """The tenant (or `common`), when it can be one; raises `UsageError`."""
    if name != COMMON and (name in RESERVED_TENANTS or not is_dns_label(name)):
        reserved = ", ".join(sorted(RESERVED_TENANTS - {COMMON}))
        raise UsageError(f"tenant {name!r} is no DNS label, or one of the reserved names {reserved}")
    return name


def check_tenant_label(key: str) -> str:
    """The key of the label that names a pod's tenant, when it can be one; raises `UsageError`."""
    if not names.is_qualified_name(key):
        raise UsageError(f"tenant label {key!r} is no key of a label, such as {TENANT_LABEL}")
    return key


def pool_of(label: str, tenants: Container[str]) -> str:
    """Whose instances schedule pods with this value of the tenant label: the tenant's while it exists."""
    return label if label and label in tenants else COMMON


def task_queue(cluster: str, tenant: str = COMMON) -> str:
    """Where attempts of a tenant's pods (or of the common pool's) are worked on."""
    return f"{cluster}/{tenant}"


def pod_workflow_id(cluster: str, namespace: str, name: str, uid: str) -> str:
    """The one id of a pod's attempts: `<cluster>/pod/<namespace>/<name>/<uid>`.

    At most 255 characters: the name is shortened (with a hash of it), the uid never.
    """
    return _within_limit(f"{cluster}/pod/{namespace}/", name, f"/{uid}")


def cohort_workflow_id(cluster: str, name: str) -> str:
    """The id of a cohort: `<cluster>/cohort/<id>`."""
    return f"{cluster}/cohort/{name}"


def control_queue(cluster: str) -> str:
    """Where fleets and rollouts are worked on, by agents."""
    return f"{cluster}/control"


def host_queue(cluster: str, host: str) -> str:
    """Where one host's agent is asked to start and to end instances."""
    return f"{cluster}/host/{host}"


def fleet_workflow_id(cluster: str, tenant: str) -> str:
    """The one id of a fleet: `<cluster>/fleet/<tenant or common>`."""
    return f"{cluster}/fleet/{tenant}"


def rollout_workflow_id(cluster: str, tenant: str, generation: int) -> str:
    """The id of a rollout: `<cluster>/rollout/<tenant or common>/<generation>`."""
    return f"{cluster}/rollout/{tenant}/{generation}"


def node_workflow_id(cluster: str, node: str) -> str:
    """The one id of what clears a lost or tainted node of its pods: `<cluster>/lost/<node>`, at most 255 characters."""
    return _within_limit(f"{cluster}/lost/", node)


def placement_queue(cluster: str) -> str:
    """Where placements are decided, by hubs."""
    return f"{cluster}/hub/placements"


def placement_workflow_id(cluster: str, reference: str) -> str:
    """The one id of a placement's attempts: `<cluster>/placement/<P>`, at most 255 characters."""
    return _within_limit(f"{cluster}/placement/", reference)


def placement_rollout_id(cluster: str, reference: str) -> str:
    """The one id of a placement's rollouts: `<cluster>/placement-rollout/<P>`, at most 255 characters."""
    return _within_limit(f"{cluster}/placement-rollout/", reference)


def update_run_id(cluster: str, reference: str, run: str, identity: int) -> str:
    """The one id of an update run: `<cluster>/update-run/<P>/<run>/<identity>`, at most 255 characters.

    `identity`: the create revision of its object, so that a run that is made again has another id.
    """
    return _within_limit(f"{cluster}/update-run/", f"{reference}/{run}", f"/{identity}")


def placement_attribute(reference: str) -> str:
    """The value of `WharfingerPlacement`: P, shortened as the workflow id is."""
    return _within_limit("", reference)


def is_cohort(cluster: str, workflow_id: str) -> bool:
    """Whether the id is that of a cohort or a gang."""
    return workflow_id.startswith(f"{cluster}/cohort/")


def gang_workflow_id(cluster: str, namespace: str, group: str) -> str:
    """The one id of a gang's attempts: `<cluster>/cohort/<namespace>/<group>`, at most 255 characters."""
    return _within_limit(f"{cluster}/cohort/{namespace}/", group)


def pod_attribute(namespace: str, name: str) -> str:
    """The value of `WharfingerPod`: `<namespace>/<name>`, shortened as the workflow id is."""
    return _within_limit(f"{namespace}/", name)


def _within_limit(before: str, name: str, after: str = "") -> str:
    excess = len(before) + len(name) + len(after) - NAME_LIMIT
    if excess <= 0:
        return f"{before}{name}{after}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    short = name[: max(0, len(name) - excess - len(digest) - 1)]
    return f"{before}{short}~{digest}{after}"


DIGEST = 7
"""Characters of a pod's digest, 5 bits each. Of 30 million pods, another one has the same digest with a probability of
0.1 %. Lower case letters and digits only, because SQLite's index ignores case and splits words at anything else."""
MOST_NAMED = 10
"""Pods that are listed by name as well."""
MOST_BYTES = 2_046
"""Of the value's JSON (Temporal's `frontend.searchAttributesSizeOfValueLimit`), without its brackets."""
MOST_LISTED = 204
"""Digests in 2 KiB: 10 bytes each, and a bracket."""


def pod_digest(namespace: str, name: str) -> str:
    """The pod's entry in `WharfingerPods`: the first 35 bits of the SHA-256 of `<namespace>/<name>`, in base32."""
    hashed = hashlib.sha256(f"{namespace}/{name}".encode()).digest()
    return base64.b32encode(hashed)[:DIGEST].decode().lower()


def pod_digests(pods: Iterable[tuple[str, str]]) -> list[str]:
    """The value of `WharfingerPods` for these pods (namespace, name): at most the first 204, each digest once."""
    return list(dict.fromkeys(pod_digest(namespace, name) for namespace, name in pods))[:MOST_LISTED]


def pods_listed(pods: Iterable[tuple[str, str]]) -> list[str]:
    """The value of `WharfingerPods`: the digests, and of a small group the names, `<namespace>/<name>`."""
    found = list(pods)
    digests = pod_digests(found)
    names = [pod_attribute(namespace, name) for namespace, name in found] if len(found) <= MOST_NAMED else []
    named = sum(len(name.encode()) + 3 for name in names)
    return [*digests, *names] if named <= MOST_BYTES - (DIGEST + 3) * len(digests) else digests


def decisions_query(cluster: str, namespace: str, name: str, *, group: str = "") -> str:
    """A visibility query for every run that decided the pod, or tried to.

    `group`: the pod's gang, where it is known. Its runs are found by their id as well, since members may join an open
    run, and a gang may have more than 204.
    """
    found_by = [f"{SEARCH_POD} = {quoted(pod_attribute(namespace, name))}", by_digest(namespace, name)]
    if group:
        found_by.append(f"WorkflowId = {quoted(gang_workflow_id(cluster, namespace, group))}")
    return f"WorkflowId STARTS_WITH {quoted(f'{cluster}/')} AND ({' OR '.join(found_by)})"


def by_digest(namespace: str, name: str) -> str:
    """The part of the query that finds cohorts and gangs."""
    return f"{SEARCH_PODS} = {quoted(pod_digest(namespace, name))}"


def quoted(text: str) -> str:
    """As a string of Temporal's query language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
