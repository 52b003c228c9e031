"""How the runs that decided a pod are found in Temporal: one query for its own attempts, cohorts and gangs.

A pod's own attempts carry its name (`WharfingerPod`). A cohort or a gang decides up to hundreds of pods, and Temporal
takes 2 KiB a search attribute, so its run carries a short digest of each pod's name instead (`WharfingerPods`). A small
group carries the names, too.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from temporalio.common import SearchAttributeKey

from wharfinger.process.names import SEARCH_POD, SEARCH_PODS, gang_workflow_id, pod_attribute

PODS_KEY = SearchAttributeKey.for_keyword_list(SEARCH_PODS)

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
