"""`wharfinger etcd`: the roles that etcd's users may have, and making users with them.

Passwords lie in a folder, a file for each user that is named as the user is. Files that are missing are written, with
random passwords. The administrator of etcd is the user `root`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, command_group, configured
from wharfinger.cli.output import Columns, Output, OutputOption, show
from wharfinger.errors import ConfigurationError

if TYPE_CHECKING:
    from wharfinger.programs.etcd_users import EtcdUser
    from wharfinger.settings import EtcdSettings

Passwords = Annotated[Path, typer.Argument(help="Folder with a file for each user's password.", metavar="DIR")]


def commands() -> typer.Typer:
    """The group."""
    found = {"roles": roles, "enable-users": enable_users, "disable-users": disable_users}
    return command_group("Users of etcd: a role for each component, and nothing beyond it.", found)


def roles(*, output: OutputOption = Output.TABLE) -> None:
    """List the roles: who has each, what it may read, and what it may write."""
    from wharfinger.programs.etcd_roles import ROLES

    if output is not Output.TABLE:
        show([role.mapping() for role in ROLES], output)
        return
    for role in ROLES:
        typer.echo(f"{role.name}: {role.what}")
        rows = [("reads", key) for key in role.reads] + [("writes", key) for key in role.writes]
        rows += [("but not", role.without)] if role.without else []
        if rows:
            typer.echo(Columns("  ", "").render([(f"  {what}", key) for what, key in rows], headings=False))


@configured
def enable_users(
    passwords: Passwords,
    *,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="NAME", help="Make only this user, and root; repeat for more."),
    ] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Workers schedule a Kubernetes API: `worker` is `importer`, too.")
    ] = False,
    connection: ConnectionOptions,
) -> None:
    """Make users with their roles, and have etcd want one of every client.

    Users, roles and passwords that are as wanted stay untouched; others are made so, and users that are not named here
    stay as they are. Afterwards every client has to name its user: --etcd-user and --etcd-password-file.
    """
    from wharfinger.cli import connect
    from wharfinger.programs import etcd_users

    wanted = _users(passwords, user or (), kubernetes=kubernetes)
    was_off = connect.run(etcd_users.enable(_as_root(connection, passwords), wanted))
    names = ", ".join(one.name for one in wanted)
    typer.echo(f"etcd {'wants users now' if was_off else 'has wanted users before'}: {names}; passwords: {passwords}")


@configured
def disable_users(passwords: Passwords, *, connection: ConnectionOptions) -> None:
    """Have etcd want no user any more: every program that reaches it, and every web page, can then write to it.

    Users and roles stay, for `enable-users`.
    """
    from wharfinger.cli import connect
    from wharfinger.programs import etcd_users

    was_on = connect.run(etcd_users.disable(_as_root(connection, passwords)))
    typer.echo("etcd wants no user any more" if was_on else "etcd has not wanted users")


def _users(folder: Path, named: Iterable[str], *, kubernetes: bool) -> list[EtcdUser]:
    from wharfinger.programs.etcd_users import users_of

    try:
        return users_of(folder, named, kubernetes=kubernetes)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder}: {error.strerror}") from error


def _as_root(connection: ConnectionOptions, passwords: Path) -> EtcdSettings:
    file = passwords / "root"
    if not file.is_file():
        raise ConfigurationError(f"there is no file {file} with the password of etcd's user root")
    return replace(connection.etcd, user="root", password_file=file)
