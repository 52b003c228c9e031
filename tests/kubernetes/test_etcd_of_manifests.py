"""The etcd that is printed, on real servers: it moves to TLS member by member, and then serves no stranger."""

from __future__ import annotations

import base64
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.etcd.etcd_process import program
from tests.faults.site import Process
from tests.integration.dev_tree import wait_until
from wharfinger.errors import AccessDenied
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.kubernetes.cli.certificates import secrets_of
from wharfinger.kubernetes.cli.install_choices import InstallChoices
from wharfinger.kubernetes.cli.manifests import objects_of
from wharfinger.settings import EtcdSettings

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


class Members:
    """Three members with the printed command lines, but for addresses and folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for secret in secrets_of(folder / "authority", "wharfinger", datetime.now(UTC), timedelta(days=1)):
            own = folder / secret["metadata"]["name"]
            own.mkdir()
            for name, text in secret["data"].items():
                (own / name).write_bytes(base64.b64decode(text))
        self.ports = {number: (free_port(), free_port(), free_port()) for number in range(3)}
        self.running: dict[int, Process] = {}

    def command(self, number: int, *, insecure: bool) -> list[str]:
        """The command line of one pod."""
        objects = objects_of(InstallChoices(insecure=insecure))
        (members,) = (one for one in objects if one["kind"] == "StatefulSet" and "etcd" in one["metadata"]["name"])
        text = "\n".join(members["spec"]["template"]["spec"]["containers"][0]["command"][1:])
        text = text.replace("$(POD_NAME)", f"wharfinger-etcd-{number}").replace("0.0.0.0", f"wharfinger-etcd-{number}")
        text = text.replace("/etc/etcd/tls", str(self.folder / "wharfinger-etcd-tls"))
        text = text.replace("/var/lib/etcd", str(self.folder / f"data-{number}"))
        for each, ports in self.ports.items():
            text = text.replace(f"//wharfinger-etcd-{each}.wharfinger-etcd.wharfinger.svc", f"//wharfinger-etcd-{each}")
            for printed, port in zip((2379, 2380, 2381), ports, strict=True):
                text = text.replace(f"//wharfinger-etcd-{each}:{printed}", f"//127.0.0.1:{port}")
        return [program(), *text.split("\n"), "--unsafe-no-fsync"]

    def start(self, number: int, *, insecure: bool) -> None:
        """Start the member again, as an update of the StatefulSet does."""
        if number in self.running:
            self.running[number].kill()
        log = self.folder / f"{number}.log"
        command = self.command(number, insecure=insecure)
        self.running[number] = Process(str(number), lambda: command, log, lambda: self.is_ready(number))
        self.running[number].start()

    def is_ready(self, number: int) -> bool:
        """What the probes ask."""
        try:
            address = f"http://127.0.0.1:{self.ports[number][2]}/readyz"
            return bool(urllib.request.urlopen(address, timeout=5).status == 200)
        except OSError:
            return False

    def wait_ready(self, number: int) -> None:
        wait_until(lambda: self.is_ready(number), 60, f"member {number} is ready; {self.running[number].log}")

    def ctl(self, number: int, *words: str, insecure: bool) -> str:
        """What etcdctl answers in the pod of a member."""
        tls = self.folder / "wharfinger-etcd-tls"
        options = [f"--cacert={tls}/ca.crt", f"--cert={tls}/tls.crt", f"--key={tls}/tls.key"]
        url = f"{'http' if insecure else 'https'}://127.0.0.1"
        ports = [self.ports[number][0]] if words[0] != "move-leader" else [ports[0] for ports in self.ports.values()]
        endpoints = ",".join(f"{url}:{port}" for port in ports)
        command = [
            str(Path(program()).with_name("etcdctl")),
            f"--endpoints={endpoints}",
            *([] if insecure else options),
            *words,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def id_of(self, number: int, through: int, *, insecure: bool) -> str:
        listed = self.ctl(through, "member", "list", insecure=insecure)
        (found,) = (line.split(", ")[0] for line in listed.splitlines() if f"wharfinger-etcd-{number}," in line)
        return found

    def make_secure(self, number: int, through: int, *, insecure: bool) -> None:
        """Let the others call a member by TLS."""
        peer = f"--peer-urls=https://127.0.0.1:{self.ports[number][1]}"
        member = self.id_of(number, through, insecure=insecure)
        self.ctl(through, "member", "update", member, peer, insecure=insecure)

    def settings(self, secret: str = "") -> EtcdSettings:
        files = {"ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"} if secret else {"ca": "ca.crt"}
        folder = self.folder / (secret or "wharfinger-client-tls")
        endpoints = tuple(f"https://127.0.0.1:{ports[0]}" for ports in self.ports.values())
        return EtcdSettings(endpoints=endpoints, **{name: folder / file for name, file in files.items()})


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    found = Members(tmp_path)
    yield found
    for process in found.running.values():
        process.kill()


async def test_installation_without_tls_moves_to_tls_and_keeps_its_data(members: Members) -> None:
    """The steps are those of docs/kubernetes.md; a StatefulSet updates the highest number first, and waits for it."""
    for number in (0, 1, 2):
        members.start(number, insecure=True)
    members.wait_ready(0)
    members.ctl(0, "put", "/kept", "value", insecure=True)

    # While some have TLS and some have not, only member 0 hears all others: it calls none of them that has, and all it.
    members.ctl(0, "move-leader", members.id_of(0, 0, insecure=True), insecure=True)
    for number in (1, 2):
        members.make_secure(number, through=0, insecure=True)
    for number in (2, 1, 0):
        members.start(number, insecure=False)
        members.wait_ready(number)
    members.make_secure(0, through=1, insecure=False)

    for number in (1, 2):
        members.running[number].kill()
        members.start(number, insecure=False)
        members.wait_ready(number)
    store = EtcdStore(members.settings("wharfinger-client-tls"))
    read = await store.get("/kept")
    await store.close()
    assert read.kv is not None
    assert read.kv.value == b"value"


async def test_etcd_with_tls_serves_only_those_with_a_certificate(members: Members) -> None:
    for number in (0, 1, 2):
        members.start(number, insecure=False)
    members.wait_ready(0)
    known = EtcdStore(members.settings("wharfinger-client-tls"))
    await known.put("/registry/a", b"1")
    await known.close()

    stranger = EtcdStore(members.settings())
    with pytest.raises(AccessDenied):
        await stranger.get("/registry/a")
    await stranger.close()
