"""How a member's own etcd is reached: the file of one member in the folder of `wharfinger member --members-dir`.

It holds what the connection options of other commands say. Paths are relative to the folder. Who reads the files:
`member_loops.folder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from wharfinger.config.errors import refuse
from wharfinger.config.understanding import understood
from wharfinger.framework.args import ConfigPart
from wharfinger.model.formats import ClusterFormat
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


def member_connection(name: str, folder: Path, written: Mapping[str, Any]) -> MemberConnection:
    """How a member is reached, as its file says. Raises InvalidConfiguration, which names all that is wrong."""
    fields, problems = understood(written, MemberFileFields)
    if not fields.etcd and not any(where == "etcd" for where, _ in problems):
        problems.append(("etcd", "is missing"))
    problems += [
        (f"etcd[{index}]", "is no URL such as https://10.0.0.1:2379")
        for index, url in enumerate(fields.etcd)
        if not url.startswith(("http://", "https://"))
    ]
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
            ca=files["ca"],
            cert=files["cert"],
            key=files["key"],
        ),
        ClusterFormat(fields.format),
    )
