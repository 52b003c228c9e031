"""A plugin of the Temporal SDK that encrypts payloads: Temporal reads nothing, and wharfinger all."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.integration import told
from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods, node, pod, refusal

pytestmark = pytest.mark.timeout(120)

EXAMPLE = Path(__file__).parents[2] / "examples/codec"
REASON = "Insufficient cpu"
PLUGIN = "--temporal-plugin=encryption:Encryption"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which the plugin of the examples is found, with a key."""
    key = tmp_path / "payloads.key"
    key.write_bytes(secrets.token_bytes(32))
    return {"PYTHONPATH": str(EXAMPLE), "WHARFINGER_PAYLOADS_KEY": str(key)}


async def test_payloads_are_told_to_nobody_and_explained_to_whoever_has_the_key(
    servers: DevTree, start_worker: StartWorker, environment: dict[str, str]
) -> None:
    start_worker(PLUGIN, env=environment)
    etcd = servers.etcd
    etcd.put(f"{NODES}laden", node("laden", cpu="10m"))
    etcd.put(f"{PODS}plugins/waits", pod("waits", namespace="plugins"))
    wait_until(lambda: refusal(etcd, "waits", "plugins"), 30, "refused")
    etcd.put(f"{NODES}seaworthy", node("seaworthy"))
    wait_until(lambda: bound_pods(etcd, "plugins") == {"waits": "seaworthy"}, 30, "bound")

    def attempts(*options: str, env: dict[str, str] | None = None) -> list[dict[str, object]]:
        answer = servers.cli("explain", "pod", "plugins/waits", "-o", "json", *options, env=env)
        return json.loads(answer.stdout)["attempts"]

    wait_until(lambda: [one["outcome"] for one in attempts(PLUGIN, env=environment)][-1:] == ["bound"], 30, "told")
    with_key, without = attempts(PLUGIN, env=environment), attempts()
    assert [REASON in json.dumps(one) for one in with_key] == [True, True]
    assert [REASON in json.dumps(one) for one in without] == [False, False]

    client = await Client.connect(servers.environment["WHARFINGER_TEMPORAL"])
    histories = {where: all_ for where, all_ in (await told.histories(client)).items() if "plugins/waits" in where}
    assert histories
    assert told.tellers(histories, [REASON]) == []
