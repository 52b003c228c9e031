"""How a pod's chain is started: what is asked of Temporal, and asked again."""

from __future__ import annotations

from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.client import BUILDS_KEY
from wharfinger.control.attempts import TemporalAttempts
from wharfinger.manifests.decode import decode_pod

POD = decode_pod(b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "web-1"}}')
"""Any pod."""


class Starts:
    """A Temporal client as far as starts go; some it refuses."""

    def __init__(self, *refusals: RPCError) -> None:
        self._refusals = list(refusals)
        self.builds: list[Any] = []
        """What each start said of builds."""

    async def start_workflow(self, *_: Any, **options: Any) -> None:
        self.builds.append(options["search_attributes"].get(BUILDS_KEY))
        if self._refusals:
            raise self._refusals.pop(0)


def attempts(client: Starts, build_id: str = "1.0") -> TemporalAttempts:
    return TemporalAttempts(cast("Client", client), cluster="wharfinger", tenant="common", build_id=build_id)


def refusal(message: str, status: RPCStatusCode = RPCStatusCode.INVALID_ARGUMENT) -> RPCError:
    return RPCError(message, status, b"")


async def test_the_build_is_named() -> None:
    client = Starts()
    await attempts(client).start(POD, cause="seen", check_queue=False)

    assert client.builds == [["unversioned", "unversioned:1.0"]]


async def test_where_temporal_refuses_that_it_is_never_named_again() -> None:
    client = Starts(refusal("Namespace default has no mapping defined for search attribute BuildIds"))
    starter = attempts(client)
    await starter.start(POD, cause="seen", check_queue=False)
    await starter.start(POD, cause="seen", check_queue=False)

    assert client.builds == [["unversioned", "unversioned:1.0"], None, None]


@pytest.mark.parametrize(
    "error", [refusal("WorkflowId is too long"), refusal("BuildIds", RPCStatusCode.UNAVAILABLE)], ids=str
)
async def test_any_other_failure_is_the_callers(error: RPCError) -> None:
    client = Starts(error)
    with pytest.raises(RPCError):
        await attempts(client).start(POD, cause="seen", check_queue=False)

    assert len(client.builds) == 1


async def test_a_refusal_without_a_build_named_is_not_tried_again() -> None:
    client = Starts(refusal("BuildIds"))
    with pytest.raises(RPCError):
        await attempts(client, build_id="").start(POD, cause="seen", check_queue=False)

    assert client.builds == [None]
