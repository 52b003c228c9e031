"""Documents of rk8s that users give: files of several, and plain values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml

from tests.objects.rk8s.samples import NODE, POD
from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.applying import as_tree, documents, kubernetes_object, names_of
from wharfinger.objects.rk8s.tree import parse, plain_values


def texts(content: str) -> list[str]:
    return [document.text for document in documents(content)]


def test_each_document_of_a_file_keeps_its_own_text() -> None:
    assert texts(f"---\n{POD}---\n{NODE}") == [POD, NODE]
    assert texts("--- {a: 1}\n--- # c\na: 1\n...\n") == ["{a: 1}\n", "a: 1\n"]


def test_a_file_may_have_more_values_than_a_document() -> None:
    assert len(texts("---\n".join(["a: 1\n"] * 20_000))) == 20_000
    with pytest.raises(InvalidObject, match="has more than 100000 keys and values"):
        texts(f"a: 1\n---\nb: [{'a,' * 100_001}]\n")


def test_comments_around_documents_belong_to_the_file() -> None:
    assert texts("# the file\na: 1  # a\n# the next\n---\n# above\nb: 1\n") == ["a: 1  # a\n", "b: 1\n"]
    assert texts("a: |\n  x\n  # y\n\n# z\n") == ["a: |\n  x\n  # y\n"]


@pytest.mark.parametrize("content", ["", "---\n", "# nothing\n", "---\n---\n"])
def test_empty_documents_are_skipped(content: str) -> None:
    assert texts(content) == []


def test_a_list_is_opened() -> None:
    found = list(documents("kind: List\nitems:\n- {kind: Pod, metadata: {name: a}}\n- {kind: Node}\n"))
    assert [(one.tree["kind"], one.text) for one in found] == [("Pod", ""), ("Node", "")]


def test_plain_values_mean_what_their_text_means() -> None:
    written = "a: [1, true, 0.5, null, text]\nb: {c: '1'}\n"
    assert as_tree(yaml.safe_load(written)) == parse(written)
    assert as_tree({"at": datetime(2026, 1, 2, tzinfo=UTC)}) == {"at": "2026-01-02T00:00:00Z"}
    with pytest.raises(InvalidObject, match=r"a\.b\[1\] is a set, which no document holds"):
        as_tree({"a": {"b": [1, {2}]}})


def test_values_without_quotes_are_numbers_and_truth_values_in_json() -> None:
    tree = parse("a: [1, '1', true, yes, 0.50, 0.5, 1e3, 007, null]\nstate: !Running {at: x}\n")
    assert plain_values(tree) == {
        "a": [1, "1", True, "yes", "0.50", 0.5, "1e3", "007", None],
        "state": {"!Running": {"at": "x"}},
    }


def test_a_document_stands_for_an_object_of_kubernetes() -> None:
    assert kubernetes_object(POD.encode())["kind"] == "Pod"
    assert kubernetes_object(NODE.encode())["kind"] == "Node"
    with pytest.raises(InvalidObject, match=r"spec\.nodeName is Kubernetes'"):
        kubernetes_object({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "a"}})


def test_every_pod_is_in_the_one_namespace() -> None:
    assert names_of({"kind": "Pod", "metadata": {"name": "a", "namespace": "other"}}) == ("default", "a")
    assert names_of({"kind": "Node", "metadata": {"name": "a"}}) == ("", "a")
    with pytest.raises(InvalidObject, match=r"metadata\.name 'a/b' is no name"):
        names_of({"kind": "Pod", "metadata": {"name": "a/b"}})
    with pytest.raises(InvalidObject, match="kind 'Service': of a cluster of the format rk8s, only pods and nodes"):
        names_of({"kind": "Service", "metadata": {"name": "a"}})
