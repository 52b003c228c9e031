"""`wharfinger capacity`: how many more of a pod fit, where, and what stops the next one; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.files import FilesOption, RecursiveOption, ValidateOption, Validation
from wharfinger.cli.options import ConfigurationOptions, ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, progress, show_answer
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.whatif.cli.supposed import LiveOption, NamespaceOption

if TYPE_CHECKING:
    from wharfinger.whatif.capacity import Capacity
    from wharfinger.whatif.cli.supposed import Supposed

NONE_FITS = 1
"""Exit code when not even one fits."""
MOST = 100_000
"""Copies that are counted at most, by default of --most."""


@configured
def capacity(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    live: LiveOption = False,
    most: Annotated[int, typer.Option(help="Stop counting at this number.", min=1, max=1_000_000, metavar="N")] = MOST,
    configuration: ConfigurationOptions,
    validate: ValidateOption = Validation.STRICT,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show how many more of a pod fit, on which nodes, and what stops the next one; nothing is changed.

    The first -f contains one pod without a node, or one workload, whose pod template is counted. The same or other
    files contain the nodes and the pods on them. Without a node among them, or with --live, the live state is added.
    No pod is evicted.

    Exit codes: 0 at least one fits, 1 none does (or the command failed), 2 used wrongly, also when an object is
    refused. -o json: revision, pod, fits, limited (counting stopped at --most), nodes (node to number), message and
    refusals (of the next one), before, after, notes.
    """
    from wharfinger.whatif.cli import simulated
    from wharfinger.whatif.cli.supposed import supposed

    found = supposed(
        files, namespace, connection, live=live, live_without_nodes=True, recursive=recursive, validate=validate
    )
    counted = _count(found, configuration, most)
    show_answer(
        output,
        lambda: simulated.capacity_values(counted, found.revision),
        lambda: simulated.capacity_text(counted, found.revision),
    )
    if not counted.fits:
        raise typer.Exit(NONE_FITS)


def _count(found: Supposed, configuration: ConfigurationOptions, most: int) -> Capacity:
    from wharfinger.whatif import capacity
    from wharfinger.whatif.cli.supposed import scene_of

    scene = scene_of(found, configuration)
    try:
        try:
            pod = capacity.subject(scene, found.first.items(), found.given.items())
        except UsageError as error:
            raise UsageError("; ".join((str(error), *(found.notes if found.unmade else ())))) from error
        scene.load()
        with progress("counting", 0) as advance:
            return capacity.capacity(scene, pod, most=most, progress=lambda done: advance(done, 0))
    except InvalidObject as error:
        raise found.refusal(error) from error
