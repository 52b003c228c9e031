"""`wharfinger replay`: what recorded decisions would have been under another configuration; nothing is changed."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, show_answer
from wharfinger.errors import UsageError
from wharfinger.options import setting

if TYPE_CHECKING:
    from wharfinger.replay.changes import ProfileChange

USUAL = "2Gi"
"""As `memory_limit` has it, which is slow to import for a command's help."""

MemoryLimitOption = Annotated[
    str,
    typer.Option(
        "--memory-limit",
        help="Memory that the process may take; what does not fit ends with an error. At least 192Mi.",
        metavar="SIZE",
    ),
]
FAILED = 1
"""Exit code when a condition of --fail-on holds."""
NOTHING = 3
"""Exit code when there are conditions, and no decision was made again that they could judge."""
_option = partial(setting, variable=False)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}|$)")
"""How a time begins; the rest is for `datetime`, which takes more than people mean."""


class Mode(StrEnum):
    """How decisions follow from each other."""

    SHADOW = "shadow"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True)
class ReplayedSpan:
    """What is decided again."""

    mode: Mode = _option(
        Mode.SHADOW,
        "shadow: each decision on the state that it then had. rerun: the span again, with all consequences.",
    )
    since: str | None = _option(
        None,
        "From when on decisions are made again: so long ago (30m, 24h, 7d), or a time, in UTC unless it has an offset. "
        "Else a day ago, or all of an --archive.",
    )
    until: str | None = _option(None, "Up to when; else up to now.", "TIME")

    def within(self, now: datetime, *, archived: bool) -> tuple[datetime | None, datetime | None]:
        """Since when, None = from the beginning of an archive, and until when, None = now. Raises `UsageError`."""
        since = self.since or "24h"
        began, ended = moment(since, now), moment(self.until, now) if self.until else None
        open_ = archived and not self.since
        if ended is not None and ended <= began and not open_:
            raise UsageError(f"--until {self.until} is not after --since {since}")
        if began > now:
            raise UsageError(f"--since {since} is still to come")
        return None if open_ else began, ended


@dataclass(frozen=True, slots=True)
class ChangedProfile:
    """By what is decided otherwise than it was."""

    config: Path | None = _option(None, "Decide by this KubeSchedulerConfiguration instead.", "FILE")
    settings: tuple[str, ...] = _option(
        (),
        "Decide with another weight or argument of a plugin: PLUGIN.weight=N, PLUGIN.<argument>=VALUE.",
        "FIELD=VALUE",
        name="set",
    )
    plugins: tuple[str, ...] = _option((), "Decide with this plugin beside the others.", "MODULE:NAME", name="plugin")

    def change(self) -> ProfileChange:
        """What it means for recorded profiles. Raises `ConfigurationError`, `UsageError`."""
        from wharfinger.replay.changes import ProfileChange, Setting, plugin_of

        told = [f"configuration {self.config}"] if self.config is not None else []
        change = ProfileChange(
            configuration=self.config,
            settings=tuple(map(Setting.parse, self.settings)),
            plugins=tuple(map(plugin_of, self.plugins)),
            told=(*told, *self.settings, *(f"plugin {name}" for name in self.plugins)),
        )
        change.check()
        return change


@dataclass(frozen=True, slots=True)
class WantedReport:
    """Where decisions come from, and what becomes of the report beside being printed."""

    fail_on: tuple[str, ...] = _option((), "End with exit code 1 if this holds, such as 'refused > 0'.", "CONDITION")
    archive: Path | None = _option(None, "Replay what `wharfinger archive` wrote, without any server.", "FILE")
    html: Path | None = _option(None, "Write the report as one HTML file with plots, too: it opens anywhere.", "FILE")
    keep_in: Path | None = _option(
        None,
        "Keep the report as a file in this folder, too: the web page shows the reports of its --replays-dir.",
        "DIR",
    )


@configured
def replay(
    *,
    span: ReplayedSpan,
    changed: ChangedProfile,
    wanted: WantedReport,
    memory_limit: MemoryLimitOption = USUAL,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Make recorded decisions again, each on the state that it then had, and compare them.

    Without a change this checks the record: the same code and configuration decide the same, to the letter. With
    --config, --set or --plugin it shows what a change would have done. Reads Temporal's histories and etcd's revisions:
    it goes back as far as both are kept, or as an --archive does. No extender is called, and no plugin's Reserve,
    Permit or Bind.

    Exit codes: 0 done, 1 a condition of --fail-on holds (or the command failed), 2 used wrongly, 3 with --fail-on:
    no decision could be made again. -o json: cluster, since, until, seconds, runs, revision, mode, change,
    decisions, summary, sameShare, differs, unreplayable, profiles, workloads, namespaces, reasons, packing,
    packingOverTime, pods, builds, gaps, lost, undecided, unread. With --mode rerun: mode, change, decisions,
    summary, profiles, workloads, namespaces, reasons, evictions, evictionCount, stopped, overTime, pods, cluster,
    since, until, seconds, runs, revision, gaps, lost, undecided, unread.
    """
    from wharfinger.cli import connect
    from wharfinger.replay.cli.replay_output import (
        AskedReplay,
        FailCondition,
        check_html,
        keep_report,
        tell,
        write_html,
    )
    from wharfinger.replay.cli.replay_runs import RunsAsked, replayed
    from wharfinger.replay.memory_limit import MemoryLimit
    from wharfinger.replay.report.kept_reports import folder_for

    memory, mode, archive = MemoryLimit.parse(memory_limit), span.mode, wanted.archive
    conditions = [FailCondition.parse(text, mode.value) for text in wanted.fail_on]
    now = datetime.now(UTC)
    first, ended = span.within(now, archived=archive is not None)
    if wanted.html is not None:
        check_html(wanted.html)
    if wanted.keep_in is not None:
        folder_for(wanted.keep_in)
    change = changed.change()
    runs = RunsAsked(connection, change, first, ended, memory, lives=mode is Mode.RERUN, archive=archive)
    with _stopped_at_once():
        report, more = connect.run(replayed(runs))
    plain = more | report.to_plain()
    if wanted.html is not None:
        write_html(wanted.html, plain)
    if wanted.keep_in is not None:
        last = ended or (now if archive is None else None)
        start, end = (written(one) if one is not None else "" for one in (first, last))
        asked = AskedReplay(mode.value, start, end, changed.config, changed.settings, changed.plugins, archive)
        typer.echo(f"kept as {keep_report(wanted.keep_in, report, plain, now, asked)}", err=True)
    show_answer(output, lambda: plain, lambda: tell(plain))
    if conditions and not report.made:
        typer.echo("failed: nothing was replayed, so no condition can be judged", err=True)
        raise typer.Exit(NOTHING)
    failed = [why for condition in conditions if (why := condition.failure(report))]
    for text in failed:
        typer.echo(f"failed: {text}", err=True)
    if failed:
        raise typer.Exit(FAILED)


def moment(text: str, now: datetime) -> datetime:
    """A time, or so long ago; in UTC, as is a time without an offset. Raises `UsageError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    try:
        if found is not None:
            return now - timedelta(seconds=float(found[1]) * _UNITS[found[2]])
        given = datetime.fromisoformat(text.strip() if _TIME.match(text.strip()) else "")
        return (given if given.tzinfo is not None else given.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time: give a duration (30m, 24h, 7d), or such as 2026-03-01T12:00:00Z"
        ) from None


def written(time: datetime) -> str:
    """In UTC, as RFC 3339 with whole seconds."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


@contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Ctrl-C ends a replay wherever it is: it changes nothing, and asyncio would wait until the replay waits."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield  # ignored, or not ours to say
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
