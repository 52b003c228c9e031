"""`wharfinger etcd`: roles, and users of an etcd of one's own, with the commands alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.etcd.etcd_process import EtcdProcess
from wharfinger.programs.etcd_roles import ROLES
from wharfinger.testing import node_manifest


def test_roles_are_those_of_the_table(outside: Shell) -> None:
    told = json.loads(outside("etcd", "roles", "-o", "json").out)

    assert [one["role"] for one in told] == [role.name for role in ROLES]
    assert {one["role"]: one["writes"] for one in told} == {role.name: list(role.writes) for role in ROLES}
    text = outside("etcd", "roles").out
    assert "applier: `wharfinger member`, in the etcd of a member" in text
    assert "but not   /registry/wharfinger.dev/" in text


@pytest.mark.servers
def test_users_are_made_named_and_turned_off(outside: Shell, tmp_path: Path) -> None:
    etcd = EtcdProcess(tmp_path / "etcd", options=["--bcrypt-cost", "4"]).start()
    at = ("--etcd", etcd.url)
    users = tmp_path / "users"

    def login(name: str) -> tuple[str, ...]:
        return (*at, "--etcd-user", name, "--etcd-password-file", str(users / name))

    try:
        missing = outside("etcd", "disable-users", str(users), *at)
        assert (missing.code, "with the password of etcd's user root" in missing.err) == (1, True)
        wrong = outside("etcd", "enable-users", str(users), "--user", "boss", *at)
        assert (wrong.code, "no role 'boss'; there are root, admin, reader" in wrong.err) == (2, True)

        made = outside("etcd", "enable-users", str(users), "--user", "reader", "--user", "admin", *at)
        assert made.out == f"etcd wants users now: root, admin, reader; passwords: {users}\n", made.err
        assert outside("get", "nodes", *login("reader")).code == 0
        manifest = tmp_path / "node.yaml"
        manifest.write_text(json.dumps(node_manifest("n1")))
        refused = outside("apply", "-f", str(manifest), *login("reader"))
        assert (refused.code, "permission denied" in refused.err) == (1, True), refused
        assert outside("apply", "-f", str(manifest), *login("admin")).code == 0
        denied = outside("backup", str(tmp_path / "backups"), *at)
        assert (denied.code, "wants its user root" in denied.err) == (1, True), denied

        again = outside("etcd", "enable-users", str(users), "--user", "worker", "--kubernetes", *at)
        assert again.out == f"etcd has wanted users before: root, worker; passwords: {users}\n"
        assert outside("get", "nodes", *login("reader")).code == 0, "users that are not named stay"
        assert outside("etcd", "disable-users", str(users), *at).out == "etcd wants no user any more\n"
        assert outside("etcd", "disable-users", str(users), *at).out == "etcd has not wanted users\n"
        assert outside("get", "nodes", *at).code == 0
    finally:
        etcd.kill()
