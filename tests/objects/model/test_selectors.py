"""Who matches whom: selectors, taints and tolerations, as in Kubernetes."""

from __future__ import annotations

import pytest

from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement, Taint, Toleration, parse_integer

TAINT = Taint("k", "v", "NoSchedule")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("9" * 5000, None),
        ("", None),
        ("-", None),
        ("1.0", None),
        ("1_0", None),
        (" 1", None),
        ("٣", None),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, value: int | None) -> None:
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        (Operator.IN, ("a", "b"), "b", True),
        (Operator.IN, ("",), None, False),
        (Operator.IN, ("",), "", True),
        (Operator.NOT_IN, ("a",), None, True),
        (Operator.NOT_IN, ("a",), "a", False),
        (Operator.EXISTS, (), "", True),
        (Operator.EXISTS, (), None, False),
        (Operator.DOES_NOT_EXIST, (), None, True),
        (Operator.GT, ("5",), "6", True),
        (Operator.GT, ("5",), "5", False),
        (Operator.LT, ("5",), "-1", True),
        (Operator.LT, ("5",), "x", False),
        (Operator.LT, ("5",), None, False),
    ],
)
def test_requirements(operator: Operator, values: tuple[str, ...], label: str | None, holds: bool) -> None:
    assert Requirement("key", operator, values).matches_value(label) is holds


def test_an_empty_term_matches_nothing() -> None:
    assert not NodeSelectorTerm().matches("n1", {})


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("k", "", "v"), True),
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "other"), False),
        (Toleration("", "Equal", "v"), False),
        (Toleration("k", "Like", "v"), False),
    ],
)
def test_tolerations(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(TAINT) is tolerates
