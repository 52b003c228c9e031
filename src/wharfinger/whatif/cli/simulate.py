"""`wharfinger simulate`: what would happen, to pods and to the cluster's use; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.files import RecursiveOption, ValidateOption, Validation
from wharfinger.cli.options import ConfigurationOptions, ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, progress, show
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.whatif.cli.supposed import LiveOption, NamespaceOption

if TYPE_CHECKING:
    from wharfinger.whatif.changes import NodeChanges
    from wharfinger.whatif.cli.supposed import Supposed
    from wharfinger.whatif.outcome import Answer
    from wharfinger.whatif.scene import Scene

_PENDING = "--pending places those that wait, -f those of a file"
_GIVEN = "no pod that is given is without a node, and no workload lacks one"
NOT_PLACED = 1
"""Exit code when some pods are not placed."""


@configured
def simulate(
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--filename", "-f", help="File, folder, or - for standard input; repeatable.", metavar="FILE|DIR|-"
        ),
    ] = None,
    *,
    recursive: RecursiveOption = False,
    live: LiveOption = False,
    pending: Annotated[
        bool, typer.Option("--pending", help="With --live: place the pods that wait there, too.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Decide the bound pods anew instead, in the order in which they were created, and compare the nodes.",
        ),
    ] = False,
    drain: Annotated[
        list[str] | None, typer.Option(help="Suppose the node is drained: its pods go elsewhere.", metavar="NODE")
    ] = None,
    cordon: Annotated[
        list[str] | None, typer.Option(help="Suppose the node takes no new pods.", metavar="NODE")
    ] = None,
    add_nodes: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Suppose so many more nodes, like the --like next to it.", metavar="N"),
    ] = None,
    like: Annotated[list[str] | None, typer.Option(help="The node that new ones resemble.", metavar="NODE")] = None,
    extenders: Annotated[
        bool,
        typer.Option("--extenders", help="Ask the extenders of the configuration; else they are taken to accept pods."),
    ] = False,
    configuration: ConfigurationOptions,
    validate: ValidateOption = Validation.STRICT,
    every: Annotated[bool, typer.Option("--all", help="List every pod, however many.")] = False,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show where pods would go, and why not; nothing is changed.

    Decides as a worker would, in the order of the queue, for the given pods that have no node, for those of the given
    workloads (Deployments, StatefulSets, ReplicaSets, ReplicationControllers, DaemonSets, Jobs, CronJobs: as many as
    are missing), and for the pods of drained nodes. Reads manifests, Lists, and what kubectl get -A -o yaml or json
    prints; large files are read much faster as JSON. --drain, --cordon, --add-nodes with --like can be repeated and
    combined.

    --compare shows what another scheduler did with the bound pods, and what this one would have done. Each pod is
    decided for on the state that holds only the pods before it, then counts where it is: the exit code is 0. -o json:
    revision, summary, pods (pod, result same|tied|lower|refused|nowhere|undecided, node, chosen, score, chosenScore,
    refusals, message), reasons, notes.

    Exit codes: 0 every pod is placed (also after evictions, when the evicted pods are placed too), 1 some are not (or
    the command failed), 2 used wrongly, also when an object is refused. -o json: revision, summary, pods (pod, cause
    given|waiting|drained|evicted, workload, from, result placed|preempting|refused|gated|not-made|failed, node,
    nominatedNode, victims, message, refusals, leansOn), reasons, evictions, before and after (nodes, resources:
    requested, allocatable, percent; cpu in milli-units), notes.
    """
    from wharfinger.whatif.cli.simulated import simulation_text, simulation_values
    from wharfinger.whatif.cli.supposed import supposed

    if not files and not live:
        raise UsageError("nothing to simulate: give objects with -f, or the live state with --live")
    if pending and not live:
        raise UsageError("--pending goes with --live: given pods are placed anyway")
    changes = _changes(add_nodes or (), like or (), cordon or (), drain or ())
    if compare and (pending or changes != _changes((), (), (), ())):
        raise UsageError("--compare takes the state as it is: leave out --pending, --drain, --cordon and --add-nodes")
    found = supposed(files or (), namespace, connection, live=live, recursive=recursive, validate=validate)
    if files and not found.given:
        raise UsageError(_nothing(found, files))
    if compare:
        _compare(found, configuration, output, every=every, extenders=extenders)
        return
    answer = _answer(found, changes, configuration, waiting=pending, extenders=extenders)
    if not (answer.pods or drain or pending) and (found.unmade or (found.passed_over and not _makes_pods(found))):
        raise UsageError(_nothing(found, files or ()))
    if output is Output.TABLE:
        hint = "" if pending or drain else _PENDING if live else _GIVEN
        hint = "; ".join(answer.idle) or hint
        typer.echo(simulation_text(answer, found.revision, every=every, hint=hint, unmade=found.unmade))
    else:
        show(simulation_values(answer, found.revision), output)
    if not answer.complete:
        raise typer.Exit(NOT_PLACED)


