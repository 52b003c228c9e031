"""Objects of placement: whether they are valid, and which of their fields have no effect.

All problems are reported at once, each with the path of its field. Rules are those of KubeFleet's API server and
webhooks; what it reports one after the other, or only while it schedules, is reported when the object is applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from wharfinger.framework.config.validation import BecauseOf, ConfigPart, Problem, refuse, stands, understood
from wharfinger.objects.documents.fields import part
from wharfinger.objects.model.placement_kinds import (
    BUDGET,
    CLUSTER_GROUP,
    CLUSTER_OVERRIDE,
    CLUSTER_PLACEMENT,
    EVICTION,
    KUBEFLEET_FINALIZERS,
    MEMBER_CLUSTER,
    NAMESPACED_PLACEMENT,
    OVERRIDE,
    PLACEMENT_GROUP,
    PLACEMENTS,
    UPDATE_STRATEGIES,
    VERSIONS,
)
from wharfinger.placement.spec.placement_fields import (
    BudgetFields,
    EvictionFields,
    MemberFields,
    PlacementFields,
    ResourceSelectorFields,
    RolloutStrategyFields,
    immutable,
    spelled,
)
from wharfinger.placement.spec.placement_override_fields import (
    ClusterOverrideFields,
    ClusterOverrideSpecFields,
    NamedSelectorFields,
    OverrideFields,
    OverrideSpecFields,
    override_problems,
)
from wharfinger.placement.spec.placement_policy_fields import (
    LONGEST_NAME,
    PolicyFields,
    TermFields,
    TolerationFields,
    label_problems,
)
from wharfinger.placement.spec.placement_update_fields import UPDATE_KINDS, forbidden_change

_POLICY = "spec.policy."
_TYPE = f"{_POLICY}placementType"
_AFFINITY = "spec.policy.affinity.clusterAffinity."
_REQUIRED = f"{_AFFINITY}requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms"
_PREFERRED = f"{_AFFINITY}preferredDuringSchedulingIgnoredDuringExecution"


def check_placement_object(written: Mapping[str, Any], *, reads_status: bool = False) -> tuple[str, ...]:
    """Check an object of placement. Returns a line for each field that has no effect.

    `reads_status`: whether the status that a member has in the file is decided by, as `simulate` does. Raises
    InvalidConfiguration, which names all that is wrong.
    """
    kind = written.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise refuse([("kind", f"is none of {', '.join(_KINDS)}")])
    model, group, together = _KINDS[kind]
    fields, problems = understood(written, model)
    malformed = [path for path, _ in problems]
    problems += [problem for problem in (*_identity(written, group), *together(fields)) if stands(problem, malformed)]
    if problems:
        raise refuse(problems)
    return _lines(without_effect(written, fields, reads_status))


def notes_on(written: Mapping[str, Any]) -> tuple[str, ...]:
    """What `check_placement_object` tells of a valid manifest, where another object than the manifest is checked."""
    return _lines(without_effect(written, understood(written, _KINDS[written["kind"]][0])[0], False))


def _lines(found: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(f"{path} has no effect: {why}" for path, why in found)


def check_placement_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Check that a valid object may become another valid one. Raises InvalidConfiguration."""
    problems: list[Problem] = [*forbidden_change(old, new)]
    if new.get("kind") == EVICTION:
        before, after = understood(old, EvictionFields)[0].spec, understood(new, EvictionFields)[0].spec
        problems += immutable(before, after, "placement_name", "cluster_name")
    if new.get("kind") in PLACEMENTS:
        was, becomes = understood(old, PlacementFields)[0].spec, understood(new, PlacementFields)[0].spec
        before_type = was.policy.placement_type if was.policy is not None else "PickAll"
        if was.policy is not None and becomes.policy is None:
            problems.append(("spec.policy", "may not be removed once it is set"))
        elif becomes.policy is not None and becomes.policy.placement_type != before_type:
            problems.append((f"{_POLICY}placementType", f"may not change; it is {before_type}"))
        if was.strategy.type == "External" != becomes.strategy.type:
            problems.append(("spec.strategy.type", "may not change from External to another type"))
    if problems:
        raise refuse(problems)


