"""Users of an etcd: made as wanted, with their roles, and authentication turned on and off.

::

    passwords on disk (`etcd.etcd_users`) ─┐
    roles (`etcd_roles`) ──────────────────┴─► enable: roles, users, then authentication ─► each call needs a token

What is as wanted already is not written again, because every write ends all tokens. These calls go by the JSON
gateway, whatever protocol the store speaks.
"""

from __future__ import annotations

import logging
from binascii import a2b_base64
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from wharfinger.errors import AccessDenied, UsageError, UserWanted
from wharfinger.etcd.etcd_connection import Connection
from wharfinger.etcd.etcd_json import JsonGateway
from wharfinger.etcd.etcd_users import ROOT, EtcdRole, KeyRange, NotFoundHere, found_here, password
from wharfinger.etcd.etcd_wire import Method
from wharfinger.programs.etcd_roles import IMPORTER, ROLES, WORKER
from wharfinger.settings import EtcdSettings

log = logging.getLogger(__name__)

READS = frozenset(
    {Method.AUTH_STATUS, Method.AUTHENTICATE, Method.USER_LIST, Method.USER_GET, Method.ROLE_LIST, Method.ROLE_GET}
)
"""Calls that change nothing."""


@dataclass(frozen=True, slots=True)
class EtcdUser:
    """A user that is to be."""

    name: str
    roles: tuple[EtcdRole, ...]
    password: str = ""
    """Empty = none: the user shows a client certificate with its name."""


def users_of(folder: Path, named: Iterable[str], *, kubernetes: bool) -> list[EtcdUser]:
    """The users of these roles, root among them, or of all; their passwords are read from the folder, or written there.

    `kubernetes`: workers schedule a Kubernetes API. Raises `UsageError` for an unknown role, and `OSError`.
    """
    possible = {role.name: role for role in ROLES if role is not IMPORTER}
    if unknown := sorted(set(named) - set(possible)):
        raise UsageError(f"--user: there is no role {unknown[0]!r}; there are {', '.join(possible)}")
    wanted = {ROOT.name, *named} if named else set(possible)
    return [
        EtcdUser(name, (role, IMPORTER) if kubernetes and role is WORKER else (role,), password(folder, name))
        for name, role in possible.items()
        if name in wanted
    ]


async def is_enabled(settings: EtcdSettings) -> bool:
    """Whether etcd wants users. Raises `Unavailable`, and `AccessDenied` for a certificate that is refused."""
    async with _connected(replace(settings, user="", password_file=None)) as anonymous:
        try:
            return bool((await _ask(anonymous, Method.AUTH_STATUS)).get("enabled"))
        except UserWanted:
            return True


async def enable(settings: EtcdSettings, users: Sequence[EtcdUser], *, only: bool = False) -> bool:
    """Make users and roles as wanted, and turn authentication on; whether it was off.

    `settings` name the user root and its password, which is used where authentication is on already. `users` must have
    that user. `only`: remove users and roles that are not among these, where authentication was off: any client
    could have made them. Raises `AccessDenied` where root's password is another one, and `Unavailable`.
    """
    was_on = await is_enabled(settings)
    async with _connected(settings if was_on else replace(settings, user="", password_file=None)) as etcd:
        roles = {role.name: role for user in users for role in user.roles}
        there = set((await _ask(etcd, Method.ROLE_LIST)).get("roles", ()))
        for role in roles.values():
            await _make_role(etcd, role, there=role.name in there)
        present = set((await _ask(etcd, Method.USER_LIST)).get("users", ()))
        for user in users:
            await _make_user(etcd, user, there=user.name in present, verified=was_on)
        if only and not was_on:
            await _remove(etcd, Method.USER_DELETE, "user", "name", present - {user.name for user in users})
            await _remove(etcd, Method.ROLE_DELETE, "role", "role", there - set(roles))
        if not was_on:
            await _ask(etcd, Method.AUTH_ENABLE)
    return not was_on


