"""`wharfinger kubernetes`: its commands, each in a module of this package with a `register(group)`."""

from __future__ import annotations

import importlib

import typer

from wharfinger.cli.options import RUN

_MODULES = ("status", "audit", "manifests", "applying")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="The Kubernetes API whose pods are scheduled: how the installation does, whether the copies in etcd are "
        "right, and manifests to run wharfinger there.",
    )
    for name in _MODULES:
        importlib.import_module(f"wharfinger.kubernetes.cli.{name}").register(group)
    app.add_typer(group, name="kubernetes", rich_help_panel=RUN)