def overridden(written: Mapping[str, Any]) -> dict[tuple[str, str, str, str], str]:
    """Which objects an override selects (group, version, kind, name), each with the path of its selector."""
    spec: ClusterOverrideSpecFields | OverrideSpecFields
    if written.get("kind") == CLUSTER_OVERRIDE:
        spec = understood(written, ClusterOverrideFields)[0].spec
    else:
        spec = understood(written, OverrideFields)[0].spec
    selected: Iterable[ResourceSelectorFields | NamedSelectorFields] = spec.selected
    return {
        (one.group, one.version, one.kind, one.name): f"{spec.where}[{index}]" for index, one in enumerate(selected)
    }


def _identity(written: Mapping[str, Any], group: str) -> Iterator[Problem]:
    version = written.get("apiVersion")
    if version not in [f"{group}/{one}" for one in VERSIONS]:
        yield "apiVersion", f"must be {' or '.join(f'{group}/{one}' for one in VERSIONS)}"
    metadata = part(written, "metadata")
    finalizers = metadata.get("finalizers")
    if finalizers is not None and not (
        isinstance(finalizers, list) and all(isinstance(one, str) for one in finalizers)
    ):
        yield "metadata.finalizers", "is no list of texts"
    name = metadata.get("name")
    if not name:
        yield "metadata.name", "is missing"
    elif not isinstance(name, str):
        yield "metadata.name", "is no text"
    elif len(name) > LONGEST_NAME and written.get("kind") not in (EVICTION, *UPDATE_STRATEGIES):
        yield "metadata.name", f"is longer than {LONGEST_NAME} characters"


def _placement(fields: ConfigPart) -> Iterator[Problem]:
    assert isinstance(fields, PlacementFields), "of this kind"
    spec = fields.spec
    if not spec.resource_selectors:
        yield "spec.resourceSelectors", "is missing"
    for index, selector in enumerate(spec.resource_selectors):
        yield from _resource(selector, f"spec.resourceSelectors[{index}].")
    if spec.policy is not None:
        yield from _policy(spec.policy)
    yield from _strategy(spec.strategy)


def _resource(selector: ResourceSelectorFields, where: str) -> Iterator[Problem]:
    for field in ("version", "kind"):
        if not getattr(selector, field):
            yield f"{where}{field}", "is missing"
    if selector.name and selector.label_selector is not None:
        yield f"{where}labelSelector", "must be absent where there is a name"
    yield from label_problems(selector.label_selector, f"{where}labelSelector.")


def _policy(policy: PolicyFields) -> Iterator[Problem]:
    kind = policy.placement_type
    only = {
        "clusterNames": (policy.cluster_names, ("PickFixed",)),
        "numberOfClusters": (policy.number_of_clusters, ("PickN",)),
        "affinity": (policy.affinity, ("PickAll", "PickN")),
        "topologySpreadConstraints": (policy.topology_spread_constraints, ("PickN",)),
        "tolerations": (policy.tolerations, ("PickAll", "PickN")),
    }
    for field, (value, kinds) in only.items():
        if value not in (None, ()) and kind not in kinds:
            message = f"must be absent for {kind}; it is for {' and '.join(kinds)}"
            yield f"{_POLICY}{field}", BecauseOf(_TYPE, message)
    if kind == "PickN" and policy.number_of_clusters is None:
        yield f"{_POLICY}numberOfClusters", BecauseOf(_TYPE, "is missing; PickN needs it")
    yield from _doubles(policy.cluster_names, f"{_POLICY}clusterNames", "is named twice")
    keys = [one.topology_key for one in policy.topology_spread_constraints]
    for index, key in enumerate(keys):
        if not key:
            yield f"{_POLICY}topologySpreadConstraints[{index}].topologyKey", "is missing"
    yield from _doubles([key for key in keys if key], f"{_POLICY}topologySpreadConstraints", "has two constraints")
    for index, toleration in enumerate(policy.tolerations):
        yield from _toleration(toleration, f"{_POLICY}tolerations[{index}].")
    yield from _doubles(policy.tolerations, f"{_POLICY}tolerations", "is there twice", lambda one: one.key or "any key")
    yield from _affinity(policy)


