"""What each role of etcd's users may write, and what it may not: the table, and a real etcd that has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.etcd.etcd_process import EtcdProcess
from wharfinger.errors import AccessDenied, UserWanted
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_users import ADMIN, ROOT, EtcdRole, KeyRange, NotFoundHere, folder_of, found_here, password
from wharfinger.etcd.store import Compare, Delete, Get, Put
from wharfinger.placement.contracts import placement_keys
from wharfinger.programs import etcd_users
from wharfinger.programs.etcd_roles import AGENT, APPLIER, HEALTH, HUB, IMPORTER, MEMBER, PAGE, READER, ROLES, WORKER
from wharfinger.programs.etcd_users import EtcdUser
from wharfinger.settings import EtcdSettings

ONE_OF_EACH = (
    keys.pod("default", "web"),
    keys.node("n1"),
    keys.stored("services", "default", "web"),
    keys.stored("persistentvolumes", "", "v1"),
    keys.stored("configmaps", "default", "web"),
    keys.INSTALLATION,
    keys.binding("n1"),
    keys.attempt("default", "web"),
    keys.instance("common", "0", 1),
    keys.promise("default", "web"),
    keys.hold("default", "web"),
    keys.ACTIVE,
    keys.IMPORTER,
    keys.fleet("common"),
    keys.grant("common", 0, 1),
    keys.exited("common", 0, 1),
    keys.actor("common"),
    keys.host("h1"),
    keys.cordon("h1"),
    keys.config("log", "default"),
    keys.config_history("log", "default", f"{1:09d}"),
    placement_keys.member_cluster("m1"),
    placement_keys.placement("cluster/web"),
    placement_keys.update_run("", "run"),
    placement_keys.decision("cluster/web"),
    placement_keys.work("cluster/web", "m1"),
    placement_keys.result("cluster/web", "m1"),
    placement_keys.contents("cluster/web", "abc"),
    placement_keys.run_approval("cluster/web", "run", 1, "canary.before"),
    placement_keys.member("m1"),
    placement_keys.drain("m1"),
    placement_keys.hub("h1"),
    placement_keys.HUB_ID,
    placement_keys.PLACED_MEMBER,
    placement_keys.applied("cluster/web"),
    "/elsewhere",
)
"""A key of each kind that matters, and one that is not wharfinger's."""
MAY_WRITE = {
    ADMIN: set(ONE_OF_EACH) - {"/elsewhere"},
    READER: set(),
    PAGE: {
        keys.fleet("common"),
        placement_keys.update_run("", "run"),
        placement_keys.run_approval("cluster/web", "run", 1, "canary.before"),
    },
    WORKER: {
        keys.pod("default", "web"),
        keys.stored("persistentvolumes", "", "v1"),
        keys.INSTALLATION,
        keys.binding("n1"),
        keys.attempt("default", "web"),
        keys.instance("common", "0", 1),
        keys.hold("default", "web"),
    },
    IMPORTER: {
        keys.node("n1"),
        keys.stored("services", "default", "web"),
        keys.stored("persistentvolumes", "", "v1"),
        keys.promise("default", "web"),
        keys.ACTIVE,
        keys.IMPORTER,
    },
    AGENT: {
        keys.INSTALLATION,
        keys.instance("common", "0", 1),
        keys.fleet("common"),
        keys.grant("common", 0, 1),
        keys.exited("common", 0, 1),
        keys.actor("common"),
        keys.host("h1"),
    },
    HUB: {
        keys.INSTALLATION,
        placement_keys.member_cluster("m1"),
        placement_keys.placement("cluster/web"),
        placement_keys.update_run("", "run"),
        placement_keys.decision("cluster/web"),
        placement_keys.work("cluster/web", "m1"),
        placement_keys.result("cluster/web", "m1"),
        placement_keys.contents("cluster/web", "abc"),
        placement_keys.run_approval("cluster/web", "run", 1, "canary.before"),
        placement_keys.drain("m1"),
        placement_keys.hub("h1"),
        placement_keys.HUB_ID,
    },
    MEMBER: {placement_keys.result("cluster/web", "m1"), placement_keys.member("m1"), placement_keys.HUB_ID},
    APPLIER: {
        keys.pod("default", "web"),
        keys.node("n1"),
        keys.stored("services", "default", "web"),
        keys.stored("persistentvolumes", "", "v1"),
        keys.stored("configmaps", "default", "web"),
        placement_keys.member_cluster("m1"),
        placement_keys.placement("cluster/web"),
        placement_keys.update_run("", "run"),
        placement_keys.PLACED_MEMBER,
        placement_keys.applied("cluster/web"),
    },
    HEALTH: set(),
}
"""Written down once more, so that a change of the table is a decision."""


