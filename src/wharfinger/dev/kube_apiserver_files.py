"""The files of one Kubernetes API server: its users' tokens, its certificate, and kubeconfigs.

::

    <folder>/tokens.csv       a random token for each user; made once, so that kubeconfigs hold over restarts
             apiserver.crt    the server's certificate, then the authority that signed it; the server makes both
             apiserver.key    of the certificate; it also signs the tokens of service accounts
             kubeconfig       the admin's

All of them are readable by their owner only. Neighbour: `dev.kube_apiserver` runs the server.
"""

from __future__ import annotations

import csv
import io
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

RENEW_AFTER = 300 * 86400.0
"""Seconds. The server makes its certificate for a year, and takes it from the folder even when it has expired."""


@dataclass(frozen=True, slots=True)
class ApiserverUser:
    """A user that shows a token. The server reads its users when it starts."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = ApiserverUser("wharfinger-admin", ("system:masters",))
"""May do everything, by its group."""


@dataclass(frozen=True, slots=True)
class ApiserverFiles:
    """Paths in the folder, and what is in them."""

    folder: Path

    @property
    def tokens(self) -> Path:
        """For `--token-auth-file`."""
        return self.folder / "tokens.csv"

    @property
    def certificate(self) -> Path:
        """PEM, with its authority; absent before the first start."""
        return self.folder / "apiserver.crt"

    @property
    def key(self) -> Path:
        """PEM; absent before the first start."""
        return self.folder / "apiserver.key"

    @property
    def kubeconfig(self) -> Path:
        """The admin's."""
        return self.folder / "kubeconfig"

    def prepare(self, users: Sequence[ApiserverUser], *, clock: Callable[[], float] = time.time) -> None:
        """Make the folder and a token for each user that has none; to be called before each start.

        Removes a certificate that is soon to expire, and a half of a pair: the server refuses to start with it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        known = self._known()
        rows = [(known.get(user.name) or secrets.token_urlsafe(32), user) for user in (ADMIN, *users)]
        text = io.StringIO()
        # The fourth field has all the groups; the writer quotes it where there are several.
        csv.writer(text, lineterminator="\n").writerows(
            (token, user.name, user.name, ",".join(user.groups)) for token, user in rows
        )
        write_private(self.tokens, text.getvalue())
        pair = [path for path in (self.certificate, self.key) if path.exists()]
        if len(pair) == 1 or any(clock() - path.stat().st_mtime > RENEW_AFTER for path in pair):
            for path in pair:
                path.unlink()

    def token(self, user: str = ADMIN.name) -> str:
        """The token of a user. Raises `KeyError` for a user that was not prepared."""
        return self._known()[user]

    def write_kubeconfig(
        self, server: str, *, user: str = ADMIN.name, token: str = "", path: Path | None = None
    ) -> Path:
        """Write a kubeconfig for a user, and say where it is.

        `server` is its URL. Without a token, it is that of the prepared user; without a path, the file is the
        folder's. It names the certificate by its path, because the server has not made it before its first start.
        """
        name = "wharfinger-dev"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": server, "certificate-authority": str(self.certificate.resolve())}}
            ],
            "users": [{"name": user, "user": {"token": token or self.token(user)}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "current-context": name,
        }
        path = path or self.kubeconfig
        write_private(path, yaml.safe_dump(content, sort_keys=False))
        return path

    def _known(self) -> dict[str, str]:
        """Tokens by user."""
        if not self.tokens.exists():
            return {}
        with self.tokens.open(encoding="utf-8", newline="") as file:
            return {row[1]: row[0] for row in csv.reader(file) if len(row) > 1}


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read, from its first byte on."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    beside.replace(path)
