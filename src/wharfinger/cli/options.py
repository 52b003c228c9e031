"""Options of commands: those that settings classes declare (`wharfinger.options`), and those of the connection.

Another command uses them like this, and is named in `COMMANDS` of `cli.main`::

    @configured
    async def things(name: Annotated[str, typer.Argument(help="Which.")], *, connection: ConnectionOptions) -> None:
        '''What --help says.'''
        from wharfinger.cli.connect import open_temporal

        async with connection.store() as store: ...
        client = await open_temporal(connection)

`configured` replaces the parameter `connection` by the options that `ConnectionOptions` declares. Each is also an
environment variable: `--etcd-user` is `WHARFINGER_ETCD_USER`; an option wins over its variable. Neighbours:
`cli.processes.process_options` has what commands share that run schedulers.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import typer
from typer.core import TyperCommand

from wharfinger.cli.help_drawing import WholeHelpCommand, flowing
from wharfinger.errors import UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import Declared, Option, declared, nested, setting
from wharfinger.process.names import DEFAULT_CLUSTER, check_cluster
from wharfinger.settings import CONNECTION_PANEL, EtcdSettings, TemporalSettings

if TYPE_CHECKING:
    from wharfinger.etcd.store import Store

RUN = "Run"
OBJECTS = "Objects"
UNDERSTAND = "Understand"
"""Panels of `wharfinger --help`, in this order."""


def add_command(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    panel: str | None = None,
    kind: type[TyperCommand] = WholeHelpCommand,
) -> None:
    """Add a command; its docstring is its help, and `panel` the one in which the help of `app` lists it."""
    app.command(name, rich_help_panel=panel, cls=kind, help=flowing(command.__doc__ or ""))(command)


def command_group(
    help: str,
    commands: Mapping[str, Callable[..., None]] | None = None,
    *,
    panels: Mapping[str, Mapping[str, Callable[..., None]]] | None = None,
) -> typer.Typer:
    """A group of commands by their names, in the order of its help: in no panel, and in panels."""
    group = typer.Typer(no_args_is_help=True, help=help)
    for panel, found in ((None, commands or {}), *(panels or {}).items()):
        for name, command in found.items():
            add_command(group, name, command, panel)
    return group


OptionTable = Mapping[str, tuple[Any, Any]]
"""Parameter -> annotation (with `typer.Option`) and default."""

T = TypeVar("T")


def variable(name: str) -> str:
    """The environment variable of an option: `etcd-user` -> `WHARFINGER_ETCD_USER`."""
    return "WHARFINGER_" + name.upper().replace("-", "_")


def namespace_option(help: str, shown: str | bool = True) -> Any:
    """`--namespace`, for `Annotated`; `shown` is what help shows of the default."""
    return typer.Option("--namespace", "-n", help=help, metavar="NAME", show_default=shown)


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options, and what a function gets in their place: for `Annotated`, where no settings class declares them."""

    options: OptionTable
    make: Callable[[Mapping[str, Any]], Any]
    """From what was given, by parameter."""


@dataclass(frozen=True, slots=True)
class After:
    """For `Annotated`: where in a command's help the options of a settings class stand."""

    parameter: str


WATCH = object()
"""For `Annotated`: a flag with which the command runs only while its output has a reader."""


def configured(function: Callable[..., Coroutine[Any, Any, None] | None]) -> Callable[..., None]:
    """Give a command the options of each parameter that is a settings class or an `OptionGroup`, in its place.

    A coroutine is run to its end, or while its output has a reader where a flag marked with `WATCH` is given.
    Annotations must be importable at run time (not under `TYPE_CHECKING`). Of two options of one name the first counts.
    """
    hints = get_type_hints(function, include_extras=True)
    watches = [name for name, hint in hints.items() if WATCH in getattr(hint, "__metadata__", ())]
    found = {name: _group(hint) for name, hint in hints.items()}
    own = {name for name, (group, _) in found.items() if group is None}
    groups: dict[str, OptionGroup] = {}
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(function).parameters.values():
        group, after = found[one.name]
        if group is None:
            parameters.append(one.replace(annotation=hints[one.name]))
            continue
        taken = [known.name for known in parameters]
        options = {name: option for name, option in group.options.items() if name not in own.union(taken)}
        groups[one.name] = OptionGroup(options, group.make)
        at = taken.index(after) + 1 if after else len(taken)
        parameters[at:at] = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in options.items()
        ]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        chosen = {
            parameter: group.make({name: given.pop(name) for name in group.options if name in given})
            for parameter, group in groups.items()
        }
        running = function(**given, **chosen)
        if running is not None:
            from wharfinger.cli import connect

            connect.run(running, watch=any(given.get(name) for name in watches))

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _group(hint: Any) -> tuple[OptionGroup | None, str]:
    """The options of a parameter, if it stands for some, and after which other one."""
    settings, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if given := [one for one in extras if isinstance(one, OptionGroup)]:
        return given[0], ""
    if not (isinstance(settings, type) and is_dataclass(settings) and declared(settings)):
        return None, ""
    after = "".join(one.parameter for one in extras if isinstance(one, After))
    return OptionGroup(options_of(settings), functools.partial(settings_from, settings)), after


@functools.cache  # a group of commands asks for the same ones again and again
def options_of(settings: Any) -> OptionTable:
    """The options that a settings class declares, those of nested ones among them (`OptionTable`)."""
    found: dict[str, tuple[Any, Any]] = {}
    for one in declared(settings):
        found |= dict(options_of(one.hint)) if one.option is None else {_parameter(one): _for_typer(one, one.option)}
    return found


