"""The objects of the files of a what-if command: read, checked as an API server checks them, and kept by name.

Kinds that mean nothing to placing pods are passed over. Kinds of other makers are named in a note. A name that an API
server makes of `metadata.generateName` follows from the object here, so that runs are alike.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wharfinger.cli.files import Validation, warn
from wharfinger.cli.output import progress
from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.model.formats import ClusterFormat

if TYPE_CHECKING:
    from wharfinger.objects.documents.unknown import OtherKind
    from wharfinger.whatif.cli.supposed import Supposed


LARGE_FILES = 2 * 1024 * 1024
"""Bytes of all files together from which on reading them is long work."""
_NAMED = 5
_OF_RK8S = re.compile(r"\.(node_name|(?:node|pod|pod_anti)_affinity): unknown field; did you mean \w+\?$")
"""A field that rk8s spells in its own way, reported as an unknown one of Kubernetes."""


class GivenFile(NamedTuple):
    """A file as it was read."""

    place: int
    """Of its -f among all of them."""
    source: str
    """Its name."""
    content: bytes


class GivenObject(NamedTuple):
    """An object of a file."""

    place: int
    """Of its -f among all of them."""
    source: str
    """The file's name."""
    obj: Any


def objects_in(files: Sequence[GivenFile], format_: ClusterFormat) -> list[GivenObject]:
    """The objects of all files. Raises `UsageError` for a file that cannot be read."""
    size = sum(len(file.content) for file in files)
    found: list[GivenObject] = []
    with progress("reading", 0 if size >= LARGE_FILES else 1) as advance:
        for file in files:
            for obj in _objects_of(file, format_):
                found.append(GivenObject(file.place, file.source, obj))
                advance(len(found), 0)
    return found


def is_node(obj: Any) -> bool:
    """Whether an object is a node."""
    return isinstance(obj, Mapping) and obj.get("kind") == "Node"


def _objects_of(file: GivenFile, format_: ClusterFormat) -> Iterator[Any]:
    from wharfinger.objects.documents.documents import objects_of
    from wharfinger.objects.rk8s import applying

    try:
        if format_ is ClusterFormat.RK8S:
            yield from (document.tree for document in applying.documents(file.content.decode("utf-8-sig")))
            return
        yield from objects_of(file.source, file.content, duplicates=True)
    except UnicodeDecodeError as error:
        raise UsageError(f"{file.source} is no UTF-8 text (byte {error.start})") from None
    except InvalidObject as error:
        better = "as JSON" if format_ is ClusterFormat.KUBERNETES else "as one document for each object"
        hint = "" if len(file.content) < LARGE_FILES else f" (give a large list {better})"
        raise UsageError(f"{file.source}: {error}{hint}") from None


def take(objects: Sequence[GivenObject], found: Supposed, validate: Validation) -> None:
    """Add the objects to what is supposed.

    Raises `UsageError` for what is no object of a kind that its group has; `InvalidConfiguration`, which names all
    that is wrong with the others.
    """
    from wharfinger.whatif.cli.live_state import OBJECT_LIMIT

    if len(objects) > OBJECT_LIMIT:
        raise UsageError(f"more than {OBJECT_LIMIT:,} objects are given")
    taking = _Taking(found, validate)
    for one in objects:
        try:
            taking.take(one)
        except InvalidObject as error:
            raise UsageError(f"{one.source}: {error}{_named(one.obj, str(error))}") from None
    taking.finish()


