"""Files of users: templates that are not rendered, and JSON documents in a row."""

from __future__ import annotations

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.documents import objects_of


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("a.yaml", "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n", "Helm template"),
        ("a.yaml", 'kind: Pod\nmetadata: {name: "{{ .Release.Name }}-x"}\n', "Helm template"),
        ("a.yaml", "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", "Helm template"),
        ("chart/Chart.yaml", "apiVersion: v2\nname: web\n", "Helm chart"),
        ("base/kustomization.yaml", "resources: [a.yaml]\n", "kustomization"),
        ("a.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "kustomization"),
    ],
)
def test_a_template_is_refused_with_what_renders_it(name: str, text: str, what: str) -> None:
    with pytest.raises(InvalidObject, match=f"this is a {what}: render it first"):
        list(objects_of(name, text.encode()))


def test_braces_in_the_content_of_an_object_are_no_template() -> None:
    text = b"kind: ConfigMap\nmetadata: {name: rules}\ndata: {alert: '{{ $labels.instance }} is down'}\n"

    assert len(list(objects_of("a.yaml", text))) == 1


@pytest.mark.parametrize(
    "text",
    [b'{"a":1}\n{"a":2}\n', b'{"a":1}{"a":2}', b'{"a":1}\n---\n{"a":2}', b'{"kind":"List","items":[{"a":1}]}\n{"a":2}'],
)
def test_documents_in_a_row_are_read(text: bytes) -> None:
    assert list(objects_of("a.json", text)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("text", [b'{"a":1}\n{"b":', b'{"a":1}\nb', b"\xff", b'{"a":1}\n{"b":2,,}'])
def test_what_is_no_document_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidObject):
        list(objects_of("a.json", text))


def test_a_list_without_items_is_empty() -> None:
    assert list(objects_of("a.json", b'{"apiVersion":"apps/v1","kind":"DeploymentList","items":null}')) == []
