"""Three control-plane nodes with the printed static pods: one dies, and what was decided stays with the other two."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.conftest import free_port
from tests.etcd.etcd_process import EtcdProcess, program
from tests.faults.site import Process
from tests.integration.dev_tree import wait_until
from tests.integration.gateway import Gateway
from tests.kubernetes.objects import creating, names, node
from tests.kubernetes.site import Installation, KubernetesSite
from wharfinger.apiserver import client
from wharfinger.etcd import keys
from wharfinger.kubernetes.cli.install_choices import InstallChoices
from wharfinger.kubernetes.cli.manifests import text_of

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

NODES = {"cp1": "127.0.0.11", "cp2": "127.0.0.12", "cp3": "127.0.0.13"}


class Member:
    """The etcd of one node, by the commands and the command line that are printed for it."""

    def __init__(self, folder: Path, name: str, peer_port: int) -> None:
        self.port = free_port()
        planes = tuple(f"{each}={address}" for each, address in NODES.items())
        choices = InstallChoices(
            only="static-pods", scheduler_name="default-scheduler", control_plane=planes, node=name
        )
        printed = text_of(choices)
        own = folder / name
        for path in ("/etc/kubernetes/wharfinger/etcd", "/var/lib/etcd"):
            (own / path[1:]).mkdir(parents=True)

        def here(text: str) -> str:
            """With this machine's folders and ports instead of the node's."""
            text = text.replace("/etc/kubernetes", f"{own}/etc/kubernetes").replace(
                "/var/lib/etcd", f"{own}/var/lib/etcd"
            )
            return text.replace(":12379", f":{self.port}").replace(":12380", f":{peer_port}")

        lines = [line[4:] for line in printed.splitlines() if line.startswith("#   ")]
        certify = [line for line in lines if line.startswith(("openssl", "printf")) or "etcd/" in line.split()[-1]]
        assert len(certify) == 6, printed
        for line in certify[bool((folder / "ca.crt").exists()) :]:
            mine = here(line).replace("-o 10001 -g 10001 ", "").replace("\\nextended", ",IP:127.0.0.1\\nextended")
            subprocess.run(["sh", "-c", mine], cwd=folder, check=True, capture_output=True)
        etcd = next(yaml.safe_load_all(printed))["spec"]["containers"][0]["command"]
        command = [program(), *map(here, etcd[1:]), "--unsafe-no-fsync"]
        self.process = Process(name, lambda: command, folder / f"{name}.log", lambda: self.has_quorum)
        self.process.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def has_quorum(self) -> bool:
        try:
            return Gateway(self.url).get("/no/such/key") is None
        except OSError:
            return False


class Members(EtcdProcess):
    """One etcd of all nodes, read through any member that lives."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir()
        peer_port = free_port()
        self.all = [Member(folder, name, peer_port) for name in NODES]
        for member in self.all:
            member.process.wait_up(30)

    @property
    def url(self) -> str:
        return next(member.url for member in self.all if member.process.exit_code is None)

    def kill(self) -> None:
        for member in self.all:
            member.process.kill()


class ControlPlanes(Installation):
    """One installation on all nodes."""

    etcd: Members

    def _started_etcd(self) -> Members:
        return Members(self.folder / "etcd")


@pytest.fixture
def installation(site: KubernetesSite, tmp_path: Path) -> Iterator[ControlPlanes]:
    with closing(ControlPlanes(site, tmp_path)) as found:
        yield found


def test_waiting_pod_keeps_its_attempts_when_the_node_with_the_lease_dies(
    site: KubernetesSite, installation: ControlPlanes
) -> None:
    site.create_nodes(1, "100m")
    members = installation.etcd.all
    workers = [installation.start_worker(f"--etcd={member.url}", wait=False) for member in members]
    for worker in workers:
        worker.wait_ready()
    (name,) = names("web", 1)
    site.create_pods([name], "500m")
    attempt = keys.attempt("default", name)
    wait_until(lambda: installation.gateway.get(attempt) is not None, 60, "the pod was refused", every=0.05)
    before, holder = installation.gateway.get(attempt), site.lease_holder()

    importer = installation.until_importer()
    members[workers.index(importer)].process.kill()
    installation.kill_workers(importer)
    site.send([creating(client.NODES, node("larger", "1"))])

    wait_until(lambda: not site.unbound(), 60, "the pod is bound", every=0.1)
    bound = site.pods()[name]
    assert bound["spec"]["nodeName"] == "larger"
    assert site.lease_holder() == holder  # the installation's, whose etcd is the same
    assert bound["metadata"]["annotations"]["wharfinger.dev/attempt"].startswith(f"{before['workflow_id']}@")