def settings_from(
    settings: type[T], given: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]] | None = None
) -> T:
    """The settings that options make, by their parameters; `readers` by field. Raises `UsageError`."""
    values: dict[str, Any] = {}
    for one in declared(settings):
        name, value = one.field.name, given.get(_parameter(one))
        if one.option is None:
            values[name] = settings_from(one.hint, given, one.readers)
        elif value is not None:
            values[name] = _read(one, one.option, value, (readers or {}).get(name))
    return settings(**values)


def _parameter(one: Declared) -> str:
    return one.name.replace("-", "_")


def _for_typer(one: Declared, option: Option) -> tuple[Any, Any]:
    """The annotation of the command's parameter, and its default."""
    default = one.field.default if option.given is None else option.given
    kind: Any = option.kind or one.hint
    if one.listed:
        kind, default = list[str] | None, None
    elif words := _words(one, option):
        choice: Any = Enum("Word", {word: word for word in words})  # type: ignore[misc]  # the words are data
        kind = choice if default is not None else choice | None
        default = None if default is None else choice(one.word(default))
    found = typer.Option(
        f"--{one.name}/--no-{one.name}" if option.negatable else f"--{one.name}",
        *([f"-{option.short}"] if option.short else []),
        envvar=variable(one.name) if option.variable and not option.hidden else None,
        show_envvar=False,
        help=option.help,
        metavar=option.metavar,
        show_default=option.shown,
        rich_help_panel=option.panel,
        min=option.min,
        max=option.max,
        hidden=option.hidden,
    )
    return Annotated[kind, found], default


def _words(one: Declared, option: Option) -> tuple[str, ...]:
    """The words that may be given; empty = any text."""
    literals = (hint for hint in (one.hint, *get_args(one.hint)) if get_origin(hint) is Literal)
    return tuple(option.words or get_args(next(literals, None)))


def _read(one: Declared, option: Option, given: Any, reader: Callable[[Any], Any] | None) -> Any:
    """The field's value. Raises `UsageError`."""
    if isinstance(given, Enum) and _words(one, option):
        given = option.words[given.value] if option.words else given.value
    if option.exists and not given.is_file():
        raise UsageError(f"--{one.name}: there is no file {given}")
    reader = reader or option.read or (get_origin(one.hint) if one.listed else None)
    return given if reader is None else reader(given)


config_option = partial(
    setting,
    None,
    "A KubeSchedulerConfiguration (YAML or JSON). Without: the defaults, `wharfinger config show --defaults`.",
    "FILE",
    name="config",
)
plugins_option = partial(
    setting,
    False,
    "Plugins of installed packages that take part: those that the configuration names (`named`), or `all`.",
    name="plugins",
    words={"named": False, "all": True},
)
"""Fields of several classes."""


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """The option of commands that read a configuration."""

    all_plugins: bool = plugins_option()


@dataclass(frozen=True, slots=True)
class ConfigurationOptions:
    """The options of commands that decide."""

    config: Path | None = config_option()
    all_plugins: bool = plugins_option()


def endpoints(values: Iterable[str]) -> tuple[str, ...]:
    """Endpoints of etcd, each value one or several (commas or blanks between); raises `UsageError`."""
    parts = (part for value in values for part in re.split(r"[,\s]+", value) if part)
    return tuple(dict.fromkeys(_endpoint(part) for part in parts)) or EtcdSettings().endpoints


def _endpoint(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        split = urlsplit(url)
        well_formed = bool(split.hostname) and (split.port is None or split.port > 0)
    except ValueError:  # a port that is no number, a broken IPv6 address
        well_formed = False
    if not well_formed or split.scheme not in ("http", "https") or split.path.strip("/") or split.query:
        shown = re.sub(r"//[^/]*@", "//", text)  # a password does not belong into errors
        raise UsageError(f"--etcd: {shown!r} is no URL of an etcd, such as http://127.0.0.1:2379")
    return url.rstrip("/")


def _address(text: str | None) -> str | None:
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"--temporal: {text!r} is no HOST:PORT, such as 127.0.0.1:7233")
    return text


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The connection options: where etcd and Temporal are. Raises `UsageError`."""

    etcd: EtcdSettings = nested(EtcdSettings, endpoints=endpoints)
    temporal: TemporalSettings = nested(TemporalSettings, address=_address, namespace=lambda name: name or None)
    cluster: str = setting(DEFAULT_CLUSTER, "Name of the cluster.", "NAME", panel=CONNECTION_PANEL, read=check_cluster)
    format: ClusterFormat | None = setting(
        None,
        "In which format the cluster keeps its pods and nodes; its first worker has written it into etcd.",
        "|".join(ClusterFormat),
        shown="as etcd says, else kubernetes",
        panel=CONNECTION_PANEL,
    )

    def store(self) -> AbstractAsyncContextManager[Store]:
        """The etcd that they name (`connect.open_store`)."""
        from wharfinger.cli.connect import open_store

        return open_store(self)

    def __post_init__(self) -> None:
        if self.etcd.key is not None and self.etcd.cert is None:
            raise UsageError("--etcd-key needs --etcd-cert, the certificate it belongs to")
        if self.etcd.user and self.etcd.password_file is None:
            raise UsageError("--etcd-user needs --etcd-password-file")
