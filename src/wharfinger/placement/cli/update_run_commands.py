"""`wharfinger update-run`: its commands, each in a module of this package with a `register(group)`."""

from __future__ import annotations

import importlib

import typer

from wharfinger.cli.options import OBJECTS

_MODULES = ("starting", "update_run_plan", "update_run_status", "steering")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Staged update runs: deliver a placement to its member clusters stage by stage."
    )
    for name in _MODULES:
        importlib.import_module(f"wharfinger.placement.cli.{name}").register(group)
    app.add_typer(group, name="update-run", rich_help_panel=OBJECTS)
