"""`wharfinger config`: checks and shows a KubeSchedulerConfiguration, and changes values that workers follow.

`validate` and `show` read files only: neither etcd nor Temporal is asked. `set`, `unset`, `get` and `history` work on
etcd alone: workers take their values in by a watch, without a restart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, PluginOptions, command_group, configured, plugins_option, variable
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show, show_rows
from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import setting

if TYPE_CHECKING:
    from wharfinger.configuration.stored_values import Effective, StoredValue
    from wharfinger.etcd.store import Store

_FAILED = 1


class Format(StrEnum):
    """How a configuration is printed."""

    YAML = "yaml"
    JSON = "json"


def commands() -> typer.Typer:
    """The group."""
    return command_group(
        "Check a KubeSchedulerConfiguration, or show what it comes to; change what workers do while they run.",
        {"validate": validate, "show": show_configuration},
        panels={DYNAMIC: {"set": set_value, "unset": unset, "get": get, "history": history}},
    )


@configured
def validate(
    file: Annotated[Path, typer.Argument(help="The configuration (YAML or JSON).", metavar="FILE")],
    *,
    plugins: PluginOptions,
) -> None:
    """Check whether a configuration is valid.

    Prints `valid` and the names of its profiles, or a line for each problem, with the path of the field. For a valid
    one, a note names each field that has no effect, and each installed plugin that the configuration does not name.
    Arguments of plugins from installed packages are checked too. For a file of kube-scheduler's v1beta2 or v1beta3,
    the problems are what to change.

    Exit codes: 0 valid, 1 not valid, 2 used wrongly, also when there is no such file.
    """
    from wharfinger.framework.config.notes import enabling, package
    from wharfinger.framework.profiles import load_configuration

    _check_there(file)
    try:
        loaded = load_configuration(file, all_plugins=plugins.all_plugins)
    except InvalidConfiguration as error:
        for problem in error.problems:
            typer.echo(plain(problem))
        raise typer.Exit(_FAILED) from None
    typer.echo(f"valid: {plain(', '.join(loaded.profiles))}")
    for path, reason in loaded.notes():
        typer.echo(plain(f"note: {path} {reason}"))
    for plugin in loaded.not_enabled:
        line = enabling(plugin, next(iter(loaded.profiles)))
        said = f"plugin {plugin.name} of {package(plugin.origin, plugin.version)} is installed and not named"
        typer.echo(plain(f"note: {said}; to enable it: {line}"))


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """Whose defaults are shown, and with which plugins."""

    format: ClusterFormat = setting(
        ClusterFormat.KUBERNETES, "Whose defaults: those of clusters that keep pods and nodes in this format."
    )
    all_plugins: bool = plugins_option()


@configured
def show_configuration(
    file: Annotated[
        Path | None,
        typer.Argument(
            help=f"The configuration; without, that of {variable('config')}, else the defaults.", metavar="FILE"
        ),
    ] = None,
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Show the defaults, whatever the environment says.")
    ] = False,
    shown: ShownOptions,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.", metavar="yaml|json")] = Format.YAML,
) -> None:
    """Print a configuration with nothing left out, as a worker runs it.

    Shows every profile with its plugins in order, their weights and all arguments. What is printed is a configuration
    itself, and means the same. Comments above it name where each plugin comes from. With -o json, standard error names
    the plugins of other packages.
    """
    from wharfinger.framework.config.notes import BUILT_IN, origins, package
    from wharfinger.framework.profiles import load_configuration

    if defaults and file is not None:
        raise UsageError("these exclude each other: --defaults and a file")
    named = os.environ.get(variable("config"))
    chosen = None if defaults else file or (Path(named) if named else None)
    if chosen is not None:
        _check_there(chosen)
    loaded = load_configuration(chosen, all_plugins=shown.all_plugins, format_=shown.format)
    as_comments = output is Format.YAML
    for name, origin in origins(loaded.configuration, loaded.catalog).items():
        if as_comments or origin != BUILT_IN:
            typer.echo(plain(f"# {name}: {origin}"), err=not as_comments)
    for plugin in loaded.not_enabled:
        said = f"# {plugin.name}: {package(plugin.origin, plugin.version)}, installed and not enabled"
        typer.echo(plain(said), err=not as_comments)
    show(loaded.configuration.document(), Output(output.value))


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise UsageError(f"there is no file {file}")


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
        done = await write(store, change, author(reason), now=rfc3339_now(), again=again)
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
        done = await write(store, change, author(reason), now=rfc3339_now())
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
    items = {"items": [one.mapping() for one in values]}
    nothing = "nothing of that is set" if kind or target else "nothing is set: workers are as they were started"
    show_rows(items, output, ("KIND", "TARGET", "HASH", "VALUE"), [value_row(one) for one in values], nothing)


@configured
async def history(
    kind: KindArgument, *, target: TargetOption, output: OutputOption = Output.TABLE, connection: ConnectionOptions
) -> None:
    """Show who changed a value, when and why; with -o json what was set, too."""
    from wharfinger.configuration import changes as config_changes
    from wharfinger.configuration.stored_values import SHOWN
    from wharfinger.framework.config.dynamic import check_kind, check_target

    check_kind(kind)
    target = check_target(target)
    async with connection.store() as store:
        changes = await config_changes.history(store, kind, target)
    items = {"items": [{"number": number, **record.model_dump()} for number, record in changes]}
    rows = [(str(number), one.time, one.who, one.digest[:SHOWN] or "unset", one.why) for number, one in changes]
    show_rows(items, output, ("NUMBER", "TIME", "WHO", "HASH", "WHY"), rows, f"{kind} of {target} was never set")


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
        show({"items": [one.mapping() for one in found]}, output)
        return
    typer.echo(Columns("KIND", "TARGET", "HASH", "IN FORCE", "VALUE").render([effective_row(one) for one in found]))
    for one in found:
        if one.problem:
            typer.echo(f"{one.kind}: {plain(one.problem)}", err=True)


_WIDTH = 60


def value_row(value: StoredValue) -> Sequence[str]:
    """For people."""
    return value.kind, value.target, value.shown, _short(value.value)


def effective_row(found: Effective) -> Sequence[str]:
    """For people."""
    if found.counts is None:
        return found.kind, "-", "-", plain(found.in_force), "as started"
    _, target, shown, value = value_row(found.counts)
    return found.kind, target, shown, plain(found.in_force), value


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=isinstance(value, Mapping))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
