"""Whose client certificates count in a cluster, as it says itself."""

from __future__ import annotations

import pytest

from tests.serving.serving import Reviews
from wharfinger.programs.kube_pages import client_authorities


async def test_authorities_are_those_of_the_config_map() -> None:
    cluster = Reviews()
    cluster.published = {"client-ca-file": "PEM", "requestheader-client-ca-file": "other"}

    assert await client_authorities(cluster.upstream) == "PEM"


async def test_without_the_config_map_there_are_none(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Reviews()
    assert await client_authorities(cluster.upstream) == ""
    cluster.away = True
    assert await client_authorities(cluster.upstream) == ""

    assert caplog.text.count("client_authorities_unknown") == 2
