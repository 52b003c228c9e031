"""How the help of a command is drawn: every option's name is whole, whatever the terminal's width.

typer's own tables cut names that do not fit: two options then look the same. Here names stand in a column where that
leaves enough room for what is said of them, else above it. Commands have this class; groups are typer's.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

ROOM = 44
"""Columns that descriptions get at least beside the names."""
FRAMED = 60
"""Columns from which on a frame is drawn around each panel; below, they are needed for text."""
INDENT = 4
"""Columns before a description that stands below a name."""
ARGUMENTS, OPTIONS = "Arguments", "Options"
"""Panels of what names none, in this order before the others."""

Record = tuple[str, str]
"""Names with their value (`--port PORT`), and what is said of them."""


def flowing(text: str) -> str:
    """A docstring with each paragraph on one line, to be wrapped to the terminal's width: typer keeps its line breaks.

    Lines that begin with `- ` stay on their own.
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(re.sub(r"\s*\n(?!- )\s*", " ", paragraph) for paragraph in paragraphs)


class WholeHelpCommand(TyperCommand):
    """A command of which no option's name is cut in its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help to standard output."""
        from rich.console import Console

        del formatter
        _draw(self, ctx, Console(highlight=False, soft_wrap=False))


def _draw(command: TyperCommand, ctx: Any, console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    usage = Text(command.get_usage(ctx))
    usage.highlight_words(["Usage:"], "yellow")
    console.print(Padding(usage, 1))
    for paragraph in (command.help or "").split("\n\n"):
        if paragraph:
            console.print(Padding(Text(paragraph), (0, 1, 1, 1)))
    for title, records in panels(command, ctx).items():
        _panel(console, title, records)
    if command.epilog:
        console.print(Padding(Text(command.epilog), 1))


def panels(command: TyperCommand, ctx: Any) -> dict[str, list[Record]]:
    """Title -> records of what is not hidden, in the order in which they are shown."""
    found: dict[str, list[Record]] = {ARGUMENTS: [], OPTIONS: []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            usual = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
            found.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
    return {title: records for title, records in found.items() if records}


def _panel(console: Console, title: str, records: list[Record]) -> None:
    from rich.panel import Panel
    from rich.text import Text

    framed = console.width >= FRAMED
    inner = console.width - (4 if framed else 1)
    widest = max(len(names) for names, _ in records)
    drawn = _beside(records) if widest + 2 + ROOM <= inner else _below(records)
    if framed:
        console.print(Panel(drawn, title=title, title_align="left", border_style="dim"))
    else:
        console.print(Text(title, "bold"))
        console.print(drawn)
        console.print()


def _beside(records: list[Record]) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for names, text in records:
        table.add_row(_names(names), _description(text))
    return table


def _below(records: list[Record]) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding

    lines: list[RenderableType] = []
    for names, text in records:
        lines.append(_names(names))
        if text:
            lines.append(Padding(_description(text), (0, 0, 0, INDENT)))
    return Group(*lines)


def _names(names: str) -> Any:
    from rich.text import Text

    text = Text(names, overflow="fold")
    text.highlight_regex(r"(?<![\w-])--?[A-Za-z][\w-]*", "bold cyan")
    return text


def _description(words: str) -> Any:
    from rich.text import Text

    text = Text(" ".join(words.split()), overflow="fold")
    text.highlight_regex(r"\[[^\[\]]*\]$", "dim")
    return text
