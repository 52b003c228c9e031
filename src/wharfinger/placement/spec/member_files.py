"""How a member's own etcd is reached: the file of one member in the folder of `wharfinger member --members-dir`.

It holds what the connection options of other commands say. Paths are relative to the folder. Who reads the files:
`member.folder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from wharfinger.framework.args import Boolean, ConfigPart
from wharfinger.framework.config.validation import refuse, understood
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.objects.model.formats import ClusterFormat
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
FILE_LIMIT = 1024 * 1024
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
        if file is not None and file.is_file() and (told := _file(name, file))
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


def _file(name: str, path: Path) -> str:
    """What is wrong with a file that is there; empty = nothing that shows before it is used."""
    try:
        with path.open("rb") as opened:
            content = opened.read(FILE_LIMIT)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if name in _BEGINS:
        return "" if _BEGINS[name] in content else f"{path} is no PEM file of such"
    try:
        content.decode()
    except UnicodeDecodeError:
        return f"{path} is no UTF-8 text"
    return ""
