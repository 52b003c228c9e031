"""What `replay` writes beside what it prints: one HTML file, and a report in a folder, where the web page finds it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wharfinger.errors import UsageError
from wharfinger.process.build import build_id
from wharfinger.replay.report import html_report
from wharfinger.replay.report.kept_reports import folder_for, keep, report_name

if TYPE_CHECKING:
    from wharfinger.replay.report.report import ReplayTally

__all__ = ["AskedReplay", "check_html", "folder_for", "keep_report", "write_html"]


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