def _affinity(policy: PolicyFields) -> Iterator[Problem]:
    affinity = policy.affinity.cluster_affinity if policy.affinity is not None else None
    if affinity is None:
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    for index, term in enumerate(required.cluster_selector_terms if required is not None else ()):
        where = f"{_REQUIRED}[{index}]."
        if term.property_sorter is not None:
            yield f"{where}propertySorter", "is only for what is preferred"
        yield from _term(term, where)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    if preferred and policy.placement_type == "PickAll":
        yield _PREFERRED, BecauseOf(_TYPE, "must be absent for PickAll, which takes whoever is accepted")
    for index, entry in enumerate(preferred):
        where = f"{_PREFERRED}[{index}]."
        if entry.weight is None:
            yield f"{where}weight", "is missing"
        if entry.preference is None:
            yield f"{where}preference", "is missing"
            continue
        if entry.preference.property_selector is not None:
            yield f"{where}preference.propertySelector", "is only for what is required"
        yield from _term(entry.preference, f"{where}preference.")


def _term(term: TermFields, where: str) -> Iterator[Problem]:
    yield from label_problems(term.label_selector, f"{where}labelSelector.")
    for index, one in enumerate(term.property_selector.match_expressions if term.property_selector is not None else ()):
        path = f"{where}propertySelector.matchExpressions[{index}]."
        for field, value in (("name", one.name), ("operator", one.operator), ("values", one.values)):
            if not value:
                yield f"{path}{field}", "is missing"
    sorter = term.property_sorter
    if sorter is not None and not sorter.name:
        yield f"{where}propertySorter.name", "is missing"
    if sorter is not None and sorter.sort_order is None:
        yield f"{where}propertySorter.sortOrder", "is missing"


def _toleration(toleration: TolerationFields, where: str) -> Iterator[Problem]:
    if toleration.operator == "Exists" and toleration.value:
        yield f"{where}value", BecauseOf(f"{where}operator", "must be absent for Exists")
    if toleration.operator == "Equal" and not toleration.key:
        yield f"{where}key", BecauseOf(f"{where}operator", "is missing; only Exists takes any key")


def _strategy(strategy: RolloutStrategyFields) -> Iterator[Problem]:
    if strategy.type == "External" and strategy.rolling_update is not None:
        yield "spec.strategy.rollingUpdate", BecauseOf("spec.strategy.type", "must be absent when the type is External")
    rolling = strategy.rolling_update
    if rolling is not None and rolling.max_unavailable.amount == rolling.max_surge.amount == 0:
        message = "may not be 0 where maxSurge is 0: no member could ever be updated"
        yield "spec.strategy.rollingUpdate.maxUnavailable", message
    applied = strategy.apply_strategy
    if applied is not None and applied.server_side_apply_config is not None and applied.type != "ServerSideApply":
        message = BecauseOf("spec.strategy.applyStrategy.type", "is only for the type ServerSideApply")
        yield "spec.strategy.applyStrategy.serverSideApplyConfig", message
    back = strategy.report_back_strategy
    if back is not None and back.type == "Mirror" and back.destination is None:
        message = BecauseOf("spec.strategy.reportBackStrategy.type", "is missing; Mirror needs it")
        yield "spec.strategy.reportBackStrategy.destination", message


def _member(fields: ConfigPart) -> Iterator[Problem]:
    assert isinstance(fields, MemberFields), "of this kind"
    for index, taint in enumerate(fields.spec.taints):
        if not taint.key:
            yield f"spec.taints[{index}].key", "is missing"
        if taint.effect is None:
            yield f"spec.taints[{index}].effect", "is missing"
    yield from _doubles(fields.spec.taints, "spec.taints", "is there twice", lambda one: one.key)


def _eviction(fields: ConfigPart) -> Iterator[Problem]:
    assert isinstance(fields, EvictionFields), "of this kind"
    if not fields.spec.placement_name:
        yield "spec.placementName", "is missing"
    if not fields.spec.cluster_name:
        yield "spec.clusterName", "is missing"


def _budget(fields: ConfigPart) -> Iterator[Problem]:
    assert isinstance(fields, BudgetFields), "of this kind"
    if (fields.spec.max_unavailable is None) == (fields.spec.min_available is None):
        yield "spec", "needs exactly one of maxUnavailable and minAvailable"


