"""Documents of rk8s as text: what `tree.parse` returned, or a document that was given with fields added to it.

Texts are written with quotes. What has none in a document (numbers, truth values) has none in the result. A result is
read again before it is given back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.manifests.rk8s.tree import NULL, Plain, Tagged, parse

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_NO_TEXT = frozenset(("true", "false", "null", "yes", "no", "on", "off", "inf", "nan", "y", "n"))
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WIDTH = 1_000_000
"""Characters of a line, so that no text is folded."""


def to_text(tree: Any) -> str:
    """The document in YAML. Raises `InvalidObject` when it would be read back as another one."""
    events = [
        yaml.StreamStartEvent(),
        yaml.DocumentStartEvent(explicit=False),
        *_events(tree),
        yaml.DocumentEndEvent(explicit=False),
        yaml.StreamEndEvent(),
    ]
    try:
        text = str(yaml.emit(events, Dumper=_Dumper, width=_WIDTH, allow_unicode=True))
    except yaml.YAMLError as error:
        raise InvalidObject(f"cannot be written: {' '.join(str(error).split())[:200]}") from None
    if parse(text) != tree:
        raise InvalidObject("cannot be written as it was read")
    return text


def _events(value: Any, tag: str | None = None) -> Iterator[Any]:
    if isinstance(value, Tagged):
        yield from _events(value.value, f"!{value.variant}")
    elif isinstance(value, dict):
        yield yaml.MappingStartEvent(None, tag, tag is None, flow_style=not value)
        for key, entry in value.items():
            word = _KEY.fullmatch(key) and key.lower() not in _NO_TEXT
            yield _scalar(key, None, quoted=not word)
            yield from _events(entry)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, tag, tag is None, flow_style=not value)
        for entry in value:
            yield from _events(entry)
        yield yaml.SequenceEndEvent()
    elif value is None:
        yield _scalar("null", tag)
    else:
        yield _scalar(str(value), tag, quoted=not isinstance(value, Plain))


def _scalar(text: str, tag: str | None, *, quoted: bool = False) -> Any:
    implicit = (tag is None and not quoted, tag is None and quoted)
    return yaml.ScalarEvent(None, tag, implicit, text, style='"' if quoted else None)


def with_metadata(text: str, fields: Mapping[str, str]) -> str:
    """The document with these fields of `metadata` where it has none; no other byte changes.

    Raises `InvalidObject` for a document without metadata.
    """
    tree = parse(text)
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict):
        raise InvalidObject("metadata is missing")
    missing = {name: value for name, value in fields.items() if not metadata.get(name)}
    if not missing:
        return text
    wanted = {**tree, "metadata": {**metadata, **missing}}
    changed = _inserted(text, missing)
    return changed if changed is not None and _read(changed) == wanted else to_text(wanted)


def _inserted(text: str, fields: Mapping[str, str]) -> str | None:
    """The fields written into the text of `metadata`; None where that is empty."""
    root: Any = yaml.compose(text, Loader=_Loader)
    node = next((value for key, value in root.value if key.value == "metadata"), None)
    if node is None or not node.value:
        return None
    at = node.value[0][0].start_mark.index
    changes = []
    for name, value in fields.items():
        there = next((entry for entry in node.value if entry[0].value == name), None)
        if there is not None:
            start = text.index(":", there[0].end_mark.index) + 1
            old = there[1]
            end = old.end_mark.index if old.value in NULL and old.start_mark.index > start else start
            changes.append((start, max(start, end), f' "{value}"'))
        elif node.flow_style:
            changes.append((at, at, f'"{name}": "{value}", '))
        else:
            line = text.rfind("\n", 0, at) + 1
            changes.append((at, at, f'{name}: "{value}"\n{" " * (at - line)}'))
    changes.sort(key=lambda change: change[0])
    for start, end, written in reversed(changes):
        text = f"{text[:start]}{written}{text[end:]}"
    return text


def _read(text: str) -> Any:
    try:
        return parse(text)
    except InvalidObject:
        return None
