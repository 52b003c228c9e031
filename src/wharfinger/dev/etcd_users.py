"""The users of a dev tree's etcds: made, or made as wanted again, whenever an etcd is up.

Each process of the tree logs in with the role of its kind, and a person as `admin`. Passwords lie beside etcd's data
(`etcd.etcd_users`). A tree that is open to other tools has no users: a folder that had some gets them again at
its next start without that option.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.kube_apiserver import PREFIX, write_private
from wharfinger.errors import AccessDenied, ServerError
from wharfinger.etcd.etcd_users import ADMIN, ROOT, EtcdRole, password
from wharfinger.programs import etcd_users
from wharfinger.programs.etcd_roles import AGENT, APPLIER, HUB, IMPORTER, MEMBER, PAGE, READER, WORKER
from wharfinger.programs.etcd_users import EtcdUser
from wharfinger.serving.certificates import self_signed
from wharfinger.settings import EtcdSettings

KUBE_APISERVER = EtcdRole("kube-apiserver", "the API server of `dev --kubernetes`", (f"{PREFIX}/",), (f"{PREFIX}/",))
"""It has a client certificate: an API server knows no password of etcd's."""
OF_EVERY_ETCD = (ROOT, ADMIN, READER, PAGE, AGENT, HUB, MEMBER, APPLIER)
WARNING = (
    "etcd is open (--etcd-open): any web page that a browser on this machine shows can write to it, and so start or "
    "delete anything in this cluster"
)


def prepare_certificate(server: EtcdServer) -> None:
    """Write the certificate that the API server shows to etcd, and etcd to it; to be called before etcd's first start.

    It is made anew at each start of a tree, so no authority has to be kept.
    """
    server.passwords.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = self_signed(KUBE_APISERVER.name, ["127.0.0.1"], datetime.now(UTC), also_client=True)
    for path, content in zip(server.certificate, pem, strict=True):
        write_private(path, content.decode())


async def prepare(server: EtcdServer) -> None:
    """Make the users of an etcd that is up, or turn authentication off where it is not to be guarded.

    Raises `ServerError` where its users have other passwords, and `Unavailable`.
    """
    try:
        if server.guarded:
            await etcd_users.enable(_as_root(server), _users(server), only=True)
        elif (server.passwords / ROOT.name).exists():
            await etcd_users.disable(_as_root(server))
    except AccessDenied as error:
        raise ServerError(
            f"etcd in {server.data} has users whose passwords are not in {server.passwords}: {error}"
        ) from error


def _as_root(server: EtcdServer) -> EtcdSettings:
    password(server.passwords, ROOT.name)
    return replace(server, guarded=True).settings(ROOT)


def _users(server: EtcdServer) -> list[EtcdUser]:
    users = [EtcdUser(role.name, (role,), password(server.passwords, role.name)) for role in OF_EVERY_ETCD]
    of_worker = (WORKER, IMPORTER) if server.tls_port else (WORKER,)
    users.append(EtcdUser(WORKER.name, of_worker, password(server.passwords, WORKER.name)))
    if server.tls_port:
        users.append(EtcdUser(KUBE_APISERVER.name, (KUBE_APISERVER,)))
    return users
