"""`wharfinger config set|unset|get|history`: values that workers take in while they run, without a restart.

They work on etcd alone; workers follow by their watch. Neighbour: `configuration.cli.commands` has the commands for
files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.configuration.stored_values import SHOWN, Effective, StoredValue
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.records import ConfigChangeRecord

if TYPE_CHECKING:
    from wharfinger.etcd.store import Store


DYNAMIC = "While workers run"
"""Panel of `wharfinger config --help`."""

KindArgument = Annotated[str, typer.Argument(help="profile, queue, cohort or log.", metavar="KIND")]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        help="Whose: default, tenant/TENANT (`tenant/common` for the common pool) or instance/TENANT/SLOT. The most "
        "specific one counts; default counts only for a worker whose configuration and options leave this kind at its "
        "defaults.",
        metavar="TARGET",
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why: shown by `config history`.", metavar="TEXT")]


def register(group: typer.Typer) -> None:
    """Add the commands to the group `config`."""
    group.command("set", rich_help_panel=DYNAMIC)(set_value)
    group.command("unset", rich_help_panel=DYNAMIC)(unset)
    group.command("get", rich_help_panel=DYNAMIC)(get)
    group.command("history", rich_help_panel=DYNAMIC)(history)


@configured
async def set_value(
    kind: KindArgument,
    *,
    target: TargetOption,
    file: Annotated[
        str, typer.Option("--filename", "-f", help="The value (YAML or JSON); - for standard input.", metavar="FILE|-")
    ] = "",
    value: Annotated[str, typer.Option("--value", help="The value itself.", metavar="JSON")] = "",
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Write the value also when it is set already: workers that reverted it try it once more."
        ),
    ] = False,
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Set a value; workers apply it within moments, without a restart.

    profile: {profiles: {NAME: {weights: {PLUGIN: N}, pluginConfig: [{name, args}]}}}. queue: podInitialBackoffSeconds,
    podMaxBackoffSeconds. cohort: cohorts (auto, off), cohortMost, cohortsInFlight, parkedChains. log:
    level.

    If a value is wrong, each mistake is printed on a line of its own and nothing is written (exit code 2).
    """
    from wharfinger.configuration.changes import ValueChange, check, without_effect, write
    from wharfinger.configuration.stored_values import absence_note
    from wharfinger.fleet.reading.fleet_templates import known_plugins
    from wharfinger.framework.config.dynamic import check_kind, check_target
    from wharfinger.process.committing import author

    check_kind(kind)
    change = ValueChange(kind, check_target(target), _given(file, value))
    async with connection.store() as store:
        await check(store, change, known_plugins())
        note = await absence_note(store, change.target)
        done = await write(store, change, author(reason), now=_now(), again=again)
    typer.echo(f"{change} {done.result}")
    if note:  # it may be set before, but a slip of the pen looks the same
        typer.echo(note, err=True)
    for line in without_effect(change):
        typer.echo(f"warning: {line}", err=True)


@configured
async def unset(
    kind: KindArgument, *, target: TargetOption, reason: ReasonOption = "", connection: ConnectionOptions
) -> None:
    """Remove a value: that of the next less specific target counts, or what workers were started with."""
    from wharfinger.configuration.changes import ValueChange, write
    from wharfinger.framework.config.dynamic import check_kind, check_target
    from wharfinger.process.committing import author

    check_kind(kind)
    change = ValueChange(kind, check_target(target), None)
    async with connection.store() as store:
        done = await write(store, change, author(reason), now=_now())
    typer.echo(f"{change} {done.result}")


