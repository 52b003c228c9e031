"""`wharfinger fleet`: the scheduler instances of a tenant, or of the common pool, as one thing.

Every command lives in a module of this package, with a `register(group)`; those that write are
compare-and-sets on the fleet's object and work while Temporal is down, those that read show what the fleet's actor
wrote. Its neighbour for machines is `cli.hosts`.
"""

from __future__ import annotations

import importlib

import typer

from wharfinger.cli.options import RUN

_MODULES = ("apply", "changes", "get", "status", "history", "diff", "plan", "wait", "logs")
"""Modules of this package with a `register(group)`, in the order in which help lists their commands."""

WRITE = "Change"
READ = "Look"
"""Panels of `wharfinger fleet --help`."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True, help="Scheduler instances: how many there are, what they run, how changes roll out."
    )
    for name in _MODULES:
        importlib.import_module(f"wharfinger.fleet.cli.{name}").register(group)
    app.add_typer(group, name="fleet", rich_help_panel=RUN)
