"""The options that say what instances of this host may have: versions, secrets, variables. Of `agent`, and of `dev`.

`dev` checks them as its agent will, so that a mistake is one line at the start, and hands them on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.errors import UsageError
from wharfinger.fleet.spec.agent_settings import INSTANCES_PANEL
from wharfinger.options import setting
from wharfinger.settings import EtcdSettings

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


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


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """What instances may have."""

    install: tuple[tuple[str, Path], ...] = setting(
        (),
        "A version that templates may name, and its executable; repeat for more.",
        "NAME=PATH",
        panel=INSTANCES_PANEL,
        read=installs,
    )
    secrets_dir: Path | None = setting(
        None, "Secrets of templates: files DIR/<name>/<version>.", "DIR", panel=INSTANCES_PANEL, read=secrets_folder
    )
    allow_env: frozenset[str] = setting(
        frozenset(),
        "An environment variable that instances may get, from the template or else from the agent; repeat for more. No "
        "other passes, but PYTHONPATH to instances of the agent's own version.",
        "NAME",
        panel=INSTANCES_PANEL,
        read=variables,
    )


@dataclass(frozen=True, slots=True)
class InstanceLogin:
    """As which user of etcd instances log in."""

    user: str = setting(
        "",
        "User of etcd for the instances; needs --instance-etcd-password-file. Without: the agent's own.",
        "NAME",
        name="instance-etcd-user",
        shown=False,
        panel=INSTANCES_PANEL,
    )
    password_file: Path | None = setting(
        None,
        "File with that user's password.",
        "FILE",
        name="instance-etcd-password-file",
        panel=INSTANCES_PANEL,
        exists=True,
    )

    def etcd(self, own: EtcdSettings) -> EtcdSettings | None:
        """How instances log in; None = as the agent does. Raises `UsageError`."""
        if bool(self.user) != (self.password_file is not None):
            raise UsageError("--instance-etcd-user and --instance-etcd-password-file need each other")
        return replace(own, user=self.user, password_file=self.password_file) if self.user else None
