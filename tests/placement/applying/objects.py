"""Objects of which the tests of `placement.applying` need many: given, and made by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]


def deployment(spec: Object | None = None, status: Object | None = None, **metadata: object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", **metadata},
        "spec": {} if spec is None else spec,
        **({} if status is None else {"status": status}),
    }


def service(spec: Object | None = None, status: Object | None = None) -> Object:
    found = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec or {}}
    return found if status is None else {**found, "status": status}


def pods(*containers: Object, **spec: object) -> Object:
    """The spec of a Deployment with such pods."""
    return {"template": {"spec": {"containers": list(containers), **spec}}}


def _listed(key: str, values: list[Any], fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[list[Object]]:
    element = st.fixed_dictionaries({key: st.sampled_from(values)}, optional=fields)
    return st.lists(element, max_size=3, unique_by=lambda one: one[key])


_WORD = st.sampled_from(["x", "y", None])
_LABELS = st.dictionaries(st.sampled_from("abc"), _WORD, max_size=3)
_CONTAINERS = _listed(
    "name",
    ["c", "d", "e"],
    {
        "image": _WORD,
        "args": st.lists(st.sampled_from("xy"), max_size=2),
        "env": _listed("name", ["A", "B"], {"value": _WORD}),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"containerPort": st.sampled_from([53, 80])}, optional={"protocol": st.sampled_from(["TCP", "UDP"])}
            ),
            max_size=4,
        ),
        "resources": st.fixed_dictionaries({}, optional={"limits": _LABELS}),
    },
)
_POD = st.fixed_dictionaries(
    {},
    optional={
        "containers": _CONTAINERS,
        "volumes": _listed("name", ["v", "w"], {"emptyDir": st.just({}), "secret": _LABELS}),
        "tolerations": st.lists(_LABELS, max_size=2),
        "nodeSelector": _LABELS | _WORD,
    },
)
_STRATEGY = st.fixed_dictionaries({}, optional={"type": _WORD, "rollingUpdate": _LABELS})
deployments = st.builds(
    lambda spec, metadata: deployment(spec, **metadata),
    st.fixed_dictionaries(
        {},
        optional={
            "replicas": st.integers(0, 3),
            "strategy": _STRATEGY,
            "template": st.fixed_dictionaries({"spec": _POD}),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "labels": _LABELS,
            "finalizers": st.lists(st.sampled_from("fgh"), max_size=3),
            "uid": st.sampled_from(["1", "2"]),
        },
    ),
)
"""Deployments that have fields in common; some have nulls, and two ports of one number."""
