"""A backup of its own etcd is restored under a real installation.

Row 14 of the table of interleavings. Saved and restored with `etcdctl` and `etcdutl`, as docs/backup.md does.
Neighbour: `test_restored_api_server` restores the etcd of the Kubernetes API.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.etcd.etcd_process import EtcdProcess
from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import Installation, KubernetesSite, resume, stop
from tests.patience import patient
from wharfinger.dev import binaries

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

BUMPED = ("--bump-revision", "1000000000", "--mark-compacted")
SLOW = 30.0
"""Binds a second of one worker: a flood's promises wait for seconds."""


@pytest.fixture(autouse=True)
def programs(site: KubernetesSite) -> None:
    """Those that save and restore; else they would be built while a test runs."""
    binaries.locate_all(binaries.BACKUP_PROGRAMS)


def save(etcd: EtcdProcess, file: Path) -> Path:
    """A backup of a running etcd."""
    _run(binaries.ETCDCTL, "--endpoints", etcd.url, "snapshot", "save", str(file))
    return file


def restore(etcd: EtcdProcess, file: Path, options: Sequence[str] = ()) -> None:
    """Kill an etcd, put the backup in the place of its data, start it again."""
    etcd.kill()
    data = etcd.folder / "data"
    shutil.rmtree(data)
    _run(
        binaries.ETCDUTL, "snapshot", "restore", str(file), "--data-dir", str(data), "--name", etcd.name,
        "--initial-cluster", etcd.cluster, "--initial-advertise-peer-urls", etcd.peer, *options,
    )  # fmt: skip
    etcd.start()


def _run(program: binaries.Program, *arguments: str) -> None:
    command = [str(binaries.locate(program)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
    assert done.returncode == 0, done.stderr


def test_lists_bring_restored_copies_forward_and_settle_old_promises(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory, tmp_path: Path
) -> None:
    """The backup has promises that were kept since, of pods some of which are gone, or live anew."""
    site.create_pods(names("web", 110))
    installation.start_workers(2, qps=SLOW)
    wait_until(lambda: len(installation.promised_and_unbound()) > 30, 60, "many are promised", every=0.05)
    for worker in installation.workers:
        stop(worker)  # else all may be bound before a busy machine has saved
    promised = sorted(installation.promises())
    saved = save(installation.etcd, tmp_path / "ours.db")
    for worker in installation.workers:
        resume(worker)
    wait_until(lambda: all_bound(site, history), 60, "all are bound")
    site.delete_pods(promised[:20])
    site.create_pods([*promised[:10], *names("late", 40)])
    wait_until(lambda: all_bound(site, history), 60, "all are bound")

    restore(installation.etcd, saved, BUMPED)

    for worker in installation.workers:
        assert worker.wait_exit(40) == 1
        assert "restored from a backup" in worker.said.splitlines()[-1]
    installation.workers.clear()
    assert installation.promises()
    site.create_pods(names("after", 30))
    installation.start_workers(2)
    until_settled(site, [installation], history, room)
