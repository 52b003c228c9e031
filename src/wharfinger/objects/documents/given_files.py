"""Objects of the files that users give: YAML, JSON, and templates that still have to be rendered.

A template is refused with the command that renders it, because what stands in it is not what would be applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import documents

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_CHARTS = ("Chart.yaml", "Chart.yml")
_ACTION = "{{"
"""What begins an action of a Go template."""
HELM = "this is a Helm template: render it first (helm template NAME CHART), and give the result with -f -"
_CHART = "this is a Helm chart: render it first (helm template NAME CHART), and give the result with -f -"
_KUSTOMIZE = "this is a kustomization: render it first (kubectl kustomize FOLDER), and give the result with -f -"


def objects_of(source: str, content: bytes, *, duplicates: bool = False) -> Iterator[Any]:
    """Every object of a file; what is no object comes as it is, so that the rest is read too.

    `source` is the file's name. `duplicates` as in `documents.objects`. Raises `InvalidObject`, without the name, for
    what is no text, for wrong syntax, and for a template.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidObject(f"is no UTF-8 text (byte {error.start})") from None
    by_name = _by_name(PurePath(source).name)
    if by_name:
        raise InvalidObject(by_name)
    try:
        for obj in documents.objects(text, duplicates=duplicates):
            _check_rendered(obj)
            yield obj
    except InvalidObject as error:
        if _ACTION in text and str(error) not in (HELM, _KUSTOMIZE):
            raise InvalidObject(f"{error}; {HELM}") from None
        raise


def _by_name(name: str) -> str:
    return _KUSTOMIZE if name in _KUSTOMIZATIONS else _CHART if name in _CHARTS else ""


def _check_rendered(obj: object) -> None:
    """Refuse an object whose identity is written as an action of a template, and a kustomization."""
    if not isinstance(obj, Mapping):
        return
    metadata = obj.get("metadata")
    written: list[object] = [obj.get("apiVersion"), obj.get("kind")]
    if isinstance(metadata, Mapping):
        written += [metadata.get("name"), metadata.get("generateName"), metadata.get("namespace")]
    if any(isinstance(value, Mapping) or (isinstance(value, str) and _ACTION in value) for value in written):
        raise InvalidObject(HELM)
    if str(obj.get("apiVersion")).startswith("kustomize.config.k8s.io/"):
        raise InvalidObject(_KUSTOMIZE)
