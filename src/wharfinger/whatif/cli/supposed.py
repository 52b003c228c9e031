"""What a what-if command works on: the objects given with `-f`, and with `--live` those of etcd at one revision.

Etcd is only read. What becomes of the given objects: `given`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.files import Validation, contents, unread
from wharfinger.cli.options import ConfigurationOptions, ConnectionOptions, namespace_option
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.whatif.cli import given
from wharfinger.whatif.cli.given import GivenFile, GivenObject

if TYPE_CHECKING:
    from wharfinger.whatif.inventory import Inventory, Obj, Ref
    from wharfinger.whatif.scene import Scene

LiveOption = Annotated[
    bool, typer.Option("--live", help="On a copy of the live state, read from etcd at one revision.")
]
NamespaceOption = Annotated[str, namespace_option("Namespace of objects that name none.")]


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
    passed_over: bool = False
    """Whether kinds that are not known here are given."""
    unmade: list[str] = field(default_factory=list)
    """The given kinds whose pods are not made, because their controllers are not simulated."""

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
    recursive: bool = False,
    validate: Validation = Validation.STRICT,
) -> Supposed:
    """Read everything. `live_without_nodes`: take the live state too when no node is given.

    `recursive`: read the folders below folders, too; without it, a note names these.

    Raises `UsageError` naming what of the given objects cannot be read; `InvalidConfiguration` naming all their unknown
    and duplicate fields, when these are not allowed; `StoreError`.
    """
    from wharfinger.whatif.inventory import Inventory

    read = [
        GivenFile(place, name, content)
        for place, source in enumerate(files)
        for name, content in contents(source, recursive=recursive)
    ]
    found = Supposed(Inventory(namespace), format=connection.format or ClusterFormat.KUBERNETES)
    found.notes += [note for source in files if not recursive for note in unread(source)]
    objects = None if live else given.objects_in(read, found.format)
    if objects is not None:
        _not_empty(files, objects)
    if live_without_nodes and not any(given.is_node(one.obj) for one in objects or ()):
        live = True
    if live:
        from wharfinger.cli import connect

        objects = connect.run(_take_live(connection, found, read, objects))
        _not_empty(files, objects)
    given.take(objects or (), found, validate)
    return found


def _not_empty(files: Sequence[str], objects: Sequence[GivenObject]) -> None:
    if files and not objects:
        raise UsageError(f"no objects found in {', '.join(files)}")


def scene_of(found: Supposed, configuration: ConfigurationOptions) -> Scene:
    """The objects on the stage, decided on with the configuration; `InvalidConfiguration` when that is not valid."""
    from wharfinger.framework.profiles import default_configuration
    from wharfinger.whatif.scene import Scene

    scene = Scene(
        found.inventory,
        found.given,
        default_configuration(found.format) if configuration.config is None else configuration.config,
        all_plugins=configuration.all_plugins,
        stand_ins=found.stand_ins,
    )
    scene.notes += found.notes
    return scene


async def _take_live(
    connection: ConnectionOptions,
    found: Supposed,
    read: Sequence[GivenFile],
    objects: list[GivenObject] | None,
) -> list[GivenObject]:
    """Add the live state; answers the given objects, read in the cluster's format."""
    from wharfinger.whatif.cli.live_state import read_live

    async with connection.store() as store:
        if objects is None or store.format is not found.format:
            objects = given.objects_in(read, store.format)
        await read_live(store, found)
    return objects
