"""Users of etcd: the role of each, which says what keys it may read and write, and its password on disk.

A transaction needs the permission for each key that it compares, reads or writes, in both branches. Passwords are made
at random, one file a user, for their owner only::

    <data folder of etcd>.users/root, admin, worker, ...       mode 0600, in a folder of mode 0700

A command that names no user takes the one `admin` of an etcd that the same person runs on this machine
(`wharfinger dev`): the process that listens on the endpoint's port must be the person's own, and so must the folder
beside its data be, and the file. So no other process gets the password, and no other person's file is read.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from wharfinger.etcd import keys
from wharfinger.etcd.etcd_wire import key_bytes, prefix_end
from wharfinger.objects.model.addresses import is_loopback

TREES = (keys.ROOT, keys.ASIDE)
"""Everything that wharfinger keeps."""


class KeyRange(NamedTuple):
    """Keys from `start` to before `end`; without an end, the one key."""

    start: bytes
    end: bytes = b""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and (self.start <= key < self.end if self.end else key == self.start)


@dataclass(frozen=True, slots=True)
class EtcdRole:
    """What the users of a role may do. Keys that end with a slash stand for all keys below them."""

    name: str
    what: str
    """Which component has it."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    without: str = ""
    """A tree that it may not write, below one that it may."""

    def permissions(self) -> Mapping[KeyRange, str]:
        """Ranges with etcd's names of permissions: READ, WRITE, READWRITE."""
        read = {_range(key) for key in self.reads}
        write = {part for key in self.writes for part in _but(_range(key), self.without)}
        return {
            one: "READWRITE" if one in read and one in write else "READ" if one in read else "WRITE"
            for one in sorted(read | write)
        }

    def mapping(self) -> dict[str, object]:
        """For programs; the exception only where there is one."""
        found = {"role": self.name, "what": self.what, "reads": list(self.reads), "writes": list(self.writes)}
        return {**found, **({"without": self.without} if self.without else {})}

    def may_write(self, key: str) -> bool:
        """Whether it may put and delete the key."""
        return any(key_bytes(key) in one for one, kind in self.permissions().items() if kind != "READ")


def _range(key: str) -> KeyRange:
    start = key_bytes(key)
    return KeyRange(start, prefix_end(start)) if key.endswith("/") else KeyRange(start)


def _but(whole: KeyRange, without: str) -> Iterable[KeyRange]:
    """The range, or what is left of it before and behind the tree."""
    hole = _range(without) if without else None
    if hole is None or hole.start not in whole or hole == whole:
        return (whole,)
    return (KeyRange(whole.start, hole.start), KeyRange(hole.end, whole.end))


ROOT = EtcdRole("root", "etcd's administrator: users, snapshots, compaction; etcd defines what it may do")
ADMIN = EtcdRole(
    "admin", "people: `apply`, `delete`, `fleet`, `config`, `placement` and all other commands", TREES, TREES
)


OPTION = b"--data-dir="
LISTENS = "0A"
"""Of a socket, in /proc/net/tcp."""


class NotFoundHere(Exception):
    """There is no password for an endpoint; the text says where it was looked for."""


def folder_of(data: Path) -> Path:
    """Where the passwords of the users of an etcd are. `data`: its data folder."""
    return data.with_name(f"{data.name}.users")


def password(folder: Path, name: str) -> str:
    """The password of a user, made at random where there is none. Raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / name
    with suppress(FileNotFoundError):
        if known := file.read_text(encoding="utf-8").strip():
            return known
    made = secrets.token_urlsafe(32)
    beside = folder / f".{name}.{os.getpid()}"
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(made + "\n")
    beside.replace(file)
    return made


def found_here(endpoints: Iterable[str], role: EtcdRole = ADMIN) -> tuple[str, Path]:
    """The first of the endpoints on which the person's own etcd listens here, and the file with the role's password.

    Raises `NotFoundHere`.
    """
    problem = "looked for an etcd of yours on this machine's loopback: no endpoint is there"
    for endpoint in endpoints:
        parts = urlsplit(endpoint)
        if not is_loopback(parts.hostname or "") or not parts.port:
            continue
        data = _data_of_listener(parts.port)
        if data is None:
            problem = (
                f"looked for a process of yours that listens on port {parts.port} with a data folder: there is none"
            )
            continue
        file = folder_of(data) / role.name
        problem = _problem(file)
        if not problem:
            return endpoint, file
        problem = f"looked in {file.parent}: {problem}"
    raise NotFoundHere(problem)


def _problem(file: Path) -> str:
    """Why a password is not taken from a file; empty = it is. Nothing is followed: a link may lead anywhere."""
    try:
        for path, private in ((file.parent, 0o022), (file, 0o077)):
            state = path.lstat()
            if state.st_uid != os.geteuid():
                return f"{path} belongs to another user"
            if stat.S_IMODE(state.st_mode) & private:
                return f"{path} is open to other users (mode {stat.S_IMODE(state.st_mode):04o})"
        return "" if stat.S_ISREG(state.st_mode) else f"{file} is no regular file"
    except OSError as error:
        return f"{file}: {error.strerror}"


def _data_of_listener(port: int) -> Path | None:
    """The data folder of this user's process that listens on a port."""
    listeners = dict(_listeners(port))
    if set(listeners.values()) != {os.geteuid()}:
        return None
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if process.stat().st_uid != os.geteuid():
                continue
            words = (process / "cmdline").read_bytes().split(b"\0")
            data = next((word.removeprefix(OPTION) for word in words if word.startswith(OPTION)), b"")
            if data and any(os.readlink(one) in listeners for one in (process / "fd").iterdir()):
                return Path(os.fsdecode(data))
        except OSError:  # it has ended, or may not be looked at
            continue
    return None


def _listeners(port: int) -> Iterator[tuple[str, int]]:
    """Sockets that listen on a port of any address, as a process's folder `fd` shows them, and the user of each."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:  # a machine without that protocol, or no Linux
            continue
        for fields in map(str.split, lines):
            if fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield f"socket:[{fields[9]}]", int(fields[7])