@pytest.mark.parametrize("role", MAY_WRITE, ids=lambda role: role.name)
def test_each_role_writes_what_its_component_writes(role: EtcdRole) -> None:
    assert {key for key in ONE_OF_EACH if role.may_write(key)} == MAY_WRITE[role]


def test_every_role_is_looked_at() -> None:
    assert {*MAY_WRITE, ROOT} == set(ROLES)


WRITTEN_BY_PEOPLE = {keys.CORDONS, keys.CONFIG, keys.CONFIG_HISTORY}
"""By `host cordon` and `config set` only."""
WHOLE = {keys.ROOT, keys.OURS, keys.ASIDE, placement_keys.HUB, placement_keys.PLACEMENT_OBJECTS, placement_keys.PLACED}


def test_each_kind_of_key_has_a_component_that_writes_it() -> None:
    """A new kind must be given to a role: its component would be refused where etcd has users."""
    kinds = {
        value
        for module in (keys, placement_keys)
        for name, value in vars(module).items()
        if name.isupper()
        and not name.startswith("_")
        and isinstance(value, str)
        and value.startswith((keys.OURS, keys.ASIDE))
    }
    components = (WORKER, IMPORTER, AGENT, HUB, MEMBER, APPLIER, PAGE)
    written = {kind for kind in kinds if any(role.may_write(kind) for role in components)}

    assert kinds - written - WHOLE == WRITTEN_BY_PEOPLE


def test_a_key_that_is_read_and_written_has_one_permission() -> None:
    role = EtcdRole("r", "", (keys.ROOT, keys.ASIDE), (keys.ROOT,), without=keys.OURS)

    assert role.permissions() == {
        KeyRange(b"/registry/", b"/registry/wharfinger.dev/"): "WRITE",
        KeyRange(b"/registry/", b"/registry0"): "READ",
        KeyRange(b"/registry/wharfinger.dev0", b"/registry0"): "WRITE",
        KeyRange(b"/wharfinger.dev/", b"/wharfinger.dev0"): "READ",
    }
    assert ADMIN.permissions()[KeyRange(b"/registry/", b"/registry0")] == "READWRITE"


class Guarded:
    """An etcd with a user of each role."""

    def __init__(self, folder: Path) -> None:
        self.process = EtcdProcess(folder / "etcd", options=["--bcrypt-cost", "4"]).start()
        self.passwords = folder / "users"

    def settings(self, name: str) -> EtcdSettings:
        return replace(self.process.settings, user=name, password_file=self.passwords / name)

    def users(self) -> list[EtcdUser]:
        return [EtcdUser(role.name, (role,), password(self.passwords, role.name)) for role in ROLES]

    async def enable(self, *, only: bool = False) -> bool:
        users = self.users()
        return await etcd_users.enable(self.settings("root"), users, only=only)

    def revision(self) -> int:
        """Of users and roles: every change adds one."""
        token = self.process.post("/v3/auth/authenticate", {"name": "root", "password": self.users()[0].password})
        return int(self.process.post("/v3/auth/status", {}, {"Authorization": token["token"]})["authRevision"])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    etcd = Guarded(tmp_path_factory.mktemp("roles"))
    try:
        yield etcd
    finally:
        etcd.process.kill()


