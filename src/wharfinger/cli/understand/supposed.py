"""What a what-if command works on: the objects given with `-f`, and with `--live` those of etcd at one revision.

Etcd is only read. Kinds that mean nothing to placing pods are passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from wharfinger.cli.files import contents
from wharfinger.cli.objects.validation import Validation, warn
from wharfinger.cli.options import ConnectionOptions, PluginPackages
from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError

if TYPE_CHECKING:
    from wharfinger.manifests.kinds import Kind
    from wharfinger.registry.store import KeyValue, Store
    from wharfinger.whatif.inventory import Inventory, Obj, Ref
    from wharfinger.whatif.scene import Scene

LARGE_FILES = 2 * 1024 * 1024
"""Bytes of all files together from which on reading them is long work."""
OBJECT_LIMIT = 500_000
"""Objects, given and live together."""
PROGRESS_FROM = 2000
"""Pods from which on a terminal is shown a progress bar."""

LiveOption = Annotated[
    bool, typer.Option("--live", help="On a copy of the live state, read from etcd at one revision.")
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.", metavar="NAME")
]


class GivenObject(NamedTuple):
    """An object of a file."""

    place: int
    """Of its -f among all of them."""
    source: str
    """The file's name."""
    obj: Any


@dataclass(slots=True)
class Supposed:
    """The objects, and where they come from."""

    inventory: Inventory
    given: dict[Ref, Obj] = field(default_factory=dict)
    """Those that were given by hand, as they were."""
    first: dict[Ref, Obj] = field(default_factory=dict)
    """Those of the first -f."""
    revision: int | None = None
    """Of the live state, None without one."""
    notes: list[str] = field(default_factory=list)


def supposed(
    files: Sequence[str],
    namespace: str,
    connection: ConnectionOptions,
    *,
    live: bool,
    live_without_nodes: bool = False,
    validate: Validation = Validation.STRICT,
) -> Supposed:
    """Read everything. `live_without_nodes`: take the live state too when no node is given.

    Raises `UsageError` naming what of the given objects cannot be read; `InvalidConfiguration` naming all their unknown
    and duplicate fields, when these are not allowed; `StoreError`.
    """
    from wharfinger.whatif.inventory import Inventory

    objects = _objects(files)
    if live_without_nodes and not any(
        isinstance(one.obj, Mapping) and one.obj.get("kind") == "Node" for one in objects
    ):
        live = True
    found = Supposed(Inventory(namespace))
    if live:
        from wharfinger.cli import connect

        connect.run(_take_live(connection, found))
    _take_given(objects, found, validate)
    return found


def scene_of(found: Supposed, config: Path | None, plugins: PluginPackages) -> Scene:
    """The objects on the stage, decided on with the configuration; `InvalidConfiguration` when that is not valid."""
    from wharfinger.whatif.scene import Scene

    scene = Scene(found.inventory, found.given, config, all_plugins=plugins is PluginPackages.ALL)
    scene.notes += found.notes
    return scene


