"""A backup of the Kubernetes API's etcd is restored under a real installation.

The servers are the test's own: whatever it leaves of them, no other test meets it. Row 14 of the table of
interleavings. Neighbour: `test_restored_servers` restores the etcd of the installation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.apiserver import api_server_process
from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import until_settled
from tests.kubernetes.site import Installation, KubernetesSite
from tests.kubernetes.test_restored_servers import restore, save
from wharfinger.dev import binaries
from wharfinger.etcd import keys

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[KubernetesSite]:
    """Servers of its own, and the programs that save and restore; else these would be built while a test runs."""
    if reason := api_server_process.missing():
        pytest.skip(reason)
    binaries.locate_all(binaries.BACKUP_PROGRAMS)
    with closing(KubernetesSite(tmp_path / "site")) as found:
        yield found.start()


def test_everything_is_copied_anew_when_the_api_was_restored(
    site: KubernetesSite, room: dict[str, int], installation: Installation, tmp_path: Path
) -> None:
    """Binds and pods that the API has forgotten are forgotten; the pods that it has again are bound again, once."""
    installation.start_workers(2)
    site.create_pods(names("kept", 60))
    wait_until(lambda: site.unbound() == [], 60, "all are bound")
    site.create_pods(names("waits", 20), cpu="100")
    site.create_pods(names("unbound", 40))
    saved = save(site.api.etcd, tmp_path / "api.db")
    wait_until(lambda: len(site.unbound()) == 20, 60, "what fits is bound")
    site.create_pods(names("lost", 60))
    wait_until(lambda: len(site.unbound()) == 20, 60, "what fits is bound")
    site.delete_pods(names("kept", 30))

    site.api.kill()
    restore(site.api.etcd, saved)
    site.api.start()
    with closing(PodHistory(site.api)) as history:
        wait_until(lambda: _generation(installation) > 0, 60, "a new generation has begun")
        site.delete_pods(names("waits", 20))

        until_settled(site, [installation], history, room)
        assert sorted(site.pods()) == sorted([*names("kept", 60), *names("unbound", 40)])


def _generation(installation: Installation) -> int:
    return int((installation.gateway.get(keys.IMPORTED) or {}).get("generation", 0))
