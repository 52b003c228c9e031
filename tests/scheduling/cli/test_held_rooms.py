"""Pods whose room is held while plugins are called: no longer told as never tried, nor by their last refusal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.scheduling.reading.test_attempts_pending_activities import pending, until_call
from tests.scheduling.reading.test_explanation import explained
from tests.scheduling.world import pod_object
from wharfinger.etcd import keys
from wharfinger.objects.documents import documents
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.process.records import HoldRecord
from wharfinger.scheduling.cli.describe import describe_pod
from wharfinger.scheduling.cli.pending import CALLING_PLUGINS, NOT_TRIED, group
from wharfinger.scheduling.cli.story import tell
from wharfinger.scheduling.reading.attempts import with_pending
from wharfinger.scheduling.reading.pods_and_nodes import held_room, held_rooms, one_pod
from wharfinger.testing.memory_store import MemoryStore

WEB = Pod("default", "web", "uid-web", create_revision=7)
ROOM = HeldPlace("elm-1", 7, "workflow@run", 9, ("PreBind/Licences", "Bind/Crane"), "2026-03-01T12:00:00Z")
SENTENCE = "its room is held for PreBind of Licences, Bind of Crane"


def told(*pods: Pod, rooms: dict[PodKey, HeldPlace]) -> list[tuple[str, str]]:
    return [(entry.reason, entry.message) for entry in group(pods, {}, rooms=rooms)]


def test_pending_says_for_which_plugins_the_room_is_held() -> None:
    called = (CALLING_PLUGINS, f"{SENTENCE}: see `wharfinger explain pod NAMESPACE/NAME`")
    refused = replace(WEB, condition=("False", "Unschedulable", "no licence is free"))

    assert told(WEB, rooms={WEB.key: ROOM}) == [called]
    assert told(refused, rooms={WEB.key: ROOM}) == [called]


def test_a_room_of_an_earlier_pod_of_that_name_says_nothing() -> None:
    [(reason, _)] = told(WEB, rooms={WEB.key: replace(ROOM, create_revision=3)})
    assert reason == NOT_TRIED


def test_a_room_that_an_earlier_release_held_names_no_plugin() -> None:
    assert replace(ROOM, calls=()).sentence() == "its room is held for an asynchronous plugin"


async def test_describe_says_where_and_since_when_the_room_is_held() -> None:
    store = MemoryStore()
    await store.put(keys.pod("default", "web"), documents.to_json(pod_object("web", uid="uid-web")))
    found = await one_pod(store, "default", "web")
    assert found.pod is not None
    assert await held_room(store, found.pod) is None
    now = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
    assert "Calls plugins" not in await describe_pod(store, found, "wharfinger", now)
    record = HoldRecord(
        node="elm-1", create_revision=found.pod.create_revision, attempt=ROOM.attempt, calls=ROOM.calls, time=ROOM.since
    )
    await store.put(keys.hold("default", "web"), record.to_bytes())
    await store.put(keys.hold("other", "web"), b"no record")

    room = await held_room(store, found.pod)
    assert await held_rooms(store) == await held_rooms(store, "default") == {WEB.key: room}
    assert await held_rooms(store, "other") == {}
    text = await describe_pod(store, found, "wharfinger", now)
    assert f"Calls plugins:    {SENTENCE} on elm-1 since 2026-03-01T12:00:00Z (60s ago)" in text.splitlines()
    assert await held_room(store, replace(found.pod, create_revision=1)) is None


def test_the_story_names_the_call_that_fails() -> None:
    attempt = with_pending(until_call(0), [pending(4, "OSError: HTTP Error 500")])
    lines = tell(explained(attempts=[attempt])).splitlines()

    call = "PreBind of Licences: try 3 failed (OSError: HTTP Error 500), and try 4 is due at 12:00:08Z"
    assert lines[1] == f"Bound once its plugin agrees: {call}."
    [steps] = [line for line in lines if line.startswith("  Steps: ")]
    assert "plugin called since " in steps
    assert steps.endswith(f"({call})")
