"""`--validate`: what becomes of unknown and duplicate fields in manifests; kubectl's words."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from wharfinger.cli.output import plain


class Validation(StrEnum):
    """What becomes of a manifest with unknown or duplicate fields."""

    STRICT = "strict"
    """It is refused."""
    WARN = "warn"
    """It is taken, with a warning for each field."""
    IGNORE = "ignore"
    """It is taken."""


_WORDS = {**{word.value: word for word in Validation}, "true": Validation.STRICT, "false": Validation.IGNORE}


def _validation(word: str) -> Validation:
    found = _WORDS.get(word)
    if found is None:
        raise typer.BadParameter(f"{word!r} is none of {', '.join(_WORDS)}")
    return found


ValidateOption = Annotated[
    Validation,
    typer.Option(
        "--validate",
        parser=_validation,
        help="Unknown and duplicate fields: strict (or true) refuses the object, warn accepts it and names the fields,"
        " ignore (or false) accepts it silently. A misspelt field that scheduling reads is refused in any case.",
        metavar="strict|warn|ignore",
    ),
]


def warn(title: str, findings: Iterable[str]) -> None:
    """Name what was found, a line each, on standard error."""
    for finding in findings:
        typer.echo(plain(f"warning: {title}: {finding}"), err=True)
