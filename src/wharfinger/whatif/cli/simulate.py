"""`wharfinger simulate`: what would happen, to pods and to the cluster's use; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.files import OptionalFilesOption, RecursiveOption, ValidateOption, Validation
from wharfinger.cli.options import ConfigurationOptions, ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, progress, show_answer
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
    files: OptionalFilesOption = None,
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
    from wharfinger.whatif.changes import MoreNodes, NodeChanges
    from wharfinger.whatif.cli.simulated import simulation_text, simulation_values
    from wharfinger.whatif.cli.supposed import scene_of, supposed

    if not files and not live:
        raise UsageError("nothing to simulate: give objects with -f, or the live state with --live")
    if pending and not live:
        raise UsageError("--pending goes with --live: given pods are placed anyway")
    if len(add_nodes or ()) != len(like or ()):
        raise UsageError("every --add-nodes N needs its --like NODE")
    changes = NodeChanges(tuple(map(MoreNodes, add_nodes or (), like or ())), tuple(cordon or ()), tuple(drain or ()))
    if compare and (pending or changes != NodeChanges()):
        raise UsageError("--compare takes the state as it is: leave out --pending, --drain, --cordon and --add-nodes")
    found = supposed(files or (), namespace, connection, live=live, recursive=recursive, validate=validate)
    if files and not found.given:
        raise UsageError(_nothing(found, files))
    scene = scene_of(found, configuration)
    asked = _asked(scene, extenders=extenders)
    if compare:
        _compare(found, scene, asked, output, every=every)
        return
    answer = _answer(found, scene, asked, changes, waiting=pending)
    if not (answer.pods or drain or pending) and (found.unmade or (found.passed_over and not _makes_pods(found))):
        raise UsageError(_nothing(found, files or ()))
    hint = "; ".join(answer.idle) or ("" if pending or drain else _PENDING if live else _GIVEN)
    show_answer(
        output,
        lambda: simulation_values(answer, found.revision),
        lambda: simulation_text(answer, found.revision, every=every, hint=hint, unmade=found.unmade),
    )
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
    found: Supposed, scene: Scene, asked: AbstractContextManager[None], output: Output, *, every: bool
) -> None:
    from wharfinger.whatif.cli import simulated
    from wharfinger.whatif.comparison import compare

    with asked, progress("deciding", len(found.inventory.of_kind("Pod"))) as advance:
        answer = compare(
            found.inventory,
            scene.simulator,
            created=found.created,
            stand_ins=found.stand_ins,
            unknown=scene.unknown,
            progress=advance,
        )
    answer = replace(answer, notes=(*scene.notes, *answer.notes))
    show_answer(
        output,
        lambda: simulated.comparison_values(answer, found.revision),
        lambda: simulated.comparison_text(answer, found.revision, every=every),
    )


def _asked(scene: Scene, *, extenders: bool) -> AbstractContextManager[None]:
    """Has extenders asked during the block, if they are to be."""
    if not extenders:
        return nullcontext()
    from wharfinger.whatif.cli.extender_asking import asking

    return asking(scene)


def _answer(
    found: Supposed, scene: Scene, asked: AbstractContextManager[None], changes: NodeChanges, *, waiting: bool
) -> Answer:
    from wharfinger.whatif import play

    pods = len(found.inventory.of_kind("Pod"))
    try:
        with progress("loading", pods) as advance:
            scene.load(advance)
        with asked, progress("deciding", pods) as advance:
            return play.simulate(scene, changes, waiting=waiting, progress=advance)
    except InvalidObject as error:
        raise found.refusal(error) from error
