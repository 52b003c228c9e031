"""How a pod's chain is started: what is asked of Temporal, and asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.objects.documents.decode import decode_pod
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import pods_listed
from wharfinger.scheduling.contracts.cohort_scheduling import PODS_KEY, CohortPod, Turn
from wharfinger.scheduling.effects.open_runs import BUILDS_KEY
from wharfinger.scheduling.loops.attempts import ATTRIBUTE_RETRY, TemporalAttempts

POD = decode_pod(b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "web-1"}}')
"""Any pod."""


class Starts:
    """A Temporal client as far as starts go; some it refuses."""

    namespace = "default"

    def __init__(self, *refusals: RPCError) -> None:
        self._refusals = list(refusals)
        self.builds: list[Any] = []
        """What each start said of builds."""
        self.pods: list[Any] = []
        """Digests of pods that each start listed."""

    async def start_workflow(self, *_: Any, **options: Any) -> None:
        self.builds.append(options["search_attributes"].get(BUILDS_KEY))
        self.pods.append(options["search_attributes"].get(PODS_KEY))
        if self._refusals:
            raise self._refusals.pop(0)


def attempts(client: Starts, build_id: str = "1.0", clock: Callable[[], float] = lambda: 0.0) -> TemporalAttempts:
    temporal = cast("Client", client)
    return TemporalAttempts(temporal, cluster="wharfinger", tenant="common", build_id=build_id, clock=clock)


async def start_cohort(starter: TemporalAttempts, *names: str) -> None:
    pods = [CohortPod(namespace="default", name=name) for name in names]
    await starter.start_cohort("c", pods, cause="seen", turn=Turn(dispatcher="d", number=1))


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


# --- cohorts and gangs list their pods ------------------------------------------------------------


async def test_cohort_lists_its_pods_in_its_start() -> None:
    client = Starts()
    await start_cohort(attempts(client), "a", "b")

    assert client.pods == [pods_listed([("default", "a"), ("default", "b")])]
    assert client.builds == [["unversioned", "unversioned:1.0"]]


async def test_gang_lists_the_members_that_are_known() -> None:
    client = Starts()
    members = [PodKey("ml", "w-0"), PodKey("ml", "w-1")]
    gang = GangKey("ml", "train")
    await attempts(client).start_gang(gang, members, revision=1, cause="seen", check_queue=False)

    assert client.pods == [pods_listed([("ml", "w-0"), ("ml", "w-1")])]


async def test_cohorts_start_without_the_list_where_temporal_rejects_it(caplog: pytest.LogCaptureFixture) -> None:
    unknown = "Namespace default has no mapping defined for search attribute WharfingerPods"
    now = [0.0]
    client = Starts(refusal(unknown))
    starter = attempts(client, clock=lambda: now[0])
    for _ in range(3):
        await start_cohort(starter, "a")

    assert [listed is not None for listed in client.pods] == [True, False, False, False]
    assert caplog.text.count("search_attribute_rejected name=WharfingerPods") == 1
    assert "search-attribute create --namespace default --name WharfingerPods --type KeywordList" in caplog.text

    now[0] += ATTRIBUTE_RETRY  # an administrator registered it meanwhile
    await start_cohort(starter, "a")
    await start_cohort(starter, "a")

    assert [listed is not None for listed in client.pods[-2:]] == [True, True]


async def test_cohorts_start_without_any_attribute_that_is_rejected() -> None:
    client = Starts(refusal("no mapping defined for search attribute BuildIds"), refusal("WharfingerPods is not valid"))
    await start_cohort(attempts(client), "a")

    assert [
        (build is not None, listed is not None) for build, listed in zip(client.builds, client.pods, strict=True)
    ] == [
        (True, True),
        (False, True),
        (False, False),
    ]


async def test_cohort_rejected_for_its_pods_own_attribute_is_not_repeated() -> None:
    client = Starts(refusal("no mapping defined for search attribute WharfingerPod"))
    with pytest.raises(RPCError):
        await start_cohort(attempts(client, build_id=""), "a")

    assert len(client.pods) == 1
