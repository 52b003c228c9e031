"""Where the API server is and who we are there: from a kubeconfig, from `$KUBECONFIG`, or from the pod we run in.

Files are parsed in `kubeconfig_entries.py`, and users become credentials in `kubeconfig_users.py`. In a pod, the
kubelet mounts a folder with the service account's token, which it renews, and the authority of the API server. Where
client-go and its documentation leave a choice, the safer one is taken: what turns off a check, or sends a secret in the
open, needs `--allow-insecure-upstream`. Errors never repeat a URL, which may have a password in it.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from wharfinger.apiserver.credential_files import REREAD, FileSource, quoted, read_small, read_token, shown_path
from wharfinger.apiserver.credentials import Access, ApiClocks, ApiIdentity, HeldIdentity, RenewedCredentials
from wharfinger.apiserver.exec_plugin import GROUP, RunPlugin, run_plugin
from wharfinger.apiserver.kubeconfig_entries import Kubeconfig, KubeconfigEntry, read_files
from wharfinger.apiserver.kubeconfig_users import credentials_of, has_credentials
from wharfinger.apiserver.tls import check_authorities
from wharfinger.errors import ConfigurationError
from wharfinger.objects.model.addresses import is_loopback

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
VARIABLE = "KUBECONFIG"
ALLOW = "--allow-insecure-upstream"
IN_THE_CLEAR = "credentials would be sent over plain http"


def checked_server(url: str, where: str) -> str:
    """The URL of an API server, without a slash at its end. `where`: the option or field it comes from.

    Raises `ConfigurationError`.
    """
    parts = _split(url, where, "https://HOST:PORT")
    if "@" in parts.netloc:
        raise ConfigurationError(f"{where}: has a user in the URL; use the fields username and password")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def checked_proxy(url: str, where: str) -> str:
    """The URL of a proxy, which may have user and password. Raises `ConfigurationError`."""
    if url.lower().startswith("socks"):
        raise ConfigurationError(f"{where}: SOCKS proxies are not supported; use an HTTP proxy (http:// or https://)")
    return urlunsplit(_split(url, where, "http://HOST:PORT"))


def is_plain_and_remote(server: str) -> bool:
    """Whether what is sent to a checked server can be read on the way: http to another machine."""
    parts = urlsplit(server)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def _split(url: str, where: str, example: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ConfigurationError(f"{where}: must be a URL with a host and a numeric port, like {example}") from None
    if parts.scheme not in {"http", "https"} or not named or any(char.isspace() for char in url):
        raise ConfigurationError(f"{where}: must be a URL of http or https, like {example}")
    return parts


def is_in_cluster(environment: Mapping[str, str]) -> bool:
    """Whether this process is a container of a pod, as its environment shows."""
    return bool(environment.get(HOST) and environment.get(PORT))


def in_cluster_access(environment: Mapping[str, str], *, master: str, folder: Path, clocks: ApiClocks) -> Access:
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


@dataclass(frozen=True, slots=True)
class KubeconfigSurroundings:
    """What a kubeconfig is read in: replaced in tests."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    service_account: Path = SERVICE_ACCOUNT
    clocks: ApiClocks = field(default_factory=ApiClocks)
    run: RunPlugin = run_plugin


def read_access(
    path: Path | str | None = None,
    *,
    context: str = "",
    master: str = "",
    allow_insecure: bool = False,
    surroundings: KubeconfigSurroundings | None = None,
) -> Access:
    """Read the kubeconfig at `path`, else those in `$KUBECONFIG`, else the service account of the pod we run in.

    `context`: empty = the current one. `master`: URL that replaces the server's; alone, it is used anonymously. Blocks
    for some milliseconds; no plugin is run. Raises `ConfigurationError`.
    """
    within = surroundings or KubeconfigSurroundings()
    if files := _files(path, within.environment):
        return _Reader(read_files(files), context, master, allow_insecure, within).access()
    if context:
        raise ConfigurationError(
            f"context {quoted(context)} needs a kubeconfig; name one by --kubeconfig or {VARIABLE}"
        )
    if is_in_cluster(within.environment):
        access = in_cluster_access(
            within.environment, master=master, folder=within.service_account, clocks=within.clocks
        )
        _refuse_plain(access.server, "--master", allow_insecure)
        return access
    if not master:
        raise ConfigurationError(f"no Kubernetes API server is named; use --kubeconfig or {VARIABLE}")
    return _Reader(read_files(()), "", master, allow_insecure, within).access()


def _files(path: Path | str | None, environment: Mapping[str, str]) -> list[Path]:
    """The kubeconfigs to be read. Of several in the variable, those that do not exist are left out, as in client-go."""
    if path:
        return [Path(path)]
    named = list(dict.fromkeys(Path(name) for name in environment.get(VARIABLE, "").split(os.pathsep) if name))
    present = [file for file in named if not _is_missing(file)]
    if named and not present:
        names = ", ".join(map(shown_path, named))
        raise ConfigurationError(f"none of the kubeconfigs in {VARIABLE} exists: {names}; correct or unset it")
    return present