@pytest.fixture
async def enabled(guarded: Guarded) -> Guarded:
    await guarded.enable()
    return guarded


@pytest.mark.servers
@pytest.mark.parametrize("role", MAY_WRITE, ids=lambda role: role.name)
async def test_etcd_refuses_what_a_role_may_not_write(enabled: Guarded, role: EtcdRole) -> None:
    async with EtcdStore(enabled.settings(role.name)) as store:
        for key in ONE_OF_EACH:
            if role.may_write(key):
                await store.put(key, b"{}")
                assert await store.delete(key)
                continue
            for refused in (Put(key, b"{}"), Delete(key)):
                with pytest.raises(AccessDenied, match="permission denied"):
                    await store.txn([], [refused])
            with pytest.raises(AccessDenied, match="permission denied"):  # in the branch that would not run
                await store.txn([Compare(keys.INSTALLATION, "create", 0)], [Get(keys.INSTALLATION)], [Put(key, b"{}")])
        for tree in (keys.ROOT, keys.ASIDE):
            if tree in role.reads:
                _ = [page async for page in store.list(tree)]
                async with store.watch(tree, 0):
                    pass


@pytest.mark.servers
async def test_users_are_made_once_and_again_as_wanted(guarded: Guarded) -> None:
    await guarded.enable()
    before = guarded.revision()
    assert await guarded.enable() is False
    assert guarded.revision() == before, "nothing changed, so no token ended"

    (guarded.passwords / WORKER.name).unlink()  # lost: a new one is made, and holds
    await guarded.enable()
    await (await EtcdStore.connect(guarded.settings(WORKER.name))).close()

    assert await etcd_users.disable(guarded.settings("root")) is True
    guarded.process.post("/v3/auth/user/add", {"name": "stranger", "password": "known"})
    guarded.process.post("/v3/auth/user/grant", {"user": "stranger", "role": "root"})
    guarded.process.post("/v3/auth/user/changepw", {"name": "root", "password": "known"})
    assert await guarded.enable(only=True) is True
    for name in ("stranger", "root"):  # what any client could have made meanwhile opens nothing
        with pytest.raises(OSError, match="400"):
            guarded.process.post("/v3/auth/authenticate", {"name": name, "password": "known"})


@pytest.mark.servers
async def test_admins_password_is_found_beside_an_own_etcd_only(guarded: Guarded) -> None:
    """As a command without a user does it; `--data-dir DIR` and `--data-dir=DIR` are spelt by different programs."""
    await guarded.enable()
    url = guarded.process.url
    beside = folder_of(guarded.process.folder / "data")
    with pytest.raises(UserWanted, match=r"--etcd-password-file name them \(looked in .*data\.users: .*No such file"):
        await EtcdStore.connect(EtcdSettings(endpoints=(url,)))

    beside.mkdir(mode=0o700)
    file = beside / ADMIN.name
    file.write_text((guarded.passwords / ADMIN.name).read_text())
    for mode in (0o644, 0o640):
        file.chmod(mode)
        with pytest.raises(UserWanted, match="is open to other users"):
            await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    file.chmod(0o600)
    async with await EtcdStore.connect(EtcdSettings(endpoints=("http://127.0.0.1:1", url))) as store:
        await store.put(keys.node("found"), b"{}")

    with pytest.raises(NotFoundHere, match="no endpoint is there"):
        found_here(["http://etcd.example:2379"])
    with pytest.raises(NotFoundHere, match="port 1 with a data folder: there is none"):
        found_here(["http://127.0.0.1:1"])


def test_a_password_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "etcd.users"
    first = password(folder, "root")

    assert len(first) == 43
    assert password(folder, "root") == first
    assert ((folder / "root").stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    (folder / "root").write_text("")  # of a life that ended between two system calls
    assert password(folder, "root") not in ("", first)
