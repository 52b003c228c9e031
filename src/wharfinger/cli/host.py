"""`wharfinger host`: the machines whose agents run scheduler instances.

Every command lives in a module of its own, `cli.host_<command>`, with a `register(group)`; its neighbour for the
instances is `cli.fleet`.
"""

from __future__ import annotations

import importlib

import typer

from wharfinger.cli.options import RUN

COMMANDS: tuple[str, ...] = ("host_list", "host_cordon", "host_confirm_lost")
"""Modules of this package with a `register(group)`, in the order in which help lists their commands."""

_group = typer.Typer(no_args_is_help=True, help="Machines that run scheduler instances: see them, keep off them.")


@_group.callback()
def _root() -> None:
    """Machines that run scheduler instances: see them, keep off them."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for name in COMMANDS:
        importlib.import_module(f"wharfinger.cli.{name}").register(_group)
    app.add_typer(_group, name="host", rich_help_panel=RUN)
