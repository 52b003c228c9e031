"""`wharfinger placement`: its commands, each in a module of this package with a `register(group)`."""

from __future__ import annotations

import importlib

import typer

from wharfinger.cli.options import UNDERSTAND

_MODULES = ("placement_listing", "status", "explain", "diff", "history", "plan", "wait", "changes", "simulate")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Placements: which member clusters get which resources, and how they do there."
    )
    for name in _MODULES:
        importlib.import_module(f"wharfinger.placement.cli.{name}").register(group)
    app.add_typer(group, name="placement", rich_help_panel=UNDERSTAND)
