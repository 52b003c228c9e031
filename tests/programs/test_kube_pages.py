"""Who reviews callers of kube-scheduler's pages, and whose client certificates count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apiserver.kubeconfigs import KubeconfigFolder, kubeconfig_folder
from tests.apiserver.scripted_server import bind, ok, scripted_server
from tests.serving.serving import Reviews
from wharfinger.apiserver.client import TOKEN_REVIEWS
from wharfinger.errors import UpstreamUnavailable
from wharfinger.kubernetes.loops.connecting import open_api_server
from wharfinger.programs.kube_pages import KubePages, client_authorities
from wharfinger.settings import KubernetesSettings


def home(tmp_path: Path, server: str, authority: Path, token: str) -> KubeconfigFolder:
    made = kubeconfig_folder(tmp_path)
    made.cluster = {"server": server, "certificate-authority": str(authority)}
    made.user = {"token": token}
    made.write()
    return made


@pytest.mark.parametrize("own", [False, True])
async def test_reviews_take_none_of_the_schedulers_rate(tmp_path: Path, own: bool) -> None:
    for name in ("server", "scheduler", "reviewer"):
        (tmp_path / name).mkdir()
    async with scripted_server(tmp_path / "server", ok) as server:
        at = server.url, server.authority.pem
        settings = KubernetesSettings(
            kubeconfig=home(tmp_path / "scheduler", *at, "scheduler").path, qps=0.001, burst=1
        )
        reviewing = home(tmp_path / "reviewer", *at, "reviewer").path if own else None
        api = open_api_server(settings)
        reviewer = KubePages(reviewing=reviewing).reviewer(api)
        try:
            for _ in range(20):
                assert (await reviewer.create(TOKEN_REVIEWS, {})).code == 201
            assert (await bind(api)).code == 201
            with pytest.raises(UpstreamUnavailable, match="qps"):  # its own rate counts as before
                await bind(api)
        finally:
            await api.close()
            await reviewer.close()
    shown = {one.headers["Authorization"] for one in server.heard}
    assert shown == {"Bearer scheduler", f"Bearer {'reviewer' if own else 'scheduler'}"}


async def test_authorities_are_those_of_the_config_map() -> None:
    cluster = Reviews()
    cluster.published = {"client-ca-file": "PEM", "requestheader-client-ca-file": "other"}

    assert await client_authorities(cluster.apiserver) == "PEM"


async def test_without_the_config_map_there_are_none(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Reviews()
    assert await client_authorities(cluster.apiserver) == ""
    cluster.away = True
    assert await client_authorities(cluster.apiserver) == ""

    assert caplog.text.count("client_authorities_unknown") == 2
