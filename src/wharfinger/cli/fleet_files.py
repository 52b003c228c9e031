"""A fleet's object from a file that may hold others too (`-f`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from wharfinger.cli.files import load
from wharfinger.errors import InvalidConfiguration, UsageError
from wharfinger.manifests.kinds import FLEET

FileOption = Annotated[
    str, typer.Option("--filename", "-f", help="File with the fleet's object, or - for standard input.", metavar="FILE")
]
"""Annotation of a command's parameter whose default is an empty string."""


def fleet_in(source: str, tenant: str) -> Mapping[str, Any]:
    """The manifest of that tenant's fleet. Raises `UsageError` when the file has none, or cannot be read."""
    found = load([source], "default")
    problems = [f"{entry.source}: {entry.problem}" for entry in found if entry.about is None or entry.obj is None]
    if problems:
        raise InvalidConfiguration(problems)
    fleets = [entry for entry in found if entry.about is not None and entry.about.kind is FLEET]
    for entry in fleets:
        if entry.about is not None and entry.obj is not None and entry.about.name == tenant:
            return entry.obj
    instead = f", only {', '.join(str(entry.about) for entry in fleets[:5])}" if fleets else ""
    raise UsageError(f"{source}: there is no {FLEET.name} of {tenant}{instead}")