@contextmanager
def progress(text: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, for long work and a terminal; yields a function of how much is done, of how much.

    `total`: of pods or so, as far as it is known before; 0 = unknown, and long.
    """
    if (total and total < PROGRESS_FROM) or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total or None)
        yield lambda done, of: bar.update(task, completed=done, total=of or None) if done % 64 == 0 else None


def _objects(files: Sequence[str]) -> list[GivenObject]:
    read = [(place, source, content) for place, given in enumerate(files) for source, content in contents(given)]
    size = sum(len(content) for _, _, content in read)
    found: list[GivenObject] = []
    with progress("reading", 0 if size >= LARGE_FILES else 1) as advance:
        for place, source, content in read:
            for obj in _documents(source, content):
                found.append(GivenObject(place, source, obj))
                advance(len(found), 0)
    return found


def _documents(source: str, content: bytes) -> Iterator[Any]:
    from wharfinger.manifests import documents

    try:
        yield from documents.objects(content.decode("utf-8-sig"), duplicates=True)
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is no UTF-8 text (byte {error.start})") from None
    except InvalidObject as error:
        hint = "" if len(content) < LARGE_FILES else " (large lists are better given as JSON)"
        raise UsageError(f"{source}: {error}{hint}") from None


def _take_given(objects: Sequence[GivenObject], found: Supposed, validate: Validation) -> None:
    from wharfinger.manifests import strict
    from wharfinger.manifests.kinds import KINDS
    from wharfinger.whatif.scene import KINDS as TELLING_KINDS

    if len(objects) > OBJECT_LIMIT:
        raise UsageError(f"more than {OBJECT_LIMIT:,} objects are given")
    known = {kind.name for kind in KINDS}
    unknown: set[str] = set()
    problems: list[str] = []
    for place, source, obj in objects:
        kind = _kind(source, obj)
        if kind in TELLING_KINDS:
            try:
                ref = found.inventory.put(obj, applied=True)
                findings = strict.findings(obj) if validate is not Validation.IGNORE else ()
            except InvalidObject as error:
                raise UsageError(f"{source}: {error}") from None
            if validate is Validation.WARN:
                warn(str(ref), findings)
            else:
                problems += [f"{source}: {ref}: {finding}" for finding in findings]
            found.given[ref] = obj
            if place == 0:
                found.first[ref] = obj
        elif kind not in known:
            unknown.add(kind[:40])
    if problems:
        raise InvalidConfiguration(problems)
    if unknown:
        found.notes.append(f"objects of unknown kinds are passed over: {', '.join(sorted(unknown))}")


def _kind(source: str, obj: Any) -> str:
    if not isinstance(obj, Mapping):
        raise UsageError(f"{source}: one of its documents is no object")
    kind = obj.get("kind")
    if not isinstance(kind, str) or not kind:
        raise UsageError(f"{source}: one of its objects has no kind")
    return kind


async def _take_live(connection: ConnectionOptions, found: Supposed) -> None:
    from wharfinger.cli.connect import open_store

    async with open_store(connection) as store:
        await read_live(store, found)


async def read_live(store: Store, found: Supposed) -> None:
    """Everything that etcd holds of the kinds that matter, at one revision; what cannot be read is counted in a note.

    Raises `UsageError` beyond the `OBJECT_LIMIT`, `StoreError`.
    """
    from wharfinger.manifests.kinds import KINDS
    from wharfinger.registry import keys
    from wharfinger.whatif.scene import KINDS as TELLING_KINDS

    unreadable = count = 0
    with progress("reading etcd", 0) as advance:
        for kind in KINDS:
            if kind.name not in TELLING_KINDS:
                continue
            async for page in store.list(keys.stored_prefix(kind.folder), revision=found.revision or 0):
                found.revision = page.revision
                for kv in page.items:
                    count += 1
                    if count > OBJECT_LIMIT:
                        raise UsageError(f"etcd holds more than {OBJECT_LIMIT:,} objects")
                    unreadable += not _put_live(found, kind, kv)
                    advance(count, 0)
    if unreadable:
        found.notes.append(f"{unreadable} objects in etcd cannot be read and do not count")


def _put_live(found: Supposed, kind: Kind, kv: KeyValue) -> bool:
    """Add a stored object; whether it can be read. What it leaves out of kind and namespace, its key says."""
    from wharfinger.manifests import documents
    from wharfinger.manifests.fields import mapping
    from wharfinger.manifests.metadata import check_key
    from wharfinger.registry import keys

    *spaces, name = kv.key.removeprefix(keys.stored_prefix(kind.folder)).split("/")
    if len(spaces) != kind.namespaced:
        return False
    try:
        obj = documents.parse(kv.value)
        check_key(obj, namespace="".join(spaces), name=name)
        metadata = {**({"namespace": spaces[0]} if spaces else {}), **mapping(obj, "metadata")}
        version = f"{kind.group}/v1" if kind.group else "v1"
        found.inventory.put({"apiVersion": version, "kind": kind.name, **obj, "metadata": metadata})
    except InvalidObject:
        return False
    return True
