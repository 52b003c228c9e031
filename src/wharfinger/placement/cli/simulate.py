"""`wharfinger placement simulate`: decides in memory which clusters the placements of some files get, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.files import FilesOption, RecursiveOption, contents_of
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show_answer
from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.objects.documents.documents import objects_of
from wharfinger.objects.documents.fields import part
from wharfinger.objects.model.placement_kinds import MEMBER_CLUSTER, PLACEMENTS
from wharfinger.placement.cli.placements import tell_deviations
from wharfinger.placement.deciding.deviations import in_order
from wharfinger.placement.spec.members import member_from_mapping
from wharfinger.placement.spec.placement import check_placement_object
from wharfinger.placement.spec.placements import placement_ref
from wharfinger.placement.state.placed_kinds import refused_kinds

if TYPE_CHECKING:
    from wharfinger.placement.kubefleet.placement_simulator import SimulatedPlacement

SHOWN = 1000
"""Lines of one decision."""


def simulate(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    now: Annotated[
        str | None,
        typer.Option(help="The moment at which the agents' heart-beats are looked at. [default: now]", metavar="TIME"),
    ] = None,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="Decide as KubeFleet's scheduler does, with its defects.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Decide which clusters placements get, from files; no server is asked and nothing is changed.

    Reads MemberClusters, ClusterResourcePlacements and ResourcePlacements of KubeFleet, as written or as kubectl get
    -o yaml prints them. A member that has not been heard for five minutes takes nothing: give --now the moment at
    which its status was printed.

    The exit code is 1 when an object is invalid, or a policy is not fulfilled.
    """
    from wharfinger.placement.kubefleet.placement_simulator import PlacementSimulator

    moment = _moment(now)
    members, placements, problems, notes = _sorted(contents_of(files, recursive=recursive))
    for note in notes:
        typer.echo(plain(f"note: {note}"), err=True)
    for problem in problems:
        typer.echo(plain(f"error: {problem}"), err=True)
    if problems:
        raise typer.Exit(1)
    if not placements:
        raise UsageError("no placement found")
    simulator = PlacementSimulator(upstream=upstream, now=moment, unselected_limit=SHOWN)
    for obj in (*members, *placements):
        simulator.add(obj)
    decided = [
        simulator.decide(reference) for reference in dict.fromkeys(str(placement_ref(obj)) for obj in placements)
    ]
    show_answer(output, lambda: [_mapping(one) for one in decided], lambda: "\n\n".join(map(_table, decided)))
    if not all(one.status is not None and one.status["scheduled"]["status"] == "True" for one in decided):
        raise typer.Exit(1)


def _moment(now: str | None) -> str:
    if now is None:
        return datetime.now(UTC).isoformat()
    try:
        if datetime.fromisoformat(now).tzinfo is not None:
            return now
    except ValueError:
        pass
    raise UsageError(f"--now {now[:40]!r} is no moment such as 2026-01-31T12:00:00Z")


def _sorted(
    files: Iterable[tuple[str, bytes]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]], list[str], list[str]]:
    """Members, placements, what is wrong with an object, and what has no effect."""
    members: list[Mapping[str, Any]] = []
    placements: list[Mapping[str, Any]] = []
    problems: list[str] = []
    notes: list[str] = []
    for source, obj in _objects(files, problems):
        kind = obj.get("kind")
        about = f"{source}: {kind} {part(obj, 'metadata').get('name')}"
        if kind not in (MEMBER_CLUSTER, *PLACEMENTS):
            notes.append(f"{about} is left out: nothing is decided by it here")
            continue
        try:
            notes += [f"{about}: {note}" for note in check_placement_object(obj, reads_status=True)]
            if kind == MEMBER_CLUSTER:
                member_from_mapping(obj, 0)
            else:
                notes += [f"{about}: {one}" for one in refused_kinds(obj)]
        except InvalidConfiguration as error:
            problems += [f"{about}: {problem}" for problem in error.problems]
        except InvalidObject as error:
            problems.append(f"{about}: {error}")
        (members if kind == MEMBER_CLUSTER else placements).append(obj)
    return members, placements, problems, notes


def _objects(files: Iterable[tuple[str, bytes]], problems: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for source, content in files:
        try:
            for obj in objects_of(source, content):
                yield source, obj
        except InvalidObject as error:
            problems.append(f"{source}: {error}")


def _mapping(decided: SimulatedPlacement) -> dict[str, Any]:
    status = decided.status
    failures = [cycle["error"]["text"] for cycle in decided.cycles if "error" in cycle]
    return {
        "placement": decided.reference,
        "numberOfClusters": decided.snapshot.get("numberOfClusters"),
        "condition": {name: status["scheduled"][name] for name in ("status", "reason", "message")} if status else None,
        "decisions": list(status["decisions"]) if status else [],
        "deviations": in_order(decided.deviations),
        "error": failures[0] if failures else None,
    }


def _table(decided: SimulatedPlacement) -> str:
    told = _mapping(decided)
    if told["condition"] is None:
        return f"{plain(told['placement'])}: nothing is decided: {plain(told['error'] or 'no cluster is named')}"
    rows = [
        (
            line["cluster"],
            "yes" if line["selected"] else "no",
            str(line.get("spread", "")),
            str(line.get("affinity", "")),
            line["reason"],
        )
        for line in told["decisions"]
    ]
    lines = [f"{plain(told['placement'])}: {plain(told['condition']['message'])}"]
    if rows:
        lines.append(Columns("CLUSTER", "CHOSEN", "SPREAD", "AFFINITY", "WHY").render(rows))
    lines += tell_deviations(told)
    return "\n".join(lines)
