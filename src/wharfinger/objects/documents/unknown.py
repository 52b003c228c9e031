"""What of a manifest is unknown: its kind, its fields, and what may be meant by a misspelt one.

Many makers have kinds that share a name with a kind of Kubernetes, such as `apps.kruise.io` DaemonSet. So a kind is
known by its name and its group. Fields are validated as `kubectl apply` does it: those that Kubernetes does not have
are unknown (`kubernetes_fields`), keys of maps are free. Kinds and versions that are not listed, such as those of other
makers, have no unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.duplicates import doubled_keys
from wharfinger.objects.documents.fields import text
from wharfinger.objects.documents.kinds import KINDS, OURS
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields
from wharfinger.objects.documents.spelling import LONGEST, folded, shown

MOST = 100
"""Findings of one object that are named."""


def findings(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """All unknown and duplicate fields of an object, each with its path; beyond `MOST`, that there are more.

    Raises `InvalidObject` for what is nested too deeply.
    """
    kind = kubernetes_fields().kinds.get(f"{obj.get('apiVersion')} {obj.get('kind')}", "")
    try:
        found = list(islice(_all(obj, kind), MOST + 1))
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None
    return tuple(found) if len(found) <= MOST else (*found[:MOST], "and more")


def _all(obj: Mapping[str, Any], kind: str) -> Iterator[str]:
    for where, key, line in doubled_keys(obj):
        yield f"{where}{shown(key)}: duplicate field" + (f" (again at {line})" if line else "")
    if kind:
        yield from _unknown(obj, kind, "")


def _unknown(obj: Mapping[str, Any], kind: str, where: str) -> Iterator[str]:
    fields = kubernetes_fields().types[kind]
    for key, value in obj.items():
        below = fields.get(key)
        if below is None:
            meant = _meant_field(key, fields)
            yield f"{where}{shown(key)}: unknown field" + (f"; did you mean {meant}?" if meant else "")
        elif not below or not value:
            continue
        elif isinstance(value, Mapping):
            yield from _unknown(value, below, f"{where}{key}.")
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                if isinstance(entry, Mapping):
                    yield from _unknown(entry, below, f"{where}{key}[{index}].")


def _meant_field(key: object, fields: Iterable[str]) -> str:
    """The field that the key may stand for: another spelling, else one that is similar; empty for none."""
    if not isinstance(key, str) or len(key) > LONGEST:
        return ""
    for spelling in (_letters, folded):
        meant = {spelling(field): field for field in fields}.get(spelling(key))
        if meant is not None:
            return meant
    return _similar(key, fields)


def _letters(key: str) -> str:
    return "".join([char for char in key.lower() if char.isalnum()])


_SIMILAR = 0.75
"""Of two words, from which on one may be meant by the other."""
_SIMILAR_GROUPS = 0.9
"""Of two groups: `gateway.networking.k8s.io` and `networking.k8s.io` are two."""
_SHOWN = 80
_DEEPEST = 12
"""Levels below an object at which a pod template is looked for."""
_MAKERS_OF_PODS: Mapping[str, tuple[str, ...]] = {
    "acid.zalan.do": ("postgresql",),
    "apps.kruise.io": (),
    "argoproj.io": ("CronWorkflow", "Rollout", "Workflow"),
    "batch.volcano.sh": (),
    "cassandra.datastax.com": ("CassandraDatacenter",),
    "ceph.rook.io": ("CephCluster",),
    "databases.spotahome.com": ("RedisFailover",),
    "elasticsearch.k8s.elastic.co": ("Elasticsearch",),
    "jobset.x-k8s.io": (),
    "k8ssandra.io": ("K8ssandraCluster",),
    "kafka.strimzi.io": ("Kafka", "KafkaConnect", "KafkaNodePool"),
    "kubeflow.org": (),
    "leaderworkerset.x-k8s.io": (),
    "monitoring.coreos.com": ("Alertmanager", "Prometheus", "ThanosRuler"),
    "mongodbcommunity.mongodb.com": ("MongoDBCommunity",),
    "nvidia.com": ("ClusterPolicy",),
    "postgresql.cnpg.io": ("Cluster", "Pooler"),
    "ray.io": (),
    "serving.knative.dev": (),
    "sparkoperator.k8s.io": (),
    "workload.codeflare.dev": (),
}
"""Groups whose controllers make pods, for these kinds; where none is named, for all. Others are seen
by their templates."""
_PLACED_BY = ("resource.k8s.io", "scheduling.k8s.io")
"""Groups of Kubernetes whose kinds say something about where pods go, also those that are not read here."""


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A kind of objects that are not stored here."""

    name: str
    group: str
    makes_pods: bool
    """Whether its controller makes pods, as far as that can be seen."""

    @property
    def is_worth_a_note(self) -> bool:
        """Whether it may matter: not an own kind of Kubernetes that says nothing about where pods go."""
        return self.group in _PLACED_BY or self.group not in kubernetes_fields().groups

    def __str__(self) -> str:
        return f"{self.name[:_SHOWN]} ({self.group[:_SHOWN]})" if self.group else self.name[:_SHOWN]