async def disable(settings: EtcdSettings) -> bool:
    """Turn authentication off; whether it was on. Users and roles stay. `settings` as in `enable`."""
    if not await is_enabled(settings):
        return False
    async with _connected(settings) as etcd:
        await _ask(etcd, Method.AUTH_DISABLE)
    return True


def as_root_here(settings: EtcdSettings) -> EtcdSettings:
    """The connection as root of the person's own etcd on this machine, for one that wants root. Raises `UserWanted`."""
    try:
        endpoint, file = found_here(settings.endpoints, ROOT)
    except NotFoundHere as reason:
        told = f"etcd at {settings.endpoints[0]} wants its user root: --etcd-user and --etcd-password-file name it"
        raise UserWanted(f"{told} ({reason})") from reason
    return replace(settings, endpoints=(endpoint,), user=ROOT.name, password_file=file)


async def _make_role(etcd: Connection, role: EtcdRole, *, there: bool) -> None:
    if role is ROOT and there:
        return
    if not there:
        await _ask(etcd, Method.ROLE_ADD, name=role.name)
    has = _permissions(await _ask(etcd, Method.ROLE_GET, role=role.name)) if there else {}
    wanted = role.permissions()
    for keys, kind in wanted.items():
        if has.get(keys) != kind:
            await _ask(etcd, Method.ROLE_GRANT, name=role.name, perm={"permType": kind, **_keys(keys)})
    for keys in has.keys() - wanted.keys():
        await _ask(etcd, Method.ROLE_REVOKE, role=role.name, **_keys(keys))


async def _make_user(etcd: Connection, user: EtcdUser, *, there: bool, verified: bool) -> None:
    """`verified`: whether a password can be checked by logging in."""
    if not there:
        said = {"password": user.password} if user.password else {"options": {"no_password": True}}
        await _ask(etcd, Method.USER_ADD, name=user.name, **said)
    elif user.password and not (verified and await _opens(etcd, user)):
        await _ask(etcd, Method.USER_PASSWORD, name=user.name, password=user.password)
    has = set((await _ask(etcd, Method.USER_GET, name=user.name)).get("roles", ())) if there else set()
    wanted = {role.name for role in user.roles}
    for name in sorted(wanted - has):
        await _ask(etcd, Method.USER_GRANT, user=user.name, role=name)
    for name in sorted(has - wanted):
        await _ask(etcd, Method.USER_REVOKE, name=user.name, role=name)


async def _opens(etcd: Connection, user: EtcdUser) -> bool:
    """Whether the user's password is the wanted one."""
    try:
        await _ask(etcd, Method.AUTHENTICATE, name=user.name, password=user.password)
    except AccessDenied:
        return False
    return True


async def _remove(etcd: Connection, method: Method, what: str, field: str, names: Iterable[str]) -> None:
    for name in sorted(names):
        log.warning("etcd_unknown_removed what=%r name=%r", f"delete {what}", name)
        await _ask(etcd, method, **{field: name})


def _permissions(answer: Mapping[str, Any]) -> dict[KeyRange, str]:
    """What a role has; etcd leaves out the type of a permission to read."""
    return {
        KeyRange(a2b_base64(one.get("key", "")), a2b_base64(one.get("range_end", ""))): str(one.get("permType", "READ"))
        for one in answer.get("perm", ())
    }


def _keys(keys: KeyRange) -> dict[str, bytes]:
    return {"key": keys.start, "range_end": keys.end}


async def _ask(etcd: Connection, method: Method, **fields: object) -> dict[str, Any]:
    answer: dict[str, Any] = await etcd.call(method, fields, repeatable=method in READS)
    return answer


@asynccontextmanager
async def _connected(settings: EtcdSettings) -> AsyncIterator[Connection]:
    connection = Connection(replace(settings, protocol="json"), JsonGateway, Random())  # noqa: S311 - spreads retries
    try:
        yield connection
    finally:
        await connection.close()
