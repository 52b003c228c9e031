"""`wharfinger config`: shows a KubeSchedulerConfiguration, and checks whether it is valid.

These commands read files only: neither etcd nor Temporal is asked. Those of `configuration.cli.stored`, which change
what workers do while they run, stand beside them.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli.options import RUN, PluginOptions, configured, option, variable
from wharfinger.cli.output import Output, plain, show
from wharfinger.configuration.cli import stored as dynamic_config
from wharfinger.errors import InvalidConfiguration, UsageError
from wharfinger.objects.model.formats import ClusterFormat

_FAILED = 1


class Format(StrEnum):
    """How a configuration is printed."""

    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Check a KubeSchedulerConfiguration, or show what it comes to; change what workers do while they run.",
    )
    group.command()(validate)
    group.command("show")(show_configuration)
    dynamic_config.register(group)
    app.add_typer(group, name="config", rich_help_panel=RUN)


@configured
def validate(
    file: Annotated[Path, typer.Argument(help="The configuration (YAML or JSON).", metavar="FILE")],
    *,
    plugins: PluginOptions,
) -> None:
    """Check whether a configuration is valid.

    Prints `valid` and the names of its profiles, or a line for each problem, with the path of the field. For a valid
    one, a note names each field that has no effect, and each installed plugin that the configuration does not name.
    Arguments of plugins from installed packages are checked too. For a file of kube-scheduler's v1beta2 or v1beta3,
    the problems are what to change.

    Exit codes: 0 valid, 1 not valid, 2 used wrongly, also when there is no such file.
    """
    from wharfinger.framework.config.notes import enabling, package
    from wharfinger.framework.profiles import load_configuration

    _check_there(file)
    try:
        loaded = load_configuration(file, all_plugins=plugins.all_plugins)
    except InvalidConfiguration as error:
        for problem in error.problems:
            typer.echo(plain(problem))
        raise typer.Exit(_FAILED) from None
    typer.echo(f"valid: {plain(', '.join(loaded.profiles))}")
    for path, reason in loaded.notes():
        typer.echo(plain(f"note: {path} {reason}"))
    for plugin in loaded.not_enabled:
        line = enabling(plugin, next(iter(loaded.profiles)))
        said = f"plugin {plugin.name} of {package(plugin.origin, plugin.version)} is installed and not named"
        typer.echo(plain(f"note: {said}; to enable it: {line}"))


@configured
def show_configuration(
    file: Annotated[
        Path | None,
        typer.Argument(
            help=f"The configuration; without, that of {variable('config')}, else the defaults.", metavar="FILE"
        ),
    ] = None,
    *,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Show the defaults, whatever the environment says.")
    ] = False,
    format_: Annotated[
        ClusterFormat, option("format", "Whose defaults: those of clusters that keep pods and nodes in this format.")
    ] = ClusterFormat.KUBERNETES,
    plugins: PluginOptions,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.", metavar="yaml|json")] = Format.YAML,
) -> None:
    """Print a configuration with nothing left out, as a worker runs it.

    Shows every profile with its plugins in order, their weights and all arguments. What is printed is a configuration
    itself, and means the same. Comments above it name where each plugin comes from. With -o json, standard error names
    the plugins of other packages.
    """
    from wharfinger.framework.config.notes import BUILT_IN, origins, package
    from wharfinger.framework.profiles import load_configuration

    if defaults and file is not None:
        raise UsageError("these exclude each other: --defaults and a file")
    named = os.environ.get(variable("config"))
    chosen = None if defaults else file or (Path(named) if named else None)
    if chosen is not None:
        _check_there(chosen)
    loaded = load_configuration(chosen, all_plugins=plugins.all_plugins, format_=format_)
    as_comments = output is Format.YAML
    for name, origin in origins(loaded.configuration, loaded.catalog).items():
        if as_comments or origin != BUILT_IN:
            typer.echo(plain(f"# {name}: {origin}"), err=not as_comments)
    for plugin in loaded.not_enabled:
        said = f"# {plugin.name}: {package(plugin.origin, plugin.version)}, installed and not enabled"
        typer.echo(plain(said), err=not as_comments)
    show(loaded.configuration.document(), Output(output.value))


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
