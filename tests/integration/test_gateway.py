"""The tests' own client of etcd: what it reads again and again is what is there."""

from __future__ import annotations

import random

from tests.conftest import EtcdServer
from tests.integration.gateway import Gateway


def test_what_is_read_again_is_what_another_client_finds(etcd_server: EtcdServer) -> None:
    chance, again = random.Random(3), Gateway(etcd_server.url)
    for turn in range(60):
        key = f"/again/{chance.randrange(6)}"
        if chance.random() < 0.4:
            again.delete(key)
        else:
            again.put(key, {"turn": turn})
        if chance.random() < 0.7:
            assert again.values("/again/") == Gateway(etcd_server.url).values("/again/")
