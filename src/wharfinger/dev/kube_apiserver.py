"""A Kubernetes API server as an embedded server: its command line, and whether it is ready.

It keeps its objects in an etcd: one of its own, or another one's under a prefix that is not `/registry`, where
wharfinger has its copies. No controllers and no kubelets run: a node is ready when its creator says so, and what
only a controller would do is left undone. Its files, all readable by their owner only::

    <folder>/tokens.csv       a random token for each user; made once, so that kubeconfigs hold over restarts
             apiserver.crt    the server's certificate, then the authority that signed it; the server makes both
             apiserver.key    of the certificate; it also signs the tokens of service accounts
             kubeconfig       the admin's
"""

from __future__ import annotations

import csv
import io
import os
import secrets
import ssl
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import yaml

from wharfinger.dev.etcd import ClientCertificate

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


HOST = "127.0.0.1"
"""It listens on loopback only."""
PREFIX = "/kubernetes"
"""Of its keys in etcd; the usual `/registry` belongs to wharfinger."""
STOP_WITHIN = 5.0
"""Seconds from SIGTERM until its watches and requests have ended; one is usual."""
ADMISSION_OFF = (
    "ServiceAccount",  # no controller makes the account `default` that each pod would need
    "StorageObjectInUseProtection",  # no controller takes the finalizer off, so no claim could be deleted
    "TaintNodesByCondition",  # no kubelet and no controller takes the taint not-ready off a new node
)
"""Admission plugins that wait for components which do not run."""


@dataclass(frozen=True, slots=True)
class KubeApiserver:
    """One API server. Each request needs a token or a client certificate; RBAC decides what it may do."""

    executable: Path
    files: ApiserverFiles
    etcd: str
    """URL of its etcd."""
    port: int
    """Where clients connect, by TLS."""
    etcd_certificate: ClientCertificate | None = None
    """What it shows to etcd, and etcd to it; None = etcd speaks plain and wants no user."""
    etcd_prefix: str = PREFIX
    """Of its keys. Servers on one etcd with one prefix serve one cluster."""
    users: tuple[ApiserverUser, ...] = ()
    """Beside the admin."""
    options: tuple[str, ...] = ()
    """More of its command line, such as `--runtime-config=...`; of two that are the same, these count."""

    @property
    def url(self) -> str:
        """Where clients on this machine find it."""
        return f"https://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Write its files and the admin's kubeconfig; to be called before each start."""
        self.files.prepare(self.users)
        self.files.write_kubeconfig(self.url)

    def command(self) -> list[str]:
        """The command line. Secrets are in files only."""
        options: dict[str, object] = {
            "etcd-servers": self.etcd,
            "etcd-prefix": self.etcd_prefix,
            # It would compact all of etcd, wharfinger's history with it; our etcd does so by itself.
            "etcd-compaction-interval": "0s",
            "bind-address": HOST,
            "advertise-address": HOST,  # else it looks for a network, and ends where there is none
            "secure-port": self.port,
            "endpoint-reconciler-type": "none",  # endpoints must not be loopback addresses
            "cert-dir": self.files.folder,
            "token-auth-file": self.files.tokens,
            "anonymous-auth": "false",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            # It makes its certificate before it reads this key.
            "service-account-key-file": self.files.key,
            "service-account-signing-key-file": self.files.key,
            "service-cluster-ip-range": "10.96.0.0/16",
            "allow-privileged": "true",  # as installers of clusters do; nothing runs here
            "disable-admission-plugins": ",".join(ADMISSION_OFF),
            "profiling": "false",
            # Else a watch by HTTP/1.1 holds up its end for ten seconds.
            "shutdown-watch-termination-grace-period": "1s",
        }
        if self.etcd_certificate is not None:
            cert, key = self.etcd_certificate
            options |= {"etcd-cafile": cert, "etcd-certfile": cert, "etcd-keyfile": key}
        return [str(self.executable), *(f"--{name}={value}" for name, value in options.items()), *self.options]

    def is_up(self) -> bool:
        """Whether it is ready and has made its namespaces; asks with a deadline of a second each."""
        # `default` is the last one that it makes, some time after it is ready.
        return self._answers("/readyz") and self._answers("/api/v1/namespaces/default")

    def _answers(self, path: str) -> bool:
        try:
            context = ssl.create_default_context(cafile=self.files.certificate)
            request = urllib.request.Request(  # noqa: S310 - the scheme is ours
                self.url + path, headers={"Authorization": f"Bearer {self.files.token()}"}
            )
            # A proxy of the environment is for others: it could not find our loopback address.
            direct = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with direct.open(request, timeout=1.0) as response:
                return bool(response.status == 200)
        except (OSError, HTTPException):  # also: it has not made its certificate yet
            return False
