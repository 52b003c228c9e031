"""JSON and YAML text to plain values and back: the syntax of objects, not their meaning.

Stored objects are JSON almost always, so that is tried first; what is no JSON is read as YAML
(`yaml_events`). Sizes and depths are limited, so no input can exhaust memory or the stack.

orjson reads and writes what both it and the standard library understand alike, in a third and a tenth
of the time; whatever it refuses, or would round, is left to the standard library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Any, NoReturn

import orjson

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import yaml_events
from wharfinger.objects.documents.duplicates import Doubled, from_pairs

VALUE_LIMIT = 8 * 1024 * 1024
"""Bytes of one stored value; etcd itself takes 1.5 MiB by default."""


def _no_constant(name: str) -> NoReturn:
    raise InvalidObject(f"is no JSON: {name} is no number there")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidObject(f"the number {text[:40]} cannot be represented")
    return number


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
_JSON_WITH_DUPLICATES = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=from_pairs)
_DIGITS = bytes(ord("0") if chr(byte).isascii() and chr(byte).isdigit() else byte for byte in range(256))
_BLANKS = re.compile(r"[ \t\r\n]*")
DEEPEST = 1024
"""Levels of JSON, as in orjson."""
_LONG = b"0" * 19
"""Digits of the smallest integer that orjson would make a float of, -2^63-1."""
_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def parse(value: bytes) -> Any:
    """The one document in a stored value: JSON, else YAML. Raises `InvalidObject`."""
    if len(value) > VALUE_LIMIT:
        raise InvalidObject(f"is larger than {VALUE_LIMIT} bytes")
    if _LONG not in value.translate(_DIGITS):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(value)
    text = _decoded(value)
    documents = list(islice(_documents(text), 2))
    if len(documents) != 1:
        raise InvalidObject("is neither JSON nor one YAML document")
    return documents[0]


def objects(text: str, *, duplicates: bool = False) -> Iterator[Any]:
    """Every object in a file: JSON documents in a row, or YAML documents; lists (`kind: List`, or plain) are opened.

    Empty documents are skipped; what is no object comes as it is, so that the rest is read too. Raises
    `InvalidObject` where the syntax ends. `duplicates`: a mapping in which a key stands twice comes as
    `duplicates.Doubled`; otherwise YAML with such a key is refused, and of JSON the last value counts.
    """
    for document in _documents(text, duplicates):
        yield from _opened(document)


def _documents(text: str, duplicates: bool = False) -> Iterator[Any]:
    """Every JSON document, as in JSON lines; or every YAML one."""
    found: list[Any] = []
    try:
        for document in _json_documents(text, _JSON_WITH_DUPLICATES if duplicates else _JSON):
            _check_depth(document)
            found.append(document)
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None
    except ValueError as error:
        yield from _yaml_documents(text, error, duplicates)
    else:
        yield from found


def _json_documents(text: str, decoder: json.JSONDecoder) -> Iterator[Any]:
    """All of a text, of which there is at least one. Raises `ValueError` where the next is none."""
    place = _after_blanks(text, 0)
    while True:
        document, place = decoder.raw_decode(text, place)
        yield document
        place = _after_blanks(text, place)
        if place == len(text):
            return


def _after_blanks(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    return found.end() if found is not None else place


def _check_depth(document: Any) -> None:
    """Refuse what is nested too deeply: since Python 3.12 its decoder goes deeper than its interpreter."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [child for children in inner for child in children if isinstance(child, dict | list)]
        if not level:
            return
    raise InvalidObject("is nested too deeply")


def _yaml_documents(text: str, json_error: ValueError, duplicates: bool) -> Iterator[Any]:
    """YAML documents; of text that begins like JSON and is not even YAML, the JSON error is more useful."""
    documents = yaml_events.documents(text, duplicates=duplicates)
    if text.lstrip()[:1] in ("{", "["):
        try:
            first = next(documents, None)
        except InvalidObject:
            raise InvalidObject(f"is no JSON: {_one_line(json_error)}") from None
        yield first
    yield from documents


def _opened(document: Any) -> Iterator[Any]:
    if document is None:
        return
    items = _items(document)
    if items is None:
        yield document
        return
    for item in items:
        yield from _opened(item)


def _items(document: Any) -> list[Any] | None:
    """The items of a list, plain or of a kind; None for what is no list. An empty list may have null for its items."""
    if isinstance(document, list):
        return document
    if not isinstance(document, Mapping):
        return None
    kind = document.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List")):
        return None
    if document.get("items") is None and ("items" in document or document.get("apiVersion") == "v1"):
        return []
    if not isinstance(document.get("items"), list):
        return None
    return [_with_kind(item, kind.removesuffix("List"), document) for item in document["items"]]


def _with_kind(item: Any, kind: str, parent: Mapping[str, Any]) -> Any:
    """An item of a typed list (`PodList`) as an object of its own: API servers leave its kind out there."""
    if kind and isinstance(item, Mapping) and not item.get("kind"):
        whole = {"apiVersion": parent.get("apiVersion"), "kind": kind, **item}
        return Doubled(whole, item.again) if isinstance(item, Doubled) else whole
    return item


def to_json(obj: Any) -> bytes:
    """Compact JSON in UTF-8, as objects are stored. Raises `InvalidObject` for what is nested too deeply."""
    try:
        return orjson.dumps(obj, option=_PLAIN)
    except orjson.JSONEncodeError:  # deeper than 254, beyond 64 bits, or half a surrogate pair
        return _to_json_slowly(obj)


def _to_json_slowly(obj: Any) -> bytes:
    _check_depth(obj)
    try:
        return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can escape but UTF-8 cannot hold
        return json.dumps(obj, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidObject(f"is no UTF-8 text (byte {error.start})") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


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
        for obj in objects(text, duplicates=duplicates):
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