def _named(obj: Any, said: str) -> str:
    """Which object of a file an error is about, where it has a name and the error does not have it."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f" ({str(obj.get('kind'))[:40]} {name[:80]})" if isinstance(name, str) and name not in said else ""


class _Taking:
    """What was found while objects are taken."""

    def __init__(self, found: Supposed, validate: Validation) -> None:
        self._found = found
        self._validate = validate
        self._problems: list[str] = []
        self._again: dict[str, list[str]] = {}
        """Object that is defined more than once -> its files."""
        self._others: dict[OtherKind, None] = {}
        self._doubtful: list[str] = []
        """What an API server of this release would refuse of objects that one took."""

    def take(self, one: GivenObject) -> None:
        """Add an object, or pass it over. Raises `InvalidObject`."""
        from wharfinger.objects.documents.unknown import other_kind
        from wharfinger.objects.rk8s.applying import kubernetes_object
        from wharfinger.whatif.cli.live_state import telling_kinds

        found, obj = self._found, one.obj
        if not isinstance(obj, Mapping):
            raise InvalidObject("one of its documents is no object")
        if not isinstance(obj.get("kind"), str) or not obj["kind"]:
            raise InvalidObject("one of its objects has no kind")
        is_kubernetes = found.format is ClusterFormat.KUBERNETES
        other = other_kind(obj) if is_kubernetes else None
        if other is not None and other.is_worth_a_note:
            self._others[other] = None
        if other is not None or obj["kind"] not in telling_kinds(found.format):
            return
        meant = self._with_name(obj) if is_kubernetes else kubernetes_object(obj)
        ref = found.inventory.put(meant, applied=True)
        if is_kubernetes:
            self._check(one, str(ref))
        if ref in found.given:
            self._again.setdefault(str(ref), [found.sources[ref]]).append(one.source)
        found.given[ref] = meant
        found.sources[ref] = one.source
        if one.place == 0:
            found.first[ref] = meant

    def _with_name(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object; with a name, where it leaves that to the API server."""
        stem = stem_of(obj)
        if not stem:
            return obj
        taken = {ref.name for ref, _ in self._found.inventory.of_kind(obj["kind"])}
        return {**obj, "metadata": {**obj["metadata"], "name": generated(stem, taken)}}

    def _check(self, one: GivenObject, title: str) -> None:
        """Find unknown and duplicate fields, and what an API server would refuse."""
        from wharfinger.objects.documents import unknown
        from wharfinger.objects.documents.checks.objects import problems_of, was_taken

        findings = unknown.findings(one.obj) if self._validate is not Validation.IGNORE else ()
        if self._validate is Validation.WARN:
            warn(title, findings)
        else:
            self._problems += [f"{one.source}: {title}: {finding}" for finding in findings]
        if not was_taken(one.obj):
            self._problems += [f"{one.source}: {title}: {problem}" for problem in problems_of(one.obj)]
        elif not (one.obj["kind"] == "Node" or mapping(one.obj, "spec").get("nodeName")):
            self._doubtful += [f"{title}: {problem}" for problem in problems_of(one.obj)[:1]]

    def finish(self) -> None:
        """Raise `UsageError` or `InvalidConfiguration` if something is wrong; else note what is worth knowing."""
        found = self._found
        of_rk8s = next(filter(_OF_RK8S.search, self._problems), None)
        if of_rk8s is not None:
            advice = "These look like documents of rk8s: add --format rk8s"
            if found.revision is not None:
                advice = "Such fields are rk8s', and this cluster's objects are Kubernetes'"
            raise UsageError(f"{of_rk8s} {advice}")
        if self._problems:
            raise InvalidConfiguration(self._problems)
        if self._doubtful:
            of = f"{len(self._doubtful)} of the objects that come from a cluster"
            found.notes.append(f"an API server of Kubernetes 1.36 would refuse {of}: {self._doubtful[0]}")
        for title, sources in list(self._again.items())[:_NAMED]:
            places = ", ".join(dict.fromkeys(sources))
            found.notes.append(f"{title} is defined {len(sources)} times, and the last one counts ({places})")
        if len(self._again) > _NAMED:
            found.notes.append(f"{len(self._again) - _NAMED} more objects are defined several times")
        found.unmade += sorted(str(other) for other in self._others if other.makes_pods)
        if found.unmade:
            whose = ", ".join(found.unmade)
            found.notes.append(f"the pods of {whose} are not made, because its controller is not simulated: give pods")
        found.passed_over = bool(self._others)
        if self._others:
            passed = ", ".join(sorted(map(str, self._others)))
            found.notes.append(f"objects of kinds that are not known here are passed over: {passed}")


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""As an API server takes them: no vowels, so that no words are made."""
_MADE = 5
"""Letters that are made."""
_GIVEN = 63 - _MADE
"""Letters of the given part that are kept."""


def generated(stem: str, taken: Container[str]) -> str:
    """The first name that follows from the stem and that is not taken."""
    for number in itertools.count():
        digest = hashlib.sha256(f"{stem}/{number}".encode()).digest()
        name = stem[:_GIVEN] + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_MADE])
        if name not in taken:
            break
    return name


def stem_of(obj: Mapping[str, Any]) -> str:
    """`metadata.generateName` of an object without a name; empty for any other."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("name"):
        return ""
    stem = metadata.get("generateName")
    return stem if isinstance(stem, str) else ""
