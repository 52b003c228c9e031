"""What a what-if command works on: the objects given with `-f`, and with `--live` those of etcd at one revision.

Etcd is only read. Kinds that mean nothing to placing pods are passed over.
"""

from __future__ import annotations

import re
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
from wharfinger.model.formats import ClusterFormat

if TYPE_CHECKING:
    from wharfinger.whatif.inventory import Inventory, Obj, Ref
    from wharfinger.whatif.scene import Scene

LARGE_FILES = 2 * 1024 * 1024
"""Bytes of all files together from which on reading them is long work."""
PROGRESS_FROM = 2000
"""Pods from which on a terminal is shown a progress bar."""

_OF_RK8S = re.compile(r"\.(node_name|(?:node|pod|pod_anti)_affinity): unknown field; did you mean \w+\?$")
"""A field that rk8s spells in its own way, told as an unknown one of Kubernetes."""

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
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """Of the cluster; the inventory has what documents of rk8s stand for."""
    stand_ins: set[Ref] = field(default_factory=set)
    """Live pods of rk8s that cannot be read: in the inventory is what they hold."""
    created: dict[Ref, int] = field(default_factory=dict)
    """Create revisions of the live pods."""
    sources: dict[Ref, str] = field(default_factory=dict)
    """The file of each given object."""

    def refusal(self, error: InvalidObject) -> UsageError:
        """The same for a user: with the file of the object that the error begins with, if a file has it."""
        said = str(error)
        source = next((source for ref, source in self.sources.items() if said.startswith(f"{ref}: ")), "")
        return UsageError(f"{source}: {said}" if source else said)


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

    read = [(place, source, content) for place, given in enumerate(files) for source, content in contents(given)]
    found = Supposed(Inventory(namespace), format=connection.format or ClusterFormat.KUBERNETES)
    objects = None if live else _objects(read, found.format)
    if objects is not None:
        _not_empty(files, objects)
    if live_without_nodes and not any(_is_node(one.obj) for one in objects or ()):
        live = True
    if live:
        from wharfinger.cli import connect

        objects = connect.run(_take_live(connection, found, read, objects))
        _not_empty(files, objects)
    _take_given(objects or (), found, validate)
    return found


def _not_empty(files: Sequence[str], objects: Sequence[GivenObject]) -> None:
    if files and not objects:
        raise UsageError(f"no objects found in {', '.join(files)}")


def _is_node(obj: Any) -> bool:
    return isinstance(obj, Mapping) and obj.get("kind") == "Node"


def scene_of(found: Supposed, config: Path | None, plugins: PluginPackages) -> Scene:
    """The objects on the stage, decided on with the configuration; `InvalidConfiguration` when that is not valid."""
    from wharfinger.config.formats import default_configuration
    from wharfinger.whatif.scene import Scene

    scene = Scene(
        found.inventory,
        found.given,
        default_configuration(found.format) if config is None else config,
        all_plugins=plugins is PluginPackages.ALL,
        stand_ins=found.stand_ins,
    )
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


def _objects(read: Sequence[tuple[int, str, bytes]], format_: ClusterFormat) -> list[GivenObject]:
    size = sum(len(content) for _, _, content in read)
    found: list[GivenObject] = []
    with progress("reading", 0 if size >= LARGE_FILES else 1) as advance:
        for place, source, content in read:
            for obj in _documents(source, content, format_):
                found.append(GivenObject(place, source, obj))
                advance(len(found), 0)
    return found


def _documents(source: str, content: bytes, format_: ClusterFormat) -> Iterator[Any]:
    from wharfinger.manifests import documents
    from wharfinger.manifests.rk8s import given

    try:
        if format_ is ClusterFormat.RK8S:
            yield from (document.tree for document in given.documents(content.decode("utf-8-sig")))
            return
        yield from documents.objects(content.decode("utf-8-sig"), duplicates=True)
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is no UTF-8 text (byte {error.start})") from None
    except InvalidObject as error:
        better = "as JSON" if format_ is ClusterFormat.KUBERNETES else "as one document for each object"
        hint = "" if len(content) < LARGE_FILES else f" (give a large list {better})"
        raise UsageError(f"{source}: {error}{hint}") from None


def _take_given(objects: Sequence[GivenObject], found: Supposed, validate: Validation) -> None:
    from wharfinger.cli.understand.live_state import OBJECT_LIMIT, telling_kinds
    from wharfinger.manifests import strict
    from wharfinger.manifests.kinds import KINDS
    from wharfinger.manifests.rk8s.given import kubernetes_object

    if len(objects) > OBJECT_LIMIT:
        raise UsageError(f"more than {OBJECT_LIMIT:,} objects are given")
    known = {kind.name for kind in KINDS}
    unknown: set[str] = set()
    problems: list[str] = []
    for place, source, obj in objects:
        kind = _kind(source, obj)
        if kind in telling_kinds(found.format):
            try:
                meant = obj if found.format is ClusterFormat.KUBERNETES else kubernetes_object(obj)
                ref = found.inventory.put(meant, applied=True)
                judged = validate is not Validation.IGNORE and meant is obj
                findings = strict.findings(obj) if judged else ()
            except InvalidObject as error:
                raise UsageError(f"{source}: {error}") from None
            if validate is Validation.WARN:
                warn(str(ref), findings)
            else:
                problems += [f"{source}: {ref}: {finding}" for finding in findings]
            found.given[ref] = meant
            found.sources[ref] = source
            if place == 0:
                found.first[ref] = meant
        elif kind not in known:
            unknown.add(kind[:40])
    of_rk8s = next(filter(_OF_RK8S.search, problems), None)
    if of_rk8s is not None:
        raise UsageError(_of_rk8s(of_rk8s, live=found.revision is not None))
    if problems:
        raise InvalidConfiguration(problems)
    if unknown:
        found.notes.append(f"objects of unknown kinds are passed over: {', '.join(sorted(unknown))}")


def _of_rk8s(problem: str, *, live: bool) -> str:
    """What to do with documents that have fields as rk8s spells them. `problem`: about the first of these."""
    if live:
        return f"{problem} Such fields are rk8s', and this cluster's objects are Kubernetes'"
    return f"{problem} These look like documents of rk8s: add --format rk8s"


def _kind(source: str, obj: Any) -> str:
    if not isinstance(obj, Mapping):
        raise UsageError(f"{source}: one of its documents is no object")
    kind = obj.get("kind")
    if not isinstance(kind, str) or not kind:
        raise UsageError(f"{source}: one of its objects has no kind")
    return kind


async def _take_live(
    connection: ConnectionOptions,
    found: Supposed,
    read: Sequence[tuple[int, str, bytes]],
    objects: list[GivenObject] | None,
) -> list[GivenObject]:
    """Add the live state; answers the given objects, read in the cluster's format."""
    from wharfinger.cli.connect import open_store
    from wharfinger.cli.understand.live_state import read_live

    async with open_store(connection) as store:
        if objects is None or store.format is not found.format:
            objects = _objects(read, store.format)
        await read_live(store, found)
    return objects
