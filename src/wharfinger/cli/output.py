"""What commands print: plain columns for people, JSON or YAML for programs (`-o`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from wharfinger.cli.pipes import discard
from wharfinger.objects.model.texts import plain

__all__ = ["Columns", "Output", "OutputOption", "plain", "say", "show", "to_text"]
"""`plain` too: commands print by it what others wrote."""


class Output(StrEnum):
    """How a command prints."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.", metavar="table|json|yaml")]
"""Annotation of a command's parameter `output`, whose default is `Output.TABLE`."""

_GAP = "   "


class Columns:
    """Rows under headings, in columns as wide as their widest cell; later rows keep the widths.

    Plain text: it can be piped through grep, and a watch can go on printing rows.
    """

    def __init__(self, *headings: str) -> None:
        self.headings = headings
        self._widths = [len(heading) for heading in headings]

    def render(self, rows: Sequence[Sequence[str]], *, headings: bool = True) -> str:
        """The lines of these rows, without the last line's end."""
        cells = [[plain(cell) for cell in row] for row in rows]
        for row in cells:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        shown = [self.headings, *cells] if headings else cells
        return "\n".join(self._line(row) for row in shown)

    def _line(self, row: Sequence[str]) -> str:
        return _GAP.join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip()


def show(value: Any, output: Output) -> None:
    """Print a plain value as JSON or YAML."""
    typer.echo(to_text(value, output))


def say(text: str, *, err: bool = False) -> None:
    """Print a line; when the reader has left (`| head`), go on without it.

    For commands that write several objects, which must not end half-way.
    """
    try:
        typer.echo(text, err=err)
    except BrokenPipeError:
        discard(sys.stderr if err else sys.stdout)


def to_text(value: Any, output: Output) -> str:
    """A plain value as JSON (indented) or YAML, without a last line's end."""
    if output is Output.YAML:
        from wharfinger.objects.documents.yaml_text import to_yaml

        return to_yaml(value).rstrip("\n")
    return json.dumps(value, indent=2, ensure_ascii=False).encode(errors="replace").decode()
