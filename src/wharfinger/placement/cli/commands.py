"""`wharfinger cluster`: its commands, each in a module of this package with a `register(group)`."""

from __future__ import annotations

import importlib

import typer

from wharfinger.cli.options import OBJECTS

_MODULES = ("listing", "membership", "drains")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Member clusters: which there are, join, leave, cordon, drain.")
    for name in _MODULES:
        importlib.import_module(f"wharfinger.placement.cli.{name}").register(group)
    app.add_typer(group, name="cluster", rich_help_panel=OBJECTS)
