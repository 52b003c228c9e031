"""Users of etcd in the compose files: what the files run makes them, and what is started logs in."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.etcd.etcd_process import EtcdProcess
from tests.packaging.test_compose import FILES, ROOT, read
from tests.patience import patient
from wharfinger.dev import binaries
from wharfinger.errors import AccessDenied
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_tls import endpoints
from wharfinger.programs.etcd_users import is_enabled
from wharfinger.settings import EtcdSettings


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read(name)["services"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_only_what_makes_users_has_the_passwords_of_others(name: str) -> None:
    found = services(name)
    holders = {
        service: {str(one["source"] if isinstance(one, dict) else one) for one in what.get("secrets", ())}
        | {str(one).partition(":")[0] for one in what.get("volumes", ())}
        for service, what in found.items()
    }
    with_all = {service for service, names in holders.items() if names & {"etcd-users", "etcd-root", "etcd-admin"}}

    assert with_all - {"backup"} == {"etcd-users"}  # etcd lets root alone save it
    assert holders.get("backup", set()) <= {"etcd-root", "backups"}
    assert "etcd-worker" in holders["worker"]
    assert found["worker"]["environment"]["WHARFINGER_ETCD_USER"] == "worker"
    assert found["worker"]["depends_on"]["etcd-users"] == {"condition": "service_completed_successfully"}
    assert "--user=health" in found["etcd"]["healthcheck"]["test"]


@pytest.mark.parametrize("name", FILES)
def test_services_that_name_a_user_may_send_its_password(name: str) -> None:
    """etcd speaks plain inside the project's network, which each process has to accept."""
    logs_in = [what["environment"] for what in services(name).values() if "WHARFINGER_ETCD_USER" in str(what)]

    assert logs_in
    for env in logs_in:
        accepted = env.get("WHARFINGER_ALLOW_INSECURE_ETCD") == "true"
        endpoints(
            EtcdSettings((env["WHARFINGER_ETCD"],), user=env["WHARFINGER_ETCD_USER"], allow_insecure=accepted),
        )


@pytest.mark.parametrize("name", FILES)
def test_volumes_that_the_image_writes_to_belong_to_its_user(name: str) -> None:
    """A new volume gets its owner from the folder in the image; without one it belongs to root."""
    made = re.search(r"install -d -m 700 -o 10001 (.*)", (ROOT / "Dockerfile").read_text())
    ours = [what for what in services(name).values() if what.get("image") == "wharfinger"]
    written = {
        mount.split(":")[1]
        for what in ours
        for mount in what.get("volumes", ())
        if not mount.startswith(".") and not mount.endswith(":ro")
    }

    assert made is not None
    assert written
    assert written <= set(made[1].split())


class Project:
    """What a compose file runs, as processes here: containers' paths lie below a folder."""

    def __init__(self, name: str, folder: Path, etcd: EtcdProcess) -> None:
        self.folder = folder
        self.etcd = etcd
        self.service = services(name)["etcd-users"]

    def secrets(self) -> None:
        """As the head of the file for production writes them."""
        for one in self.service.get("secrets", ()):
            file = self.inside(one["target"])
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(os.urandom(24).hex() + "\n")

    def inside(self, path: str) -> Path:
        return self.folder / path.lstrip("/")

    def run(self, env: dict[str, str]) -> None:
        """Its command, or the script that its entry point names."""
        said = {name: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value) for name, value in self.service["environment"].items()}
        placed = {name: str(self.inside(value)) if value.startswith("/") else value for name, value in said.items()}
        env = {**os.environ, **placed, "WHARFINGER_ETCD": self.etcd.url, **env}
        if self.service["command"]:
            words = [str(self.inside(one)) if one.startswith("/") else one for one in self.service["command"]]
            done: subprocess.CompletedProcess[str] = forked.run(*words, env=env, timeout=patient(60))
        else:
            for folder in ("/etcd-users", "/etcd-worker"):  # made by the image
                self.inside(folder).mkdir(exist_ok=True)
            script = ROOT / self.service["entrypoint"][1].replace("/deploy/", "deploy/etcd/")
            done = subprocess.run(["/bin/sh", str(script)], env=env, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def settings(self, user: str, file: str) -> EtcdSettings:
        return EtcdSettings(endpoints=(self.etcd.url,), user=user, password_file=self.inside(file))


@pytest.mark.servers
@pytest.mark.parametrize(
    ("name", "of_worker", "of_admin", "of_health"),
    [
        ("docker-compose.yml", "/etcd-worker/worker", "/etcd-users/admin", "/etcd-users/health"),
        ("docker-compose.production.yml", *(f"/run/secrets/etcd/{one}" for one in ("worker", "admin", "health"))),
    ],
)
async def test_what_the_file_runs_gives_etcd_users(
    name: str, of_worker: str, of_admin: str, of_health: str, tmp_path: Path
) -> None:
    etcd = EtcdProcess(tmp_path / "etcd", options=["--bcrypt-cost", "4"]).start()
    try:
        project = Project(name, tmp_path, etcd)
        project.secrets()
        path = f"{Path(forked.COMMAND[0]).parent}:{os.environ['PATH']}"
        for _ in range(2):  # at every start
            project.run({"PATH": path})

        assert await is_enabled(etcd.settings)
        async with await EtcdStore.connect(project.settings("worker", of_worker)) as store:
            await store.put(keys.pod("default", "web"), b"{}")
            with pytest.raises(AccessDenied):
                await store.put(keys.node("n1"), b"{}")
        async with await EtcdStore.connect(project.settings("admin", of_admin)) as store:
            await store.put(keys.node("n1"), b"{}")
        etcdctl = binaries.at_hand(binaries.ETCDCTL)
        if etcdctl is not None:
            words = [str(etcdctl), *services(name)["etcd"]["healthcheck"]["test"][2:]]
            password = project.inside(of_health).read_text().strip()
            login = {"ETCDCTL_ENDPOINTS": etcd.url, "ETCDCTL_PASSWORD": password}
            for env, code in ((login, 0), ({**login, "ETCDCTL_PASSWORD": "another"}, 1)):
                assert subprocess.run(words, check=False, env=env, capture_output=True).returncode == code
    finally:
        etcd.kill()
