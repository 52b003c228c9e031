"""What `apply` makes of a document of rk8s: new, laid over a stored one, or nothing."""

from __future__ import annotations

import pytest

from tests.rk8s import rk8s_documents as docs
from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.applying import GivenDocument, as_tree, documents, to_text, with_metadata, written_over
from wharfinger.objects.rk8s.tree import parse

SHORT = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  labels: {app: web}
spec:
  containers:
  - name: main
    image: busybox:latest
    ports: [{containerPort: 80}]
    args: [sh]
    resources: {limits: {cpu: 500m, memory: 512Mi}}
"""


def given(text: str) -> GivenDocument:
    (found,) = documents(text)
    return found


def written(stored: bytes | None, text: str) -> str | None:
    value = written_over(stored, given(text), uid="some-uid", now="2026-01-01T00:00:00Z")
    return None if value is None else value.decode()


def stored_pod(**about: object) -> bytes:
    return docs.document(docs.pod("web-1", labels={"app": "web"}, **about))  # type: ignore[arg-type]


def test_a_new_document_only_gains_uid_and_creation_time() -> None:
    added = '  uid: "some-uid"\n  creationTimestamp: "2026-01-01T00:00:00Z"\n'
    assert written(None, SHORT) == SHORT.replace("metadata:\n", f"metadata:\n{added}")


def test_a_new_document_with_both_is_stored_byte_for_byte() -> None:
    text = stored_pod().decode()
    assert written(None, text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata: {name: a}\n", 'metadata: {"uid": "u", name: a}\n'),
        ('{"metadata": {"name": "a"}}\n', '{"metadata": {"uid": "u", "name": "a"}}\n'),
        ("metadata:\n    uid:\n    name: a\n", 'metadata:\n    uid: "u"\n    name: a\n'),
        ("metadata:\n  uid: null\n  name: ä\n", 'metadata:\n  uid: "u"\n  name: ä\n'),
        ("metadata:\n  uid: ''\n  name: a\n", 'metadata:\n  uid: "u"\n  name: a\n'),
        ("metadata: {}\n", 'metadata:\n  uid: "u"\n'),
    ],
)
def test_a_field_of_metadata_is_added_in_any_layout(text: str, expected: str) -> None:
    assert with_metadata(text, {"uid": "u"}) == expected


@pytest.mark.parametrize("running", [False, True])
def test_what_rk8s_would_read_alike_is_unchanged(running: bool) -> None:
    """rk8s rewrites a document with every field; the file that it came of has few."""
    assert written(stored_pod(running=running, node_name="worker1" if running else None), SHORT) is None


def test_an_update_keeps_node_status_and_what_others_wrote() -> None:
    stored = stored_pod(running=True, node_name="worker1", owner="web")
    after = written(stored, SHORT.replace("500m", "600m").replace("web}", "web, on: 'yes', x: ''}"))
    assert after is not None
    was, now = parse(stored.decode()), parse(after)
    assert now["status"] == was["status"]
    assert now["spec"]["node_name"] == "worker1"
    assert now["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "600m"
    assert now["metadata"]["labels"] == {"app": "web", "on": "yes", "x": ""}
    for kept in ("uid", "creationTimestamp", "ownerReferences"):
        assert now["metadata"][kept] == was["metadata"][kept]
    assert "state: !Running" in after
    assert written(after.encode(), after) is None


def test_a_manifest_cannot_bind_or_move_a_stored_pod() -> None:
    placed = SHORT.replace("spec:\n", "spec:\n  node_name: worker2\n")
    assert written(stored_pod(), placed) is None
    with pytest.raises(InvalidObject, match="the pod is bound to 'worker1' and cannot move"):
        written(stored_pod(node_name="worker1"), placed)


def test_a_nodes_taints_and_offer_become_the_manifests() -> None:
    stored = docs.document(docs.node("worker1", taints=[docs.taint("NodeOutOfService")]))
    node = docs.document(docs.node("worker1", cpu="8")).decode()
    after = written(stored, node[: node.index("  addresses:")])
    assert after is not None
    now = parse(after)
    assert not now["spec"]["taints"]
    assert now["status"]["allocatable"]["cpu"] == "8"
    assert len(now["status"]["addresses"]) == 2


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("spec:\n", "spec:\n  nodeName: a\n", "spec.nodeName is Kubernetes'"),
        ("spec:\n", "spec:\n  restart_policy: Maybe\n  tolerations: [{key: x}]\n", "tolerations.0..key 'x' is none of"),
        ("cpu: 500m", "cpu: [1]", "cpu is a list, not a text"),
    ],
)
def test_what_workers_could_not_read_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        written(None, SHORT.replace(old, new))


def test_what_is_stored_and_no_document_is_replaced() -> None:
    assert written(b"a: [", SHORT) == written(None, SHORT)


def test_a_written_document_is_read_as_it_was() -> None:
    tree = as_tree(docs.document(docs.pod("yes", labels={"on": "1", "null": "~", "é": "a\n b"}, running=True)))
    assert parse(to_text(tree)) == tree
