"""Stored objects as `get -o` prints them: Kubernetes' with their revision, documents of rk8s as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wharfinger.cli.output import Output, to_text
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.formats import KUBERNETES
from wharfinger.process.stored_objects import Stored


def to_texts(found: Iterable[Stored], output: Output) -> Iterator[str]:
    """Each object as a text of its own, without the last line's end."""
    for entry in found:
        if output is Output.YAML and entry.format is not KUBERNETES:
            yield _document(entry)
        else:
            yield to_text(_value(entry), output)


def list_text(found: list[Stored], output: Output) -> tuple[str, int]:
    """All objects as one text, and how many it shows; what is no object is left out.

    A list, but YAML of rk8s is one document after the other: so `apply -f -` reads it.
    """
    if output is Output.YAML and any(entry.format is not KUBERNETES for entry in found):
        texts = [text for text in to_texts(found, output) if text]
        return "\n---\n".join(texts), len(texts)
    items = [value for entry in found if (value := _value(entry))]
    return to_text({"apiVersion": "v1", "kind": "List", "items": items}, output), len(items)


def shows(entry: Stored) -> bool:
    """Whether there is anything to print of what is stored."""
    return bool(_value(entry))


def _value(entry: Stored) -> Any:
    if entry.format is KUBERNETES:
        return entry.mapping()
    from wharfinger.objects.rk8s.plain_values import plain_values
    from wharfinger.objects.rk8s.tree import decoded, parse

    try:
        found = plain_values(parse(decoded(entry.kv.value)))
    except InvalidObject:
        return {}
    return found if isinstance(found, dict) else {}


def _document(entry: Stored) -> str:
    """The stored text; empty when it is no document."""
    return entry.kv.value.decode().strip("\n") if _value(entry) else ""
