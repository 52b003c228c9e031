"""Access to the cluster that this process runs in as a pod: its service account.

The kubelet mounts a folder with a token, which it renews, and the authority of the API server. `kubeconfig.py` comes
here where no kubeconfig is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wharfinger.apiserver.access import Access, ApiIdentity
from wharfinger.apiserver.certificates import check_authorities
from wharfinger.apiserver.credentials import CredentialClocks, HeldIdentity, RenewedCredentials
from wharfinger.apiserver.file_credentials import REREAD, FileSource, read_token
from wharfinger.apiserver.files import read_small
from wharfinger.apiserver.urls import checked_server
from wharfinger.errors import ConfigurationError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_in_cluster(environment: Mapping[str, str]) -> bool:
    """Whether this process is a container of a pod, as its environment shows."""
    return bool(environment.get(HOST) and environment.get(PORT))


def in_cluster_access(environment: Mapping[str, str], *, master: str, folder: Path, clocks: CredentialClocks) -> Access:
    """Access with the pod's service account. `master`: another URL of the server; empty = the environment's.

    Blocks. Raises `ConfigurationError`.
    """
    host, port = environment[HOST], environment[PORT]
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    source = _ServiceAccount(folder)
    return Access(
        server=checked_server(master or server, "--master" if master else f"{HOST} and {PORT}"),
        credentials=RenewedCredentials(
            FileSource(f"service account {folder}", source.read), clocks, first=source.read()
        ),
        ca=source.authorities(),
        namespace=source.namespace(),
    )


class _ServiceAccount:
    """The files of a service account."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> HeldIdentity:
        try:
            token = read_token(self._folder / "token")
        except ConfigurationError as error:
            advice = "let the pod have automountServiceAccountToken: true, or name a kubeconfig"
            raise ConfigurationError(f"service account, token: {error}; {advice}") from error
        return HeldIdentity(ApiIdentity(token=token), reread_after=REREAD)

    def authorities(self) -> bytes:
        path = self._folder / "ca.crt"
        try:
            authorities = read_small(path)
        except ConfigurationError as error:
            advice = "mount the ConfigMap kube-root-ca.crt there, or name a kubeconfig"
            raise ConfigurationError(f"service account, ca.crt: {error}; {advice}") from error
        try:
            check_authorities(authorities)
        except ConfigurationError as error:
            raise ConfigurationError(f"service account, ca.crt: file {path} {error}") from error
        return authorities

    def namespace(self) -> str:
        try:
            return read_small(self._folder / "namespace").decode(errors="replace").strip()
        except ConfigurationError:
            return ""  # nothing but a default hangs on it