def other_kind(obj: Mapping[str, Any]) -> OtherKind | None:
    """The kind of an object that is not stored here; None for one that is.

    Raises `InvalidObject` for an object without kind or version, for a kind that its group does not have, and for a
    version of Kubernetes that is not served.
    """
    name, version = text(obj, "kind"), text(obj, "apiVersion")
    if not name:
        raise InvalidObject("kind is missing")
    if not version:
        raise InvalidObject("apiVersion is missing")
    group = version.rpartition("/")[0]
    groups = _groups()
    if any(kind.name == name and group in (kind.group, *kind.other_groups) for kind in KINDS):
        served = group not in kubernetes_fields().groups or f"{version} {name}" in kubernetes_fields().kinds
        if not served:
            raise InvalidObject(_no_match(name, version, _versioned(name, group)))
        return None
    if name not in groups.get(group, ()):
        meant = _meant(name, group, groups)
        if meant or group in groups or "." not in group:  # the group of a custom resource has a dot
            raise InvalidObject(_no_match(name, version, meant))
    kinds = _MAKERS_OF_PODS.get(group)
    makes_pods = kinds is not None and (not kinds or name in kinds)
    return OtherKind(name, group, makes_pods or (group not in groups and has_pod_template(obj)))


def has_pod_template(obj: Mapping[str, Any]) -> bool:
    """Whether an object has a list of containers below its specification, as pod templates do."""
    level: list[Any] = [obj.get("spec")]
    for _ in range(_DEEPEST):
        mappings = [value for value in level if isinstance(value, Mapping)]
        if any(_are_containers(value.get("containers")) for value in mappings):
            return True
        lists = [value for value in level if isinstance(value, list)]
        level = [below for value in mappings for below in value.values()] + [below for one in lists for below in one]
    return False


def _no_match(name: str, version: str, meant: str) -> str:
    """Kubectl's words, and what may be meant."""
    hint = f"; did you mean {meant}?" if meant else ""
    return f'no matches for kind "{name[:_SHOWN]}" in version "{version[:_SHOWN]}"{hint}'


def _are_containers(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(one, Mapping) and "image" in one for one in value)


def _groups() -> Mapping[str, Iterable[str]]:
    """The kinds of all groups whose kinds are known: Kubernetes' and our own."""
    return {**kubernetes_fields().groups, OURS: [kind.name for kind in KINDS if kind.group == OURS]}


def _meant(name: str, group: str, groups: Mapping[str, Iterable[str]]) -> str:
    """The kind, or the kind with the version, that a misspelt one may stand for; empty for none."""
    if group in groups:
        similar = _similar(name, groups[group])
        if similar:
            return similar
    elif "." in group:
        close = get_close_matches(group[:_SHOWN], groups, n=1, cutoff=_SIMILAR_GROUPS)
        return _versioned(name, close[0]) if close and name in groups[close[0]] else ""
    elsewhere = [found for found, kinds in groups.items() if name in kinds]
    if elsewhere:
        return _versioned(name, elsewhere[0])
    similar = _similar(name, [kind for kinds in groups.values() for kind in kinds])
    return next((_versioned(similar, found) for found, kinds in groups.items() if similar in kinds), "")


def _similar(name: str, words: Iterable[str]) -> str:
    by_case = {word.lower(): word for word in words}
    close = get_close_matches(name[:_SHOWN].lower(), by_case, n=1, cutoff=_SIMILAR)
    return by_case[close[0]] if close else ""


def _versioned(name: str, group: str) -> str:
    """The kind with its version, where the version is known."""
    titles = (title.split() for title in kubernetes_fields().kinds)
    version = next((found for found, kind in titles if kind == name and found.rpartition("/")[0] == group), "")
    return f"{name} in version {version}" if version else f"{name} of the group {group}" if group else name
