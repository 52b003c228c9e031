"""What a pod says about nodes: tolerations, node affinity, affinity to pods, spread constraints; taints of nodes."""

from __future__ import annotations

from wharfinger.objects.documents.checks import metadata
from wharfinger.objects.documents.checks.metadata import check_label_selector, check_number_of_values
from wharfinger.objects.documents.checks.place import FieldPlace

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD = "DoNotSchedule"
_OPERATORS = ("Equal", "Exists")
_GATED_OPERATORS = ("Lt", "Gt")
_GATE = "needs the feature gate TaintTolerationComparisonOperators, which is off by default in Kubernetes 1.36"
_NO_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_ONE_FIELD = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_tolerations(tolerations: FieldPlace) -> None:
    """The tolerations of a pod or of a RuntimeClass."""
    for toleration in tolerations.entries():
        key, operator = toleration["key"], toleration["operator"]
        value, effect = toleration["value"], toleration["effect"]
        if key.text:
            key.each(metadata.label_key(key.text))
        elif operator.text != "Exists":
            operator.invalid(_NO_KEY, operator.text)
        if toleration["tolerationSeconds"].given and effect.text != "NoExecute":
            effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set", effect.text)
        if operator.text in _GATED_OPERATORS:
            operator.unsupported(_OPERATORS, f"; {operator.text} {_GATE}")
        elif operator.text == "Exists":
            if value.text:
                operator.invalid("value must be empty when `operator` is 'Exists'", value.text)
        elif operator.text in ("", "Equal"):
            wrong = metadata.label_value(value.text)
            if wrong:
                operator.invalid(";".join(wrong), value.text)
        else:
            operator.unsupported(_OPERATORS)
        if effect.text:
            effect.one_of(*_EFFECTS)


def check_taints(taints: FieldPlace) -> None:
    """The taints of a node."""
    seen: set[tuple[str, str]] = set()
    for taint in taints.entries():
        key, value, effect = taint["key"], taint["value"], taint["effect"]
        key.each(metadata.label_key(key.text), key.text)
        wrong = metadata.label_value(value.text)
        if wrong:
            value.invalid(";".join(wrong))
        if effect.text:
            effect.one_of(*_EFFECTS)
        else:
            effect.required()
        if (key.text, effect.text) in seen:
            taint.duplicate(why="taints must be unique by key and effect pair")
        seen.add((key.text, effect.text))


def check_affinity(affinity: FieldPlace) -> None:
    """Node affinity, and affinity and anti-affinity to pods."""
    nodes = affinity["nodeAffinity"]
    if nodes[_REQUIRED].given:
        check_node_selector(nodes[_REQUIRED])
    for preferred in nodes[_PREFERRED].entries():
        _check_weight(preferred["weight"])
        _check_node_term(preferred["preference"], check_values=False)
    for sort in ("podAffinity", "podAntiAffinity"):
        for term in affinity[sort][_REQUIRED].entries():
            _check_pod_term(term)
        for preferred in affinity[sort][_PREFERRED].entries():
            _check_weight(preferred["weight"])
            _check_pod_term(preferred["podAffinityTerm"])


def check_node_selector(selector: FieldPlace) -> None:
    """A required selector of nodes, of a pod or of a volume."""
    terms = selector["nodeSelectorTerms"]
    if not terms.entries():
        terms.required("must have at least one node selector term")
    for term in terms.entries():
        _check_node_term(term, check_values=True)


def check_spread_constraints(constraints: FieldPlace) -> None:
    """The topology spread constraints of a pod."""
    entries = constraints.entries()
    for index, constraint in enumerate(entries):
        skew, key, action = constraint["maxSkew"], constraint["topologyKey"], constraint["whenUnsatisfiable"]
        if (skew.value or 0) <= 0:
            skew.invalid("must be greater than zero", skew.value or 0)
        if not key.text:
            key.required("can not be empty")
        if action.text not in (_HARD, "ScheduleAnyway"):
            action.at(action.text).unsupported((_HARD, "ScheduleAnyway"))
        rest = [(other["topologyKey"].text, other["whenUnsatisfiable"].text) for other in entries[index + 1 :]]
        if (key.text, action.text) in rest:
            constraint["{topologyKey, whenUnsatisfiable}"].duplicate(f"{{{key.text}, {action.text}}}")
        domains = constraint["minDomains"]
        if domains.given:
            if domains.value <= 0:
                domains.invalid("must be greater than zero")
            if action.text != _HARD:
                domains.invalid(f"can only use minDomains if whenUnsatisfiable={_HARD}, not {action.text}")
        constraint["nodeAffinityPolicy"].one_of("Honor", "Ignore")
        constraint["nodeTaintsPolicy"].one_of("Honor", "Ignore")
        _check_label_keys(constraint)
        check_label_selector(constraint["labelSelector"])


def _check_weight(weight: FieldPlace) -> None:
    if not 0 < (weight.value or 0) <= 100:
        weight.invalid("must be in the range 1-100", weight.value or 0)


def _check_node_term(term: FieldPlace, *, check_values: bool) -> None:
    """`check_values`: preferences may have values that no label can have."""
    for requirement in term["matchExpressions"].entries():
        values = requirement["values"]
        operator = requirement["operator"].text
        if operator in ("Gt", "Lt"):
            if len(values.entries()) != 1:
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif not check_number_of_values(requirement):
            requirement["operator"].invalid("not a valid selector operator", operator)
        requirement["key"].each(metadata.label_key(requirement["key"].text), requirement["key"].text)
        for value in values.entries() if check_values else ():
            value.each(metadata.label_value(value.text))
    for requirement in term["matchFields"].entries():
        named = requirement["values"].entries()
        if requirement["operator"].text not in ("In", "NotIn"):
            requirement["operator"].invalid("not a valid selector operator", requirement["operator"].text)
        elif len(named) != 1:
            requirement["values"].required(_ONE_FIELD)
        if requirement["key"].text != "metadata.name":
            requirement["key"].invalid("not a valid field selector key", requirement["key"].text)
        else:
            for value in named:
                value.each(metadata.dns_subdomain(value.text))


def _check_pod_term(term: FieldPlace) -> None:
    check_label_selector(term["labelSelector"])
    check_label_selector(term["namespaceSelector"])
    for namespace in term["namespaces"].entries():
        term["namespace"].each(metadata.dns_label(namespace.text), namespace.text)
    _check_label_keys(term)
    key = term["topologyKey"]
    if not key.text:
        key.required("can not be empty")
    key.each(metadata.label_key(key.text), key.text)


def _check_label_keys(term: FieldPlace) -> None:
    """`matchLabelKeys` and `mismatchLabelKeys` of a term or of a spread constraint."""
    selector = term["labelSelector"]
    for keys in (term["matchLabelKeys"], term["mismatchLabelKeys"]):
        if keys.entries() and not selector.given:
            keys.forbidden("must not be specified when labelSelector is not set")
            continue
        for key in keys.entries():
            key.each(metadata.label_key(key.text))
    both = {key.text for key in term["mismatchLabelKeys"].entries()}
    for key in term["matchLabelKeys"].entries():
        if key.text in both:
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys")
