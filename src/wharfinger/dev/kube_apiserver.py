"""A Kubernetes API server as an embedded server: its command line, and whether it is ready.

It keeps its objects in an etcd: one of its own, or another one's under a prefix that is not `/registry`, where
wharfinger has its copies. No controllers and no kubelets run: a node is ready when its creator says so, and what
only a controller would do is left undone. Neighbours: `dev.kube_apiserver_files` has its users, keys and kubeconfigs,
`dev.etcd` is where it keeps its objects.
"""

from __future__ import annotations

import ssl
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from wharfinger.dev.etcd import ClientCertificate
from wharfinger.dev.kube_apiserver_files import ApiserverFiles, ApiserverUser

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