def _doubles(values: Iterable[Any], path: str, message: str, shown: Callable[[Any], str] = str) -> Iterator[Problem]:
    for value, count in Counter(values).items():
        if count > 1:
            yield path, f"{shown(value)} {message}"


_KINDS: dict[str, tuple[type[ConfigPart], str, Callable[[ConfigPart], Iterator[Problem]]]] = {
    CLUSTER_PLACEMENT: (PlacementFields, PLACEMENT_GROUP, _placement),
    NAMESPACED_PLACEMENT: (PlacementFields, PLACEMENT_GROUP, _placement),
    MEMBER_CLUSTER: (MemberFields, CLUSTER_GROUP, _member),
    EVICTION: (EvictionFields, PLACEMENT_GROUP, _eviction),
    BUDGET: (BudgetFields, PLACEMENT_GROUP, _budget),
    CLUSTER_OVERRIDE: (ClusterOverrideFields, PLACEMENT_GROUP, override_problems),
    OVERRIDE: (OverrideFields, PLACEMENT_GROUP, override_problems),
    **UPDATE_KINDS,
}


_MEMBER_NOTES = {
    "identity": "the credentials of a member are in the files of its agent",
    "heartbeat_period_seconds": "the lease of the member's agent is its heart-beat",
    "delete_options": "a member that leaves gives up its placements first",
}
_REPORTED = {
    "agentStatus": "the lease of the member's agent, and what it reports, count",
    "conditions": "the member's agent reports them",
    "namespaces": "the member's agent reports them",
    "properties": "the member's agent reports them",
    "resourceUsage": "the member's agent reports it",
}
"""Fields of a member's status that are decided by where it is read."""
_ONLY_APPLIED = ("when_to_apply", "when_to_take_over", "allow_co_ownership")


def without_effect(written: Mapping[str, Any], fields: ConfigPart, reads_status: bool) -> Iterator[Problem]:
    """Path and reason of each. `reads_status`: whether a member's status in the file is decided by."""
    if isinstance(fields, MemberFields):
        for name, why in _MEMBER_NOTES.items():
            if name in fields.spec.model_fields_set:
                yield f"spec.{spelled(fields.spec, name)}", why
    if isinstance(fields, PlacementFields):
        yield from _placement_notes(fields)
    for index, one in enumerate(part(written, "metadata").get("finalizers") or ()):
        if str(one).startswith(KUBEFLEET_FINALIZERS):
            yield f"metadata.finalizers[{index}]", "KubeFleet's finalizers are not waited for"
    status = written.get("status")
    if isinstance(fields, MemberFields) and isinstance(status, Mapping):
        yield from _status_notes(status, reads_status)
    elif status:
        yield "status", "it is computed when it is asked for"


def _placement_notes(fields: PlacementFields) -> Iterator[Problem]:
    for index, selector in enumerate(fields.spec.resource_selectors):
        is_namespace = (selector.group, selector.kind) == ("", "Namespace")
        if "selection_scope" in selector.model_fields_set and not is_namespace:
            yield f"spec.resourceSelectors[{index}].selectionScope", "it is for namespaces only"
    yield from _strategy_notes(fields.spec.strategy)
    if fields.spec.status_reporting_scope != "ClusterScopeOnly":
        yield "spec.statusReportingScope", "a status is computed when it is asked for"


def _strategy_notes(strategy: RolloutStrategyFields) -> Iterator[Problem]:
    applied, back = strategy.apply_strategy, strategy.report_back_strategy
    if applied is not None and applied.type == "ReportDiff":
        for name in _ONLY_APPLIED:
            if name in applied.model_fields_set:
                yield f"spec.strategy.applyStrategy.{spelled(applied, name)}", "ReportDiff applies nothing"
    if back is not None and back.type != "Disabled":
        yield "spec.strategy.reportBackStrategy", "nothing is reported back"


def _status_notes(status: Mapping[str, Any], reads_status: bool) -> Iterator[Problem]:
    for name in status:
        if name not in _REPORTED:
            yield f"status.{name}", "no decision reads it"
        elif not reads_status:
            yield f"status.{name}", _REPORTED[name]
