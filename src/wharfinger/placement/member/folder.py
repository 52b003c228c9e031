"""Reads the folder of `wharfinger member --members-dir`: a file a member, which says how its etcd is reached.

A file has what the connection options of other commands say. Paths in it are relative to the folder.

Files that others may read are refused: with their passwords and keys they are all that the agent may do, and nothing of
it lies in etcd or Temporal.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.framework.config.validation import Boolean, ConfigPart, refuse, understood
from wharfinger.objects.documents import documents
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.settings import EtcdSettings


class MemberFileFields(ConfigPart):
    """How one member is reached."""

    etcd: tuple[str, ...] = Field(default=(), max_length=100)
    """Endpoints of its etcd."""
    protocol: Literal["json", "grpc"] = "json"
    """How it is spoken to."""
    format: Literal["kubernetes", "rk8s"] = "kubernetes"
    """In which format it keeps its pods and nodes."""
    user: str = ""
    """When its etcd requires one."""
    password_file: str = ""
    """File with the user's password."""
    allow_insecure: Boolean = False
    """Whether the password may be sent over plain http to another machine."""
    ca: str = ""
    """Certificate of the authority that signed its etcd's (PEM)."""
    cert: str = ""
    """Client certificate (PEM)."""
    key: str = ""
    """Its private key (PEM)."""


@dataclass(frozen=True, slots=True)
class MemberConnection:
    """How one member is reached."""

    name: str
    etcd: EtcdSettings
    format: ClusterFormat


_BEGINS = {"ca": b"-----BEGIN CERTIFICATE-----", "cert": b"-----BEGIN CERTIFICATE-----", "key": b"PRIVATE KEY-----"}
"""What each kind of PEM file has in it."""
NAMED_LIMIT = 1024 * 1024
"""Bytes of a file that another one names."""


def member_connection(name: str, folder: Path, written: Mapping[str, Any]) -> MemberConnection:
    """How a member is reached, as its file says. Raises InvalidConfiguration, which names all that is wrong."""
    fields, problems = understood(written, MemberFileFields)
    if not fields.etcd and not any(where == "etcd" for where, _ in problems):
        problems.append(("etcd", "is missing"))
    problems += [(f"etcd[{index}]", told) for index, url in enumerate(fields.etcd) if (told := _endpoint(url, fields))]
    paths = {
        "passwordFile": fields.password_file,
        "ca": fields.ca,
        "cert": fields.cert,
        "key": fields.key,
    }
    files = {name: folder / given if given else None for name, given in paths.items()}
    problems += [
        (name, f"there is no file {file}") for name, file in files.items() if file is not None and not file.is_file()
    ]
    problems += [
        (name, told)
        for name, file in files.items()
        if file is not None and file.is_file() and (told := _named_file(name, file))
    ]
    if fields.user and not fields.password_file:
        problems.append(("passwordFile", "is missing; user needs it"))
    if fields.key and not fields.cert:
        problems.append(("cert", "is missing; key needs it"))
    if problems:
        raise refuse(problems)
    return MemberConnection(
        name,
        EtcdSettings(
            endpoints=tuple(url.rstrip("/") for url in fields.etcd),
            protocol=fields.protocol,
            user=fields.user,
            password_file=files["passwordFile"],
            allow_insecure=fields.allow_insecure,
            ca=files["ca"],
            cert=files["cert"],
            key=files["key"],
        ),
        ClusterFormat(fields.format),
    )


def _endpoint(url: str, fields: MemberFileFields) -> str:
    """What is wrong with an endpoint; empty = nothing. A user in it would show up in logs and errors."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query or parts.fragment:
        return "is no URL such as https://10.0.0.1:2379"
    if "@" in parts.netloc:
        return "has a user in it: that has a field of its own"
    if parts.scheme == "http" and (fields.ca or fields.cert):
        return "is plain, so the certificates would not be used: name https://"
    if parts.scheme == "http" and fields.user and not fields.allow_insecure and not is_loopback(parts.hostname or ""):
        return "is plain, so the password would be sent in the clear: name https://, or set allowInsecure: true"
    return ""


def _named_file(name: str, path: Path) -> str:
    """What is wrong with a file that is there; empty = nothing that shows before it is used."""
    try:
        with path.open("rb") as opened:
            content = opened.read(NAMED_LIMIT)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if name in _BEGINS:
        return "" if _BEGINS[name] in content else f"{path} is no PEM file of such"
    try:
        content.decode()
    except UnicodeDecodeError:
        return f"{path} is no UTF-8 text"
    return ""


SUFFIX = ".yaml"
FILE_LIMIT = 64 * 1024
"""Bytes of one file."""
MOST = 5000
"""Members of one folder."""


class FolderOfMembers(NamedTuple):
    """What a folder has."""

    members: Mapping[str, MemberConnection]
    """By name, those whose files are right."""
    problems: Mapping[str, Sequence[str]]
    """By name, what is wrong with the files of the others."""


def members_in(folder: Path) -> dict[str, MemberConnection]:
    """The members of a folder, by name, all of which have to be right.

    Raises `UsageError` for what is no folder, and InvalidConfiguration, which names all that is wrong.
    """
    found = read_folder(folder)
    if found.problems:
        raise refuse([(f"{name}{SUFFIX}", told) for name, all_ in found.problems.items() for told in all_])
    return dict(found.members)


def read_folder(folder: Path) -> FolderOfMembers:
    """The members of a folder as far as they are right: a broken file is its own member's trouble.

    Raises `UsageError` for what is no folder.
    """
    if not folder.is_dir():
        raise UsageError(f"--members-dir: there is no folder {folder}")
    files = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    if len(files) > MOST:
        raise UsageError(f"--members-dir: {folder} has more than {MOST} members")
    found: dict[str, MemberConnection] = {}
    problems: dict[str, Sequence[str]] = {}
    for path in files:
        try:
            found[path.stem] = _member(path)
        except InvalidConfiguration as error:
            problems[path.stem] = tuple(error.problems)
        except (InvalidObject, OSError) as error:
            problems[path.stem] = (str(error),)
    return FolderOfMembers(found, problems)


def _member(path: Path) -> MemberConnection:
    """Raises `InvalidConfiguration`, `InvalidObject`, `OSError`."""
    if not is_dns_subdomain(path.stem):
        raise InvalidObject("its name is no name of a member (lower case letters, digits, dashes, dots)")
    _check_private(path)
    content = path.read_bytes()[: FILE_LIMIT + 1]
    if len(content) > FILE_LIMIT:
        raise InvalidObject(f"is larger than {FILE_LIMIT} bytes")
    connection = member_connection(path.stem, path.parent, documents.parse(content))
    for secret in (connection.etcd.password_file, connection.etcd.key):
        if secret is not None:
            _check_private(secret)
    return connection


def _check_private(path: Path) -> None:
    """Raises `InvalidObject` for a file that others may read; a pod's Secret is root's, and our group may read it."""
    state = path.stat()
    mode = stat.S_IMODE(state.st_mode)
    of_a_secret = os.getuid() != 0 and state.st_uid == 0 and state.st_gid in os.getgroups()
    if mode & (0o037 if of_a_secret else 0o077):
        raise InvalidObject(f"{path.name} may be read by others (mode {mode:04o}): chmod 0400 {path.name}")
