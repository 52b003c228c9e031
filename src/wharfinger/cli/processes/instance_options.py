"""The options that say what instances of this host may have: versions, secrets, variables. Of `agent`, and of `dev`.

`dev` checks them as its agent will, so that a mistake is one line at the start, and hands them on (`arguments`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from wharfinger.cli.options import option
from wharfinger.errors import UsageError
from wharfinger.settings import EtcdSettings

INSTANCES_PANEL = "Instances"
"""Panel of these options in a command's help."""

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

Install = Annotated[
    list[str] | None,
    option(
        "install",
        "A version that templates may name, and its executable; repeat for more.",
        "NAME=PATH",
        panel=INSTANCES_PANEL,
    ),
]
SecretsDir = Annotated[
    Path | None,
    option("secrets-dir", "Secrets of templates: files DIR/<name>/<version>.", "DIR", panel=INSTANCES_PANEL),
]
AllowEnv = Annotated[
    list[str] | None,
    option(
        "allow-env",
        "An environment variable that instances may get, from the template or else from the agent; repeat for more. No "
        "other passes, but PYTHONPATH to instances of the agent's own version.",
        "NAME",
        panel=INSTANCES_PANEL,
    ),
]

InstanceEtcdUser = Annotated[
    str,
    option(
        "instance-etcd-user",
        "User of etcd for the instances; needs --instance-etcd-password-file. Without: the agent's own.",
        "NAME",
        shown=False,
        panel=INSTANCES_PANEL,
    ),
]
InstanceEtcdPasswordFile = Annotated[
    Path | None,
    option("instance-etcd-password-file", "File with that user's password.", "FILE", panel=INSTANCES_PANEL),
]


def etcd_of_instances(own: EtcdSettings, user: str, password_file: Path | None) -> EtcdSettings | None:
    """How instances log in to etcd; None = as the agent does. Raises `UsageError`."""
    if bool(user) != (password_file is not None):
        raise UsageError("--instance-etcd-user and --instance-etcd-password-file need each other")
    if password_file is None:
        return None
    if not password_file.is_file():
        raise UsageError(f"--instance-etcd-password-file: there is no file {password_file}")
    return replace(own, user=user, password_file=password_file)


def installs(values: Iterable[str]) -> tuple[tuple[str, Path], ...]:
    """What `--install` names. Raises `UsageError`."""
    found: dict[str, Path] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not _VERSION.fullmatch(name):
            raise UsageError(f"--install: {value!r} is no NAME=PATH, such as v2=/opt/wharfinger-2/bin/wharfinger")
        if name in found:
            raise UsageError(f"--install: {name} is named more than once")
        if not os.access(path, os.X_OK) or not Path(path).is_file():
            raise UsageError(f"--install: {path} is no executable")
        found[name] = Path(path).absolute()
    return tuple(found.items())


def secrets_folder(path: Path | None) -> Path | None:
    """What `--secrets-dir` names. Raises `UsageError`."""
    if path is not None and not path.is_dir():
        raise UsageError(f"--secrets-dir: there is no folder {path}")
    return path.resolve() if path is not None else None


def variables(values: Iterable[str]) -> frozenset[str]:
    """What `--allow-env` names. Raises `UsageError`."""
    found = frozenset(values)
    for name in found:
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"--allow-env: {name!r} is no name of a variable")
    return found


def arguments(install: Iterable[str], secrets_dir: Path | None, allow_env: Iterable[str]) -> tuple[str, ...]:
    """The same options for another process, in whatever folder it runs. Raises `UsageError`."""
    folder = secrets_folder(secrets_dir)
    return (
        *(f"--install={name}={path}" for name, path in installs(install)),
        *([f"--secrets-dir={folder}"] if folder is not None else []),
        *(f"--allow-env={name}" for name in sorted(variables(allow_env))),
    )
