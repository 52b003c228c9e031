"""Nodes and pods as the driver makes them: every rule that a bind must keep has a namespace where it is scarce."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

from tests.faults.judge import GROUP, MIN_AVAILABLE

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = "abc"
TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
NAMESPACES = {
    "bulk": 8, "big": 7, "ports": 3, "apart": 3, "spread": 3, "together": 2, "guests": 3, "hosts": 2, "far": 1,
}  # fmt: skip
"""Where a single new pod goes, by how often."""

Object = dict[str, Any]


class Population:
    """Makes objects; names are never used for two things, but a name lives on when a pod is made again."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._numbers = itertools.count()

    def node(self, name: str | None = None) -> Object:
        """A node of any size in any zone."""
        rng = self._rng
        number = next(self._numbers)
        name = name or f"n{number:04}"
        zone = ZONES[number % len(ZONES)] if rng.random() < 0.8 else rng.choice(ZONES)
        resources = {
            "cpu": str(rng.choice((4, 8, 8, 16))),
            "memory": "32Gi",
            "pods": str(rng.choice((12, 40, 60))),
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": f"uid-{name}-{number}",
                "labels": {HOSTNAME: name, ZONE: zone, "disk": rng.choice(("ssd", "hdd"))},
            },
            "spec": {"taints": [TAINT]} if rng.random() < 0.15 else {},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def pod(self, namespace: str | None = None) -> Object:
        """A pod of any namespace, or of this one."""
        rng = self._rng
        namespace = namespace or rng.choices(list(NAMESPACES), list(NAMESPACES.values()))[0]
        labels, spec = getattr(self, f"_{namespace}")()
        if rng.random() < 0.25:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if rng.random() < 0.03:
            spec["schedulingGates"] = [{"name": "example.com/not-yet"}]
        if rng.random() < 0.02:
            spec["schedulerName"] = "somebody-else"
        return self._pod(namespace, labels, spec)

    def burst(self) -> list[Object]:
        """Many pods at once, as a big Deployment or a queue of jobs brings them."""
        size = self._rng.randint(100, 300)
        return [self.pod("bulk" if self._rng.random() < 0.9 else None) for _ in range(size)]

    def rule_burst(self) -> list[Object]:
        """Some at once that have to mind each other, and those they share a rule with."""
        namespaces = self._rng.choice(
            (("apart",), ("spread",), ("together",), ("guests", "hosts"), ("far",), ("ports",))
        )
        return [self.pod(self._rng.choice(namespaces)) for _ in range(self._rng.randint(5, 25))]

    def gang(self) -> list[Object]:
        """A group that is worth nothing by halves."""
        size = self._rng.randint(2, 8)
        labels = {GROUP: f"g{next(self._numbers)}", MIN_AVAILABLE: str(size), "app": "gang"}
        cpu = self._rng.choice(("500m", "1", "2"))
        return [self._pod("gangs", labels, self._asking(cpu)) for _ in range(size)]

    def again(self, pod: Object) -> Object:
        """The same pod in a new life."""
        old = pod["metadata"]
        metadata = {
            "name": old["name"],
            "namespace": old["namespace"],
            "uid": f"uid-{old['name']}-{next(self._numbers)}",
            "labels": dict(old.get("labels", {})),
        }
        spec = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _pod(self, namespace: str, labels: dict[str, str], spec: Object) -> Object:
        number = next(self._numbers)
        name = f"{labels['app']}-{number}"
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}-{number}", "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _asking(self, cpu: str, memory: str = "64Mi", **more: Any) -> Object:
        requests = {"cpu": cpu, "memory": memory}
        return {"containers": [{"name": "main", "image": "example/app:1", "resources": {"requests": requests}}], **more}

    def _bulk(self) -> tuple[dict[str, str], Object]:
        spec = self._asking(self._rng.choice(("100m", "200m", "500m")))
        if self._rng.random() < 0.1:
            spec["nodeSelector"] = {"disk": "ssd"}
        return {"app": "bulk"}, spec

    def _big(self) -> tuple[dict[str, str], Object]:
        spec = self._asking(self._rng.choice(("1", "2", "3")), "4Gi")
        spec["priority"] = self._rng.choice((0, 0, 100))
        return {"app": "big"}, spec

    def _ports(self) -> tuple[dict[str, str], Object]:
        spec = self._asking("50m")
        port = 8000 + self._rng.randrange(4)
        spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        return {"app": "ports"}, spec

    def _apart(self) -> tuple[dict[str, str], Object]:
        app, key = self._rng.choice((("zoned", ZONE), ("hosted", HOSTNAME)))
        return {"app": app}, self._asking("50m", **required("podAntiAffinity", affinity_term(key, app)))

    def _spread(self) -> tuple[dict[str, str], Object]:
        app, key = self._rng.choice((("by-zone", ZONE), ("by-host", HOSTNAME)))
        constraint = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        return {"app": app}, self._asking("50m", topologySpreadConstraints=[constraint])

    def _together(self) -> tuple[dict[str, str], Object]:
        app = self._rng.choice(("one", "two"))
        return {"app": app}, self._asking("50m", **required("podAffinity", affinity_term(ZONE, app)))

    def _guests(self) -> tuple[dict[str, str], Object]:
        """They have no rule; those of `hosts` keep the noisy ones off their nodes or zones."""
        return {"app": "guest", "noisy": self._rng.choice(("yes", "no"))}, self._asking("50m")

    def _hosts(self) -> tuple[dict[str, str], Object]:
        term = {
            "topologyKey": self._rng.choice((HOSTNAME, ZONE)),
            "labelSelector": {"matchLabels": {"noisy": "yes"}},
            "namespaces": ["guests"],
        }
        return {"app": "quiet"}, self._asking("50m", **required("podAntiAffinity", term))

    def _far(self) -> tuple[dict[str, str], Object]:
        term = affinity_term(ZONE, "far", namespaceSelector={})
        return {"app": "far"}, self._asking("50m", **required("podAntiAffinity", term))


def affinity_term(key: str, app: str, **more: Any) -> Object:
    """Pods of an app in one domain of the label."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def required(kind: str, *terms: Object) -> Object:
    """A required `podAffinity` or `podAntiAffinity`."""
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}
