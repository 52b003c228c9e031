"""What pods of one template share is remembered, but no large text: it stays when its pods are gone."""

from __future__ import annotations

from tests.objects.rk8s.samples import POD
from wharfinger.objects.rk8s import documents
from wharfinger.objects.rk8s.documents import bind_pod, parse_pod


def test_large_texts_are_read_and_not_kept() -> None:
    large = POD.replace("image: busybox:latest", f"image: busybox:{'x' * documents.LONGEST_KEPT}").encode()
    before = documents._spec.cache_info().currsize

    assert parse_pod(large)["spec"]["containers"][0]["name"] == "main"
    assert bind_pod(large, "worker1") == large.replace(b"node_name: null", b"node_name: worker1")
    assert documents._spec.cache_info().currsize == before


def test_a_second_line_that_looks_like_the_nodes_name_is_read_slowly() -> None:
    """[A text within the spec, and a node that has the very name by which lines are told apart]"""
    text = POD.replace("  node_name: null\n", "  junk: 'a\n\n  node_name: foo\n\n    b'\n  node_name: mark\n")

    assert parse_pod(text.encode())["spec"]["nodeName"] == "mark"
