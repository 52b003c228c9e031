"""What `replay` does with a report: it is printed, written as HTML, kept for the web page, and judged by conditions."""

from __future__ import annotations

import operator
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import typer

from wharfinger.cli.output import Columns, plain
from wharfinger.errors import UsageError
from wharfinger.process.build import build_id
from wharfinger.replay.ends import VERDICTS, chosen_or_refused
from wharfinger.replay.report import html_report
from wharfinger.replay.report.kept_reports import keep, report_name
from wharfinger.replay.report.report import COUNTED, ReplayTally

LISTED = 20
"""Pods, workloads and reasons that are listed; -o json has more."""
_TITLES = {
    "same": "the same, to the letter",
    "figures": "the same node, by other scores or reasons",
    "elsewhere": "on another node",
    "refused": "newly refused",
    "placed": "newly placed",
    "otherwise": "refused as before, for other reasons",
    "unreplayable": "cannot be made again",
}
_ENDS = {
    "same": "on the same node",
    "elsewhere": "on another node",
    "refused": "bound in the record, and never in the rerun",
    "evicted": "bound in the record, and evicted for another pod in the rerun",
    "placed": "bound in the rerun only",
    "otherwise": "bound in neither",
    "unreplayable": "not decided in the rerun, because a plugin failed",
}
_LACKS = {
    "compacted": "etcd keeps their state no more",
    "future": "etcd was restored from a backup since",
    "profile": "their configuration cannot be made here",
    "overlay": "what their worker had assumed is not known",
    "membership": "it is not known which workers shared the nodes",
    "state": "etcd's state is not the one that was decided on",
    "verdict": "a verdict of Reserve or Permit is not recorded",
    "clock": "the time that was read is not recorded",
    "extender": "an extender would have to be asked",
    "plugin": "a plugin failed",
    "record": "what their run recorded cannot be read",
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORM = re.compile(r"\s*([a-z]+)\s*(<=|>=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*")
PACKING = "packing"
FIGURES: Mapping[str, tuple[str, ...]] = {
    "shadow": (*map(str, COUNTED), "decisions", PACKING),
    "rerun": (*VERDICTS, "decisions", PACKING),
}
"""By mode: a figure that a mode does not have would never fail."""


def tell(report: Mapping[str, Any]) -> str:
    """The whole report, without the last line's end. `report`: as in docs/json-outputs.md."""
    return "\n\n".join(filter(None, _of_rerun(report) if report["mode"] == "rerun" else _of_shadow(report)))


def _of_rerun(report: Mapping[str, Any]) -> Iterator[str]:
    yield _headline(report, f"{report['decisions']:,} pods lived again, {_under(report)}")
    yield _undecided(report)
    unread = report.get("unread", 0)
    yield f"Note: what {unread:,} runs recorded cannot be read; their pods are not counted." if unread else ""
    summary = report["summary"]
    yield _table(("PODS", ""), [(f"{summary[name]:,}", title) for name, title in _ENDS.items() if summary[name]])
    if report["evictionCount"]:
        yield f"Pods that were evicted for others: {report['evictionCount']:,}."
    if report["change"]:
        yield "Note: some difference comes from how a span is lived again. Compare this with a rerun without a change."
    if report["stopped"]:
        yield "Note: pods went on waking each other, and some were left undecided."
    yield from _lacks_of_archive(report)
    if report["overTime"]:
        yield _ends(report["overTime"][-1])
    yield _table(
        ("POD", "", "RECORDED", "RERUN", "WHY"),
        [
            (one["pod"], one["verdict"], one["recorded"] or "<none>", one["again"] or "<none>", _lived(one))
            for one in report["pods"][:LISTED]
        ],
    )


def _headline(report: Mapping[str, Any], said: str) -> str:
    return typer.style(plain(said), bold=True) + f" ({report['seconds']:.1f} s)"


def _under(report: Mapping[str, Any]) -> str:
    return f"under {', '.join(report['change'])}" if report["change"] else "with nothing changed"


def _undecided(report: Mapping[str, Any]) -> str:
    undecided = report.get("undecided", 0)
    return f"Note: {undecided:,} runs of the span have not decided yet." if undecided else ""


def _lived(pod: Mapping[str, Any]) -> str:
    return str(pod["message"]) or ("evicted for another pod" if pod["evicted"] else "")


def _ends(last: Mapping[str, Any]) -> str:
    before, after = last["recorded"], last["again"]
    names = [name for name in before["use"] if before["use"][name] or after["use"].get(name)]
    rows = [(name, f"{before['use'][name]:.1f}", f"{after['use'].get(name, 0.0):.1f}") for name in names]
    for name, share in before["fragmentation"].items():
        lost = f"{100 * share:.1f}", f"{100 * after['fragmentation'].get(name, 0.0):.1f}"
        rows.append((f"free {name} that pods do not fit on", *lost))
    return Columns("AT THE END, %", "RECORDED", "RERUN").render(rows)


def _of_shadow(report: Mapping[str, Any]) -> Iterator[str]:
    decisions, summary = report["decisions"], report["summary"]
    made = decisions - summary["unreplayable"]
    share = f"{100 * summary['same'] / made:.2f} %" if made else "none"
    yield _headline(report, f"{decisions:,} decisions of {report['runs']:,} runs, {_under(report)}: {share} the same")
    yield _undecided(report)
    rows = [(f"{summary[name]:,}", title) for name, title in _TITLES.items() if summary[name] or name == "same"]
    yield Columns("DECISIONS", "").render(rows)
    yield _table(
        ("NOT MADE AGAIN", "BECAUSE", "FOR EXAMPLE"),
        [(f"{one['decisions']:,}", _LACKS[one["lack"]], _example(one["examples"])) for one in report["unreplayable"]],
    )
    yield from _lacks_of_archive(report)
    if len(report["profiles"]) > 1:
        yield _table(_heads("PROFILE"), [(name, *_cells(counts)) for name, counts in report["profiles"].items()])
    changed = [one for one in report["workloads"] if any(one[name] for name in _TITLES if name != "same")][:LISTED]
    yield _table(_heads("WORKLOAD"), [(one["workload"], *_cells(one)) for one in changed])
    yield _table(
        ("DECISIONS", "", "REASON"),
        [(f"{one['decisions']:,}", one["verdict"], one["message"]) for one in report["reasons"][:LISTED]],
    )
    yield _packing(report["packing"])
    yield _table(
        ("POD", "", "RECORDED", "AGAIN", "WHY"),
        [
            (one["pod"], one["verdict"], chosen_or_refused(one["recorded"]), chosen_or_refused(one["again"]), _why(one))
            for one in report["pods"][:LISTED]
        ],
    )


def _lacks_of_archive(report: Mapping[str, Any]) -> Iterator[str]:
    gaps, lost = report["gaps"], report.get("lost", 0)
    if gaps:
        told = ", ".join(
            f"from {one['after']:,} to {one['before']:,}{' (etcd was restored)' if one.get('restored') else ''}"
            for one in gaps[:LISTED]
        )
        more = f", and {len(gaps) - LISTED:,} more" if len(gaps) > LISTED else ""
        yield f"Note: the archive has no changes of these revisions: {told}{more}."
    if lost:
        yield f"Note: {lost:,} runs were gone before they could be archived."


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return Columns(*heads).render([tuple(map(plain, row)) for row in rows]) if rows else ""


def _heads(first: str) -> tuple[str, ...]:
    return (first, "DECISIONS", "SAME", "FIGURES", "ELSEWHERE", "REFUSED", "PLACED", "OTHERWISE", "NOT MADE")


def _cells(counts: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"{sum(counts[name] for name in _TITLES):,}", *(f"{counts[name]:,}" for name in _TITLES))


def _example(examples: Sequence[Mapping[str, str]]) -> str:
    return f"{examples[0]['pod']}: {examples[0]['detail']}" if examples else ""


def _packing(packing: Mapping[str, float | None]) -> str:
    recorded, again = packing["recorded"], packing["again"]
    if recorded is None or again is None:
        return ""
    return f"Chosen nodes were {100 * recorded:.1f} % full with the pod on them, and would be {100 * again:.1f} %."


def _why(pod: Mapping[str, Any]) -> str:
    before, after = pod["recorded"], pod["again"]
    if not after["node"] or not before["node"]:
        return str(after["message"] or before["message"])
    names = dict.fromkeys((*before["scores"], *after["scores"]))
    moved = [
        f"{name} {before['scores'].get(name, 0)} → {after['scores'].get(name, 0)}"
        for name in names
        if before["scores"].get(name, 0) != after["scores"].get(name, 0)
    ]
    return ", ".join(moved) or ", ".join(pod["differs"])


class AskedReplay(NamedTuple):
    """The options by which the same span can be replayed again. None of them is a credential."""

    mode: str
    since: str
    until: str
    config: Path | None
    settings: tuple[str, ...]
    plugins: tuple[str, ...]
    archive: Path | None

    def command(self) -> str:
        """As it is typed."""
        return shlex.join(["wharfinger", "replay", *self._options()])

    def _options(self) -> Iterator[str]:
        if self.mode != "shadow":
            yield from ("--mode", self.mode)
        if self.archive is not None:
            yield from ("--archive", str(self.archive))
        yield from ("--since", self.since) if self.since else ()
        yield from ("--until", self.until) if self.until else ()
        yield from ("--config", str(self.config)) if self.config is not None else ()
        for setting in self.settings:
            yield from ("--set", setting)
        for plugin in self.plugins:
            yield from ("--plugin", plugin)


def check_html(file: Path) -> None:
    """Make sure, as far as can be, that it can be written, before there is a report. Raises `UsageError`."""
    if file.is_dir():
        raise UsageError(f"--html {file}: this is a folder; name a file")
    if not file.parent.is_dir():
        raise UsageError(f"--html {file}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"--html {file}: it cannot be written")


def write_html(file: Path, plain: dict[str, Any]) -> None:
    """Write the report as one file. `plain`: as `-o json` prints it. Raises `UsageError`."""
    try:
        file.write_text(html_report.page(plain), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def keep_report(folder: Path, report: ReplayTally, plain: dict[str, Any], made: datetime, asked: AskedReplay) -> Path:
    """Keep the report in the folder; answers its file. Raises `UsageError`."""
    told = {
        "made": made.isoformat(),
        "build": build_id(),
        "cluster": plain["cluster"],
        "archive": asked.archive.name if asked.archive is not None else "",
        "command": asked.command(),
        "report": plain,
        "ends": report.ends_to_plain(),
    }
    return keep(folder, report_name(made, asked.mode, report.told), told)


@dataclass(frozen=True, slots=True)
class FailCondition:
    """One figure of a report, compared with a number."""

    text: str
    figure: str
    compare: str
    bound: float
    percent: bool

    @classmethod
    def parse(cls, text: str, mode: str = "shadow") -> FailCondition:
        """A condition on a report of this mode, `shadow` or `rerun`. Raises `UsageError`."""
        found, names = _FORM.fullmatch(text), FIGURES[mode]
        if found is None or found[1] not in names or (found[4] and found[1] in ("decisions", PACKING)):
            raise UsageError(
                f"--fail-on takes FIGURE OPERATOR NUMBER, such as 'refused > 0' or 'same < 100%', not {text!r}; "
                f"figures with --mode {mode} are {', '.join(names)}"
            )
        return cls(text.strip(), found[1], found[2], float(found[3]), bool(found[4]))

    def failure(self, report: ReplayTally) -> str:
        """Why the replay fails, in a sentence; empty where it does not.

        Shares are of all decisions, so what cannot be replayed is none of the same. A figure that does not exist fails.
        """
        figure = self._figure(report)
        if figure is None:
            return f"{self.text}: there is no {self.figure}, as nothing was placed"
        return self.text if _COMPARE[self.compare](figure, self.bound) else ""

    def _figure(self, report: ReplayTally) -> float | None:
        if self.figure == PACKING:
            return report.packed
        count = report.decisions if self.figure == "decisions" else report.counts[self.figure]
        if not self.percent:
            return float(count)
        return 100.0 * count / report.decisions if report.decisions else 0.0
