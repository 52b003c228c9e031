"""Priority and gates, for which a pod of rk8s has annotations only."""

from __future__ import annotations

import pytest

from tests.objects.rk8s.samples import POD, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.rk8s.format import RK8S


def annotated(annotations: str) -> Pod:
    value = changed(POD, "annotations: {}", f"annotations: {{{annotations}}}")
    return RK8S.decode_pod(value, namespace="default", name="web-1", create_revision=7)


def test_without_annotations_a_pod_has_no_priority_and_no_gate() -> None:
    pod = annotated("")

    assert (pod.priority, pod.scheduling_gates) == (0, ())


@pytest.mark.parametrize("written", ['"100"', "100", "-5", "'2147483647'"])
def test_a_priority_is_read_as_a_number(written: str) -> None:
    assert annotated(f"wharfinger.dev/priority: {written}").priority == int(written.strip("'\""))


@pytest.mark.parametrize("written", ["high", "1.5", "''", "2147483648", "99999999999999999999", "1e3", "٣"])
def test_a_priority_that_is_no_number_makes_the_pod_invalid(written: str) -> None:
    with pytest.raises(InvalidObject, match="is no whole number of 32 bits"):
        annotated(f"wharfinger.dev/priority: {written}")


def test_gates_are_names_with_commas_between() -> None:
    assert annotated("wharfinger.dev/scheduling-gates: 'quota, image'").scheduling_gates == ("quota", "image")
    assert annotated("wharfinger.dev/scheduling-gates: ' , '").scheduling_gates == ()


def test_a_pod_is_named_by_its_create_revision_not_by_its_uid() -> None:
    assert annotated("").uid == "rev-7"
