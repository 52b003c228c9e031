"""Requests and limits of containers and of whole pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wharfinger.objects.documents.checks import metadata
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.model.quantities import BINARY, DECIMAL, NANO, parse_quantity

HUGE_PAGES = "hugepages-"
_COMPUTE = ("cpu", "memory")
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_STANDARD = {
    *_OF_CONTAINERS,
    *_COUNTED,
    "storage",
    "requests.storage",
    *(f"{part}.{name}" for part in ("requests", "limits") for name in _OF_CONTAINERS),
}

Check = Callable[[str, FieldPlace], None]


def check_container_resources(resources: FieldPlace, *, of_pod: bool, claims: Iterable[str] = ()) -> None:
    """The resources of a container. `of_pod`: not of a template: then a limit is the request that is left out."""
    _check(resources, _check_container_name, of_pod=of_pod)
    _check_claims(resources["claims"], list(claims))


def check_pod_resources(resources: FieldPlace, spec: FieldPlace) -> None:
    """The resources of a whole pod, beside those of its containers."""
    if resources["claims"].given:
        resources["claims"].forbidden("claims may not be set for Resources at pod-level")
    _check(resources, _check_pod_name, of_pod=False)
    asked = _requests_of_all(spec)
    for name, request in resources["requests"].pairs():
        if nanos(request.value) < asked.get(name, 0):
            total = canonical(asked[name], name)
            request.invalid(
                f"must be greater than or equal to aggregate container requests of {total}", shown(request.value)
            )
    limits = resources["limits"].map
    for container in spec["containers"].entries():
        for name, limit in container["resources"]["limits"].pairs():
            if name in limits and nanos(limit.value) > nanos(limits[name]):
                limit.invalid(f"must be less than or equal to pod limits of {shown(limits[name])}", shown(limit.value))


def check_container_resource(name: str, amount: FieldPlace) -> None:
    """The name and the amount of a resource that a container asks for."""
    _check_container_name(name, amount)
    check_amount(name, amount)


def check_amount(name: str, amount: FieldPlace) -> None:
    """An amount of a resource; what is no quantity at all is left to others."""
    try:
        found = nanos(amount.value)
    except ValueError:
        return
    if found < 0:
        amount.invalid("must be greater than or equal to 0", shown(amount.value))
    if (name in _COUNTED or is_extended(name)) and found % NANO:
        amount.invalid("must be an integer", shown(amount.value))


def check_overhead(overhead: FieldPlace) -> None:
    """What a pod needs beside its containers: rules of limits."""
    for name, amount in overhead.pairs():
        check_container_resource(name, amount)


def is_native(name: str) -> bool:
    """Whether a resource is one of Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one, such as `nvidia.com/gpu`."""
    return not is_native(name) and not name.startswith("requests.") and not metadata.label_key(f"requests.{name}")


def nanos(amount: Any) -> int:
    """A quantity in nano-units; 0 for null."""
    return 0 if amount is None else parse_quantity(amount)


def shown(amount: Any) -> str:
    """A quantity as the API server shows it: in its own notation, with the largest fitting suffix."""
    if amount is None:
        return "0"
    is_binary = isinstance(amount, str) and amount[-2:] in BINARY
    return _with_suffix(nanos(amount), is_binary=is_binary)


def canonical(amount: int, name: str) -> str:
    """Nano-units of a resource as the API server shows a sum of them."""
    return _with_suffix(amount, is_binary=name != "cpu" and not amount % (1024 * NANO))


def _with_suffix(amount: int, *, is_binary: bool) -> str:
    if not amount:
        return "0"
    if is_binary and abs(amount) >= 1024 * NANO:
        whole = -(-amount // NANO)
        suffix = next((one for one, power in reversed(BINARY.items()) if whole % (1 << power) == 0), "")
        return f"{whole >> BINARY.get(suffix, 0)}{suffix}"
    suffix = next(one for one, power in reversed(DECIMAL.items()) if amount % 10 ** (9 + power) == 0)
    return f"{amount // 10 ** (9 + DECIMAL[suffix])}{suffix}"


def _check(resources: FieldPlace, check_name: Check, *, of_pod: bool) -> None:
    limits, requests = resources["limits"], resources["requests"]
    if of_pod and limits.map:
        requests = requests.at({**limits.map, **requests.map})
    for amounts in (limits, requests):
        for name, amount in amounts.pairs():
            check_name(name, amount)
            check_amount(name, amount)
            if name.startswith(HUGE_PAGES) and not _whole_pages(name, amount.value):
                amount.invalid(f"{shown(amount.value)} is not positive integer multiple of {name}", shown(amount.value))
    for name, request in requests.pairs():
        _check_overcommit(name, request, requests, limits)
    names = {*limits.map, *requests.map}
    if not names.intersection(_COMPUTE) and any(name.startswith(HUGE_PAGES) for name in names):
        resources.forbidden("HugePages require cpu or memory")


def _check_overcommit(name: str, request: FieldPlace, requests: FieldPlace, limits: FieldPlace) -> None:
    may_overcommit = is_native(name) and not name.startswith(HUGE_PAGES)
    if name not in limits.map:
        if not may_overcommit:
            limits.required("Limit must be set for non overcommitable resources")
        return
    limit, asked = nanos(limits.map[name]), nanos(request.value)
    if asked != limit and not may_overcommit:
        requests.invalid(f"must be equal to {name} limit of {shown(limits.map[name])}", shown(request.value))
    elif asked > limit:
        requests.invalid(
            f"must be less than or equal to {name} limit of {shown(limits.map[name])}", shown(request.value)
        )


def _whole_pages(name: str, amount: Any) -> bool:
    try:
        size = parse_quantity(name.removeprefix(HUGE_PAGES))
    except ValueError:
        return False
    return size > 0 and size % NANO == 0 and -(-nanos(amount) // NANO) % (size // NANO) == 0


def _check_container_name(name: str, amount: FieldPlace) -> None:
    wrong = metadata.label_key(name)
    amount.each(wrong, name)
    if "/" not in name:
        if not wrong and name not in _STANDARD and not name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
            amount.invalid("must be a standard resource type or fully qualified", name)
        if name not in _OF_CONTAINERS and not name.startswith(HUGE_PAGES):
            amount.invalid("must be a standard resource for containers", name)
    elif not is_native(name) and not is_extended(name):
        amount.invalid("doesn't follow extended resource name standard", name)


def _check_pod_name(name: str, amount: FieldPlace) -> None:
    if name not in _COMPUTE and not name.startswith(HUGE_PAGES):
        amount.at(name).unsupported(("cpu", HUGE_PAGES, "memory"))


def _check_claims(claims: FieldPlace, known: list[str]) -> None:
    seen: set[tuple[str, str]] = set()
    for claim in claims.entries():
        name = claim["name"].text
        if not name:
            claim.required()
            continue
        key = name, claim["request"].text
        if key in seen or (name, "") in seen:
            claim.duplicate("/".join(filter(None, key)))
        seen.add(key)
        if name not in known:
            names = f": {', '.join(sorted(known))}" if known else " which is empty"
            claim.not_there(name, f"must be one of the names in pod.spec.resourceClaims{names}")


def _requests_of_all(spec: FieldPlace) -> Mapping[str, int]:
    """What the containers of a pod ask for together: nano-units by resource."""
    total: dict[str, int] = {}
    for container in spec["containers"].entries():
        _add(total, _requested(container))
    staying: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec["initContainers"].entries():
        requested = _requested(container)
        now = dict(staying)
        _add(now, requested)
        if container["restartPolicy"].text == "Always":
            _add(total, requested)
            staying = now
        for name, amount in now.items():
            peak[name] = max(peak.get(name, 0), amount)
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in {*total, *peak}}


def _requested(container: FieldPlace) -> Mapping[str, int]:
    resources = container["resources"]
    asked = {**resources["limits"].map, **resources["requests"].map}
    return {name: nanos(amount) for name, amount in asked.items()}


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
