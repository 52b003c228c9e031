"""Options that settings classes declare: as a command gets them, and as another process is handed them."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from wharfinger.cli.main import run
from wharfinger.cli.options import After, configured
from wharfinger.errors import UsageError
from wharfinger.options import arguments, nested, setting


@dataclass(frozen=True, slots=True)
class Inner:
    seconds: float = setting(2.0, "How long.", "SECONDS", name="inner-seconds")
    names: frozenset[str] = setting(frozenset(), "Which.", read=lambda names: frozenset(map(str.upper, names)))


@dataclass(frozen=True, slots=True)
class Outer:
    on: bool = setting(True, "Whether.", negatable=True)
    plain: int = 5
    inner: Inner = nested(Inner)
    level: Literal["low", "high"] = setting("low", "Which level.")
    every: bool = setting(False, "Which.", words={"some": False, "all": True})
    file: Path | None = setting(None, "A file.", exists=True)
    pairs: tuple[str, ...] = setting((), "Pairs.", variable=False)


@dataclass(frozen=True, slots=True)
class Other:
    level: str = setting("other", "A second one of that name.")
    count: int = setting(1, "How many.", min=1)


def parsed(*line: str) -> tuple[Outer, Other]:
    found: list[Any] = []

    @configured
    def command(*, outer: Outer, other: Annotated[Other, After("on")]) -> None:
        found.extend([outer, other])

    app = typer.Typer()
    app.command()(command)
    get_command(app)(args=list(line), standalone_mode=False)
    return found[0], found[1]


def test_command_without_options_gets_the_defaults() -> None:
    assert parsed() == (Outer(), Other())


def test_settings_that_are_handed_on_are_read_as_they_were(tmp_path: Path) -> None:
    chosen = Outer(False, 5, Inner(0.5, frozenset("AB")), "high", True, tmp_path / "file", ("x=1", "y"))
    (tmp_path / "file").touch()
    line = arguments(chosen)

    assert arguments(Outer()) == ()
    assert line == (
        *("--no-on", "--inner-seconds=0.5", "--names=A", "--names=B", "--level=high", "--every=all"),
        *(f"--file={tmp_path}/file", "--pairs=x=1", "--pairs=y"),
    )
    assert parsed(*line) == (chosen, Other())


def test_variable_is_read_where_no_option_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ON": "false", "NAMES": "a b", "EVERY": "all", "PAIRS": "no"}.items():
        monkeypatch.setenv(f"WHARFINGER_{name}", value)

    assert parsed("--every=some")[0] == Outer(on=False, inner=Inner(names=frozenset("AB")))


def test_first_of_two_options_of_one_name_counts() -> None:
    outer, other = parsed("--level=high", "--count=3")

    assert (outer.level, other) == ("high", Other(count=3))


def test_options_stand_where_the_command_says() -> None:
    @configured
    def command(*, outer: Outer, other: Annotated[Other, After("on")], last: bool = False) -> None: ...

    names = list(command.__annotations__)
    assert names == ["on", "count", "inner_seconds", "names", "level", "every", "file", "pairs", "last"]


def test_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"--file: there is no file {tmp_path}/none"):
        parsed(f"--file={tmp_path}/none")


def test_coroutine_of_a_command_is_run() -> None:
    found: list[int] = []

    @configured
    async def command(*, other: Other) -> None:
        await asyncio.sleep(0)
        found.append(other.count)

    app = typer.Typer()
    app.command()(command)
    get_command(app)(args=["--count=2"], standalone_mode=False)

    assert found == [2]


def test_interrupt_ends_a_command_that_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its event loop runs, which would let the read go on until its end."""
    reads: list[str] = []

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            reads.append("begun")
            os.kill(os.getpid(), signal.SIGINT)
            reads.append("went on")
            return b""

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Endless()))

    assert run(["apply", "-f", "-"]) == 130
    assert reads == ["begun"]
