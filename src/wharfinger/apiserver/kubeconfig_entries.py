"""Kubeconfig files as entries: syntax, types of fields, and how several files are merged.

What the entries mean is decided in `kubeconfig.py` (contexts, clusters) and `kubeconfig_users.py`. Each entry
remembers its file, so that relative paths and errors refer to it. Errors never repeat a value, because any value may
be a secret in the wrong place.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from wharfinger.apiserver.credential_files import quoted, read_small, shown_path
from wharfinger.errors import ConfigurationError

VALUE_LIMIT = 100_000
"""Values in one file, with those that aliases repeat. A kubeconfig of 1,000 clusters has about 20,000."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_LISTS = {"contexts": "context", "clusters": "cluster", "users": "user"}
"""Field of the file -> field of an element that has the entry's content."""


@dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """A context, a cluster, a user, or a part of one: reads its fields and makes errors about them.

    The readers return the empty value where a field is absent or null, and raise `ConfigurationError` for another
    type.
    """

    file: Path
    """Absolute."""
    title: str
    """For messages: `user "alice"`."""
    fields: Mapping[str, Any] = field(repr=False)

    def error(self, name: str, reason: object) -> ConfigurationError:
        """An error about a field; `reason` ends with what to do."""
        return ConfigurationError(f"{self.place(name)}: {reason}")

    def place(self, name: str) -> str:
        """A field, for messages: its file, entry and name."""
        return f"kubeconfig {shown_path(self.file)}, {self.title}, {name}"

    def has(self, name: str) -> bool:
        """Whether the field has a value that is not empty."""
        return bool(self.fields.get(name))

    def text(self, name: str) -> str:
        """A string."""
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {_type(value)}; put the value in quotes")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {_type(value)}")
        return bool(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise self.error(name, "must have only strings; put each value in quotes")
        return tuple(values)

    def parts(self, name: str) -> tuple[KubeconfigEntry, ...]:
        """A list of mappings."""
        return tuple(self._part(f"{name}[{at}]", value) for at, value in enumerate(self._list(name)))

    def part(self, name: str) -> KubeconfigEntry | None:
        """A mapping; None where it is absent."""
        value = self.fields.get(name)
        return None if value is None else self._part(name, value)

    def content(self, name: str) -> tuple[str, bytes]:
        """The content of `<name>-data` (base64), else of the file that `<name>` names; and the field it comes from.

        Blocks. Both empty where neither is given.
        """
        in_place = f"{name}-data"
        if encoded := self.text(in_place):
            try:
                return in_place, base64.b64decode("".join(encoded.split()), validate=True)
            except (binascii.Error, ValueError):
                raise self.error(in_place, "is no base64; encode the file with `base64 -w0`") from None
        path = self.path(name)
        if path is None:
            return "", b""
        try:
            return name, read_small(path)
        except ConfigurationError as error:
            raise self.error(name, error) from error

    def path(self, name: str) -> Path | None:
        """A path, absolute: a relative one begins beside the kubeconfig. None where it is absent."""
        text = self.text(name)
        return self.file.parent / text if text else None

    def _list(self, name: str) -> Sequence[Any]:
        value = self.fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(name, f"must be a list, not {_type(value)}")
        return value

    def _part(self, name: str, value: Any) -> KubeconfigEntry:
        if not isinstance(value, Mapping):
            raise self.error(name, f"must be a mapping, not {_type(value)}")
        return KubeconfigEntry(self.file, f"{self.title}, {name}", value)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One file, or several merged: names to entries."""

    files: tuple[Path, ...]
    current_context: str
    contexts: Mapping[str, KubeconfigEntry]
    clusters: Mapping[str, KubeconfigEntry]
    users: Mapping[str, KubeconfigEntry]

    @property
    def source(self) -> str:
        """The files, for messages."""
        return ", ".join(shown_path(file) for file in self.files)


def read_files(paths: Iterable[Path]) -> Kubeconfig:
    """Read the files and merge them as kubectl does: of two entries of one name, that of the first file counts.

    Blocks. Raises `ConfigurationError`.
    """
    read = [_read(path.absolute()) for path in paths]
    return Kubeconfig(
        files=tuple(file for config in read for file in config.files),
        current_context=next((config.current_context for config in read if config.current_context), ""),
        contexts=_first_wins(config.contexts for config in read),
        clusters=_first_wins(config.clusters for config in read),
        users=_first_wins(config.users for config in read),
    )


def _read(file: Path) -> Kubeconfig:
    try:
        document = _document(read_small(file))
    except ConfigurationError as error:
        raise ConfigurationError(f"kubeconfig: {error}") from error
    except ValueError as error:
        raise ConfigurationError(f"kubeconfig {shown_path(file)}: {error}") from None
    whole = KubeconfigEntry(file, "top level", document)
    if whole.text("kind") not in ("", "Config"):
        raise whole.error("kind", "must be Config; is this file a manifest?")
    if whole.text("apiVersion") not in ("", "v1"):
        raise whole.error("apiVersion", "must be v1, the only version of kubeconfigs")
    entries = {plural: _named(whole, plural) for plural in _LISTS}
    return Kubeconfig((file,), whole.text("current-context"), **entries)


def _document(content: bytes) -> Mapping[str, Any]:
    """The mapping in a file, which may be empty. Raises `ValueError` with what is wrong with the file."""
    try:
        document = _parsed(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"is no UTF-8 text (byte {error.start}); is it the right file?") from None
    except RecursionError:
        raise ValueError("is nested too deeply; is it the right file?") from None
    except yaml.MarkedYAMLError as error:
        # The parser's own words repeat parts of the file, which may be a token.
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"is not one YAML document: cannot be parsed{where}; correct it there") from None
    except (yaml.YAMLError, ValueError, TypeError):
        raise ValueError("is not one YAML document; is it the right file?") from None
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ValueError(f"must be a mapping, not {_type(document)}; is it the right file?")
    if _is_too_large(document):
        raise ValueError(f"has more than {VALUE_LIMIT} values; are its aliases nested?")
    return document


def _parsed(text: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass  # YAML may begin so, too
    loader = _Loader(text)
    # Dates stay text, as in kubectl.
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _Loader.yaml_implicit_resolvers.items()
    }
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _is_too_large(document: Any) -> bool:
    """Count values as often as aliases repeat them; an alias to its own parent has no end."""
    count, waiting = 0, [document]
    while waiting and count + len(waiting) <= VALUE_LIMIT:
        value = waiting.pop()
        count += 1
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return bool(waiting)


def _named(whole: KubeconfigEntry, plural: str) -> dict[str, KubeconfigEntry]:
    found: dict[str, KubeconfigEntry] = {}
    for element in whole.parts(plural):
        name = element.text("name")
        if name in found:
            raise whole.error(plural, f"has two entries of the name {quoted(name)}; remove one")
        singular = _LISTS[plural]
        content = element.part(singular)
        found[name] = KubeconfigEntry(whole.file, f"{singular} {quoted(name)}", content.fields if content else {})
    return found


def _first_wins(maps: Iterable[Mapping[str, KubeconfigEntry]]) -> dict[str, KubeconfigEntry]:
    merged: dict[str, KubeconfigEntry] = {}
    for each in maps:
        merged = {**each, **merged}
    return merged


def _type(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case Mapping():
            return "a mapping"
    return "nothing" if value is None else "another type"