def _is_missing(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # reading it says what is wrong
    return False


def _refuse_plain(server: str, where: str, allow_insecure: bool) -> None:
    if is_plain_and_remote(server) and not allow_insecure:
        raise ConfigurationError(f"{where}: {IN_THE_CLEAR}; use https, or accept that by {ALLOW}")


@dataclass(frozen=True, slots=True)
class _Reader:
    """One context of a kubeconfig as access."""

    config: Kubeconfig
    context: str
    master: str
    allow_insecure: bool
    within: KubeconfigSurroundings

    def access(self) -> Access:
        chosen = self._chosen()
        cluster = self._named(chosen, "cluster", self.config.clusters)
        user = self._named(chosen, "user", self.config.users)
        server = self._server(cluster)
        if has_credentials(user):
            where = "--master" if self.master else cluster.place("server")
            _refuse_plain(server, where, self.allow_insecure)
        verify = self._verify(cluster)
        ca = self._authorities(cluster)
        proxy = cluster.text("proxy-url")
        proxy = checked_proxy(proxy, cluster.place("proxy-url")) if proxy else ""
        self._check_proxy(proxy, server, user, cluster)
        # As in client-go, the name in the file belongs to the server in the file.
        name = "" if self.master else cluster.text("tls-server-name")
        for_plugin = _for_plugin(cluster, server, ca=ca, verify=verify, proxy=proxy, name=name)
        within = self.within
        return Access(
            server=server,
            credentials=credentials_of(user, for_plugin, within.environment, within.run, within.clocks),
            ca=ca,
            verify=verify,
            tls_server_name=name,
            proxy=proxy,
            namespace=chosen.text("namespace"),
        )

    def _check_proxy(self, proxy: str, server: str, user: KubeconfigEntry, cluster: KubeconfigEntry) -> None:
        """A proxy gets its own password, and of a server that is spoken to plainly all that is sent there."""
        if not proxy or self.allow_insecure:
            return
        place = cluster.place("proxy-url")
        if "@" in urlsplit(proxy).netloc:
            _refuse_plain(proxy, place, self.allow_insecure)
        passes_through = urlsplit(server).scheme == "http" and not is_loopback(urlsplit(proxy).hostname or "")
        if has_credentials(user) and passes_through:
            raise ConfigurationError(f"{place}: {IN_THE_CLEAR}; use https, or accept that by {ALLOW}")

    def _chosen(self) -> KubeconfigEntry:
        """The entry of the context; an empty one where there is no kubeconfig at all."""
        if not self.config.files:
            return KubeconfigEntry(Path(), "no kubeconfig", {})
        name = self.context or self.config.current_context
        source, known = f"kubeconfig {self.config.source}", _names(self.config.contexts)
        if not name:
            raise ConfigurationError(f"{source}: has no current-context; set it, or choose a context ({known})")
        if name not in self.config.contexts:
            raise ConfigurationError(f"{source}: has no context {quoted(name)}; choose one that it has ({known})")
        return self.config.contexts[name]

    def _named(self, chosen: KubeconfigEntry, kind: str, entries: Mapping[str, KubeconfigEntry]) -> KubeconfigEntry:
        """The cluster or the user of the context. Without a user, we are anonymous."""
        name = chosen.text(kind)
        if not name and (kind == "user" or self.master):
            return KubeconfigEntry(chosen.file, f"no {kind}", {})
        if not name:
            raise chosen.error(kind, f"is missing; name a {kind} ({_names(entries)})")
        if name not in entries:
            raise chosen.error(kind, f"there is no {kind} {quoted(name)}; name one that there is ({_names(entries)})")
        return entries[name]

    def _server(self, cluster: KubeconfigEntry) -> str:
        if self.master:
            return checked_server(self.master, "--master")
        if not (url := cluster.text("server")):
            raise cluster.error("server", "is missing; write the URL of the API server, like https://HOST:PORT")
        return checked_server(url, cluster.place("server"))

    def _verify(self, cluster: KubeconfigEntry) -> bool:
        field_name = "insecure-skip-tls-verify"
        if not cluster.flag(field_name):
            return True
        if not self.allow_insecure:
            reason = "the server's certificate would not be checked"
            raise cluster.error(field_name, f"{reason}; name its certificate-authority, or accept that by {ALLOW}")
        if cluster.has("certificate-authority") or cluster.has("certificate-authority-data"):
            raise cluster.error(field_name, "is there beside a certificate-authority; remove one of them")
        log.warning("upstream_not_verified effect=anyone_on_the_way_can_pose_as_it file=%s", cluster.file)
        return False

    def _authorities(self, cluster: KubeconfigEntry) -> bytes:
        at, authorities = cluster.content("certificate-authority")
        if not at:
            return b""
        path = cluster.path("certificate-authority")
        if path is not None and at != "certificate-authority":
            log.warning("kubeconfig_file_ignored field=%r used=%s", cluster.place("certificate-authority"), at)
        try:
            check_authorities(authorities)
        except ConfigurationError as error:
            named = f"file {shown_path(path)} " if path and at == "certificate-authority" else ""
            raise cluster.error(at, f"{named}{error}") from error
        return authorities


def _for_plugin(
    cluster: KubeconfigEntry, server: str, *, ca: bytes, verify: bool, proxy: str, name: str
) -> Mapping[str, Any]:
    """What a plugin with `provideClusterInfo` gets: client-go's `ExecCredential.spec.cluster`."""
    found: dict[str, Any] = {"server": server}
    if name:
        found["tls-server-name"] = name
    if not verify:
        found["insecure-skip-tls-verify"] = True
    if ca:
        found["certificate-authority-data"] = base64.b64encode(ca).decode()
    if proxy:
        found["proxy-url"] = proxy
    if cluster.flag("disable-compression"):
        found["disable-compression"] = True
    for extension in cluster.parts("extensions"):
        if extension.text("name") == f"{GROUP}/exec":
            found["config"] = extension.fields.get("extension")
    return found


def _names(entries: Mapping[str, KubeconfigEntry]) -> str:
    """Some of the names, for advice."""
    shown = ", ".join(quoted(name) for name in sorted(entries)[:5])
    return f"it has {shown}{', ...' if len(entries) > 5 else ''}" if shown else "it has none"
