"""The help of every command: no option's name is cut at 80 columns, nor where it is as wide as a narrow terminal."""

from __future__ import annotations

import pytest
from typer.main import get_command

from tests.cli.shell import Shell
from wharfinger.cli import main


def commands() -> dict[str, object]:
    """By its words: every command, those of groups too."""
    found: dict[str, object] = {}
    for name, one in get_command(main.command_line()).commands.items():  # type: ignore[attr-defined]
        members = getattr(one, "commands", None)
        found |= {name: one} if members is None else {f"{name} {word}": each for word, each in members.items()}
    return found


COMMANDS = commands()


def names(line: str) -> list[str]:
    """All options of a command, as they are typed."""
    options = [one for one in COMMANDS[line].params if one.param_type_name == "option"]  # type: ignore[attr-defined]
    return [name for one in options if not one.hidden for name in (*one.opts, *one.secondary_opts)]


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("line", COMMANDS)
def test_every_option_is_whole(line: str, columns: int, outside: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = outside(*line.split(), "--help").out
    shown = {word.strip(",") for word in out.replace("│", " ").split()}

    assert "…" not in out
    assert not [name for name in names(line) if len(name) < columns and name not in shown]
    assert not [text for text in out.splitlines() if len(text) > columns]
    assert "--help" in shown


def test_descriptions_have_room_at_80_columns(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = outside("dev", "--help").out

    assert len(out.splitlines()) < 125
    assert "Everything is kept here; the next start goes on from it." in out


def test_options_keep_their_panels_values_and_defaults(outside: Shell) -> None:
    out = outside("worker", "--help").out
    lines = [" ".join(text.strip("│").split()) for text in out.splitlines()]

    assert any(text.startswith("--lease-ttl SECONDS") for text in lines)
    assert "[default: 10; 2<=x<=60]" in " ".join(lines)
    assert out.index("─ Options ") < out.index("--lease-ttl") < out.index("─ Connection ") < out.index("--etcd ")