def _makes_pods(found: Supposed) -> bool:
    """Whether a pod or a workload is given."""
    from wharfinger.whatif import daemons, workloads

    return any(ref.kind in ("Pod", daemons.KIND, *workloads.KINDS) for ref in found.given)


def _nothing(found: Supposed, files: Sequence[str]) -> str:
    """Why there is nothing to simulate, with what was passed over."""
    what = "no pod, no workload and no node" if not found.given else "no pod and no workload"
    return "; ".join((f"nothing to simulate: there is {what} in {', '.join(files)}", *found.notes))


def _compare(
    found: Supposed,
    configuration: ConfigurationOptions,
    output: Output,
    *,
    every: bool,
    extenders: bool,
) -> None:
    from wharfinger.whatif.cli import simulated
    from wharfinger.whatif.cli.supposed import scene_of
    from wharfinger.whatif.comparison import compare

    scene = scene_of(found, configuration)
    with _asked(scene, extenders=extenders), progress("deciding", len(found.inventory.of_kind("Pod"))) as advance:
        answer = compare(
            found.inventory,
            scene.simulator,
            created=found.created,
            stand_ins=found.stand_ins,
            unknown=scene.unknown,
            progress=advance,
        )
    answer = replace(answer, notes=(*scene.notes, *answer.notes))
    if output is Output.TABLE:
        typer.echo(simulated.comparison_text(answer, found.revision, every=every))
    else:
        show(simulated.comparison_values(answer, found.revision), output)


@contextmanager
def _asked(scene: Scene, *, extenders: bool) -> Iterator[None]:
    """Have extenders asked during the block, if they are to be."""
    if not extenders:
        yield
        return
    from wharfinger.whatif.cli.extender_asking import asking

    with asking(scene):
        yield


def _changes(
    counts: Sequence[int], likes: Sequence[str], cordoned: Sequence[str], drained: Sequence[str]
) -> NodeChanges:
    from wharfinger.whatif.changes import MoreNodes, NodeChanges

    if len(counts) != len(likes):
        raise UsageError("every --add-nodes N needs its --like NODE")
    return NodeChanges(tuple(map(MoreNodes, counts, likes)), tuple(cordoned), tuple(drained))


def _answer(
    found: Supposed,
    changes: NodeChanges,
    configuration: ConfigurationOptions,
    *,
    waiting: bool,
    extenders: bool,
) -> Answer:
    from wharfinger.whatif import play
    from wharfinger.whatif.cli.supposed import scene_of

    scene = scene_of(found, configuration)
    pods = len(found.inventory.of_kind("Pod"))
    try:
        with progress("loading", pods) as advance:
            scene.load(advance)
        with _asked(scene, extenders=extenders), progress("deciding", pods) as advance:
            return play.simulate(scene, changes, waiting=waiting, progress=advance)
    except InvalidObject as error:
        raise found.refusal(error) from error
