"""Reads the folder of `wharfinger member --members-dir`, a file a member.

Files that others may read are refused: with their passwords and keys they are all that the agent may do, and nothing of
it lies in etcd or Temporal.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.framework.config.validation import refuse
from wharfinger.objects.documents import documents
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.placement.spec.member_files import MemberConnection, member_connection

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
    """Raises `InvalidObject` for a file that others may read."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise InvalidObject(f"{path.name} may be read by others (mode {mode:04o}): chmod 0400 {path.name}")
