"""etcd as an embedded server: its command line, whether it is up, and how a process logs in.

Neighbour: `dev.etcd_users` makes the users.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wharfinger.dev import asking
from wharfinger.etcd.etcd_users import ADMIN, EtcdRole, folder_of
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.process.children.ports import free_port
from wharfinger.settings import EtcdSettings

MAX_TXN_OPS = 1024
"""Operations in each list of a transaction; etcd's default of 128 is 42 pods a cohort."""
PROGRESS_INTERVAL = "5s"
"""So that an idle watch can be told from a dead one."""
HISTORY = "24h"
"""How long old revisions are kept: explanations can be recomputed that far back."""
QUOTA_BYTES = 8 * 1024**3
"""Upper end of what etcd recommends; at the quota it refuses writes."""
NO_ORIGIN = "https://no-origin.invalid:443"
"""Whose pages may read etcd's answers: none can have this origin. etcd allows every origin where none is named."""
ALL = "0.0.0.0"  # noqa: S104 - compared with, not listened on
LOOPBACK_HOSTS = ("127.0.0.1", "localhost")
"""By which clients on this machine name it."""


LEAST_BCRYPT_COST = 4
"""Logarithm of the work for a login: passwords of 256 random bits are not guessed, whatever a guess costs."""


class ClientCertificate(NamedTuple):
    """PEM files."""

    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class EtcdServer:
    """One member, a cluster of its own."""

    executable: Path
    data: Path
    """Data folder; made when absent."""
    port: int
    """Where clients connect."""
    peer_port: int = 0
    """Needed by etcd though no peer connects; 0 = any free one. Always on loopback."""
    host: str = "127.0.0.1"
    """Address that clients may come in on."""
    fsync: bool = True
    """False loses data when the machine stops; for tests."""
    guarded: bool = False
    """Whether it is to want users (`dev.etcd_users`)."""
    tls_port: int = 0
    """Where clients connect with a certificate that names their user, on loopback; 0 = nowhere."""

    @property
    def url(self) -> str:
        """Where clients on this machine find it."""
        return f"http://{asking.found_at(self.host)}:{self.port}"

    @property
    def passwords(self) -> Path:
        """The folder with the passwords of its users."""
        return folder_of(self.data)

    @property
    def certificate(self) -> ClientCertificate:
        """That of the only user without a password. The server shows it, too: it belongs to the same person."""
        return ClientCertificate(self.passwords / "kube-apiserver.crt", self.passwords / "kube-apiserver.key")

    @property
    def tls_url(self) -> str:
        """Where clients connect with the certificate."""
        return f"https://{LOOPBACK_HOSTS[0]}:{self.tls_port}"

    def settings(self, role: EtcdRole = ADMIN) -> EtcdSettings:
        """The connection of a component that has this role; without, of a person who may do everything."""
        logs_in: dict[str, Any] = (
            {
                "user": role.name,
                "password_file": self.passwords / role.name,
                "allow_insecure": self._is_this_machine_elsewhere,
            }
            if self.guarded
            else {}
        )
        return EtcdSettings(endpoints=(self.url,), max_txn_ops=MAX_TXN_OPS, **logs_in)

    def login(self, role: EtcdRole, prefix: str = "") -> list[str]:
        """The options by which a process logs in; `prefix` stands before their names."""
        if not self.guarded:
            return []
        file = self.passwords / role.name
        plain = ["--allow-insecure-etcd"] if self._is_this_machine_elsewhere and not prefix else []
        return [f"--{prefix}etcd-user={role.name}", f"--{prefix}etcd-password-file={file}", *plain]

    @property
    def _is_this_machine_elsewhere(self) -> bool:
        """Whether it is reached by an address that is not loopback: what is sent there stays on this machine."""
        return not is_loopback(asking.found_at(self.host))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names by which HTTP requests may address it, so that a web page cannot reach it under a name of its own.

        On all addresses it is reached under names that cannot be known here: every one.
        """
        return ("*",) if self.host == ALL else tuple(dict.fromkeys((*LOOPBACK_HOSTS, self.host)))

    def command(self) -> list[str]:
        """The command line. The peer's address is no part of the data: it may differ from start to start."""
        peer = f"http://127.0.0.1:{self.peer_port or free_port()}"
        options: dict[str, object] = {
            "name": "wharfinger",
            "data-dir": str(self.data),
            "listen-client-urls": f"http://{self.host}:{self.port}",
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"wharfinger={peer}",
            "max-txn-ops": MAX_TXN_OPS,
            "watch-progress-notify-interval": PROGRESS_INTERVAL,
            "auto-compaction-mode": "periodic",
            "auto-compaction-retention": HISTORY,
            "quota-backend-bytes": QUOTA_BYTES,
            "log-level": "warn",
            "cors": NO_ORIGIN,
            "host-whitelist": ",".join(self.hosts),
            "unsafe-no-fsync": str(not self.fsync).lower(),
        }
        if self.guarded:
            options["bcrypt-cost"] = LEAST_BCRYPT_COST
        if self.tls_port:
            cert, key = self.certificate
            options["listen-client-urls"] = f"{options['listen-client-urls']},{self.tls_url}"
            options |= {"cert-file": cert, "key-file": key, "trusted-ca-file": cert, "client-cert-auth": "true"}
        return [str(self.executable), *(f"--{name}={value}" for name, value in options.items())]

    def is_up(self) -> bool:
        """Whether it serves requests now; asks with a deadline of a second."""
        try:
            said = json.loads(asking.answer(f"{self.url}/health", within=1.0) or b"null")
        except ValueError:
            return False
        return isinstance(said, dict) and said.get("health") == "true"