@configured
async def get(
    kind: Annotated[str, typer.Argument(help="profile, queue, cohort or log; all without.", metavar="KIND")] = "",
    *,
    target: Annotated[str, typer.Option("--target", help="Only this target's.", metavar="TARGET")] = "",
    effective: Annotated[
        str,
        typer.Option(
            "--effective", help="What counts for this instance, and what it reports as in force.", metavar="TENANT/SLOT"
        ),
    ] = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show values, or with --effective which of them count for an instance."""
    from wharfinger.configuration.stored_values import read
    from wharfinger.framework.config.dynamic import check_kind, check_target

    if kind:
        check_kind(kind)
    if target:
        check_target(target)
    if target and effective:
        raise UsageError("these options exclude each other: --target and --effective")
    async with connection.store() as store:
        values = [one for one in await read(store) if kind in ("", one.kind) and target in ("", one.target)]
        if effective:
            await _show_effective(store, values, kind, effective, output)
            return
    if output is not Output.TABLE:
        show({"items": [one.mapping() for one in values]}, output)
    elif not values:
        some = "nothing of that is set" if kind or target else "nothing is set: workers are as they were started"
        typer.echo(some, err=True)
    else:
        typer.echo(Columns(*HEADINGS).render([value_row(one) for one in values]))


@configured
async def history(
    kind: KindArgument, *, target: TargetOption, output: OutputOption = Output.TABLE, connection: ConnectionOptions
) -> None:
    """Show who changed a value, when and why; with -o json what was set, too."""
    from wharfinger.configuration import changes as config_changes
    from wharfinger.framework.config.dynamic import check_kind, check_target

    check_kind(kind)
    target = check_target(target)
    async with connection.store() as store:
        changes = await config_changes.history(store, kind, target)
    if output is not Output.TABLE:
        show({"items": [{"number": number, **record.model_dump()} for number, record in changes]}, output)
    elif not changes:
        typer.echo(f"{kind} of {target} was never set", err=True)
    else:
        typer.echo(Columns(*HISTORY_HEADINGS).render([history_row(*change) for change in changes]))


def _given(file: str, value: str) -> Mapping[str, Any]:
    from wharfinger.cli.files import contents
    from wharfinger.framework.config.dynamic import VALUE_LIMIT
    from wharfinger.objects.documents import documents

    if bool(file) == bool(value):
        raise UsageError("give the value, by either -f FILE or --value JSON")
    content = value.encode() if value else next(found for _, found in contents(file))
    if len(content) > 16 * VALUE_LIMIT:
        raise UsageError(f"the text of the value is larger than {16 * VALUE_LIMIT // 1024} KiB")
    try:
        parsed = documents.parse(content)
    except InvalidObject as error:
        raise UsageError(f"the value {error}") from error
    if not isinstance(parsed, Mapping):
        raise UsageError("the value is no mapping")
    return parsed


async def _show_effective(store: Store, values: list[StoredValue], kind: str, whose: str, output: Output) -> None:
    from wharfinger.configuration import stored_values

    found = await stored_values.effective(store, values, kind, whose)
    if note := await stored_values.absence_note(store, stored_values.instance_target(whose)):
        typer.echo(note, err=True)
    if output is not Output.TABLE:
        show({"items": [effective_mapping(one) for one in found]}, output)
        return
    typer.echo(Columns(*EFFECTIVE_HEADINGS).render([effective_row(one) for one in found]))
    for one in found:
        if one.problem:
            typer.echo(f"{one.kind}: {plain(one.problem)}", err=True)


def _now() -> str:
    return rfc3339(datetime.now(UTC))


HEADINGS = ("KIND", "TARGET", "HASH", "VALUE")
EFFECTIVE_HEADINGS = ("KIND", "TARGET", "HASH", "IN FORCE", "VALUE")
HISTORY_HEADINGS = ("NUMBER", "TIME", "WHO", "HASH", "WHY")
_WIDTH = 60


def value_row(value: StoredValue) -> Sequence[str]:
    """For people."""
    return value.kind, value.target, value.digest[:SHOWN] or "-", _short(value.value)


def effective_mapping(found: Effective) -> dict[str, Any]:
    """For programs."""
    said = {"kind": found.kind, "inForce": plain(found.in_force), "problem": plain(found.problem)}
    return {**said, "counts": found.counts.mapping() if found.counts is not None else None}


def effective_row(found: Effective) -> Sequence[str]:
    """For people."""
    if found.counts is None:
        return found.kind, "-", "-", plain(found.in_force), "as started"
    _, target, shown, value = value_row(found.counts)
    return found.kind, target, shown, plain(found.in_force), value


def history_row(number: int, record: ConfigChangeRecord) -> Sequence[str]:
    """For people."""
    return str(number), record.time, record.who, record.digest[:SHOWN] or "unset", record.why


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=isinstance(value, Mapping))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
