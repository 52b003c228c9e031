"""Objects about storage are followed, and their changes become events."""

from __future__ import annotations

import json
from typing import Any

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.objects.model.storage import ClaimKey, PersistentVolumeClaim
from wharfinger.scheduling.loops.candidacy import events_of
from wharfinger.scheduling.state.informer.changes import Changes, StorageChange


class Witness:
    """Keeps what changed."""

    follows = None

    def __init__(self) -> None:
        self.storage: list[StorageChange] = []
        self.labels: list[str] = []

    def apply(self, changes: Changes) -> None:
        """Keep it."""
        self.storage += changes.storage
        self.labels += [event.label for event in events_of(changes)]


async def put(stage: Stage, key: str, **fields: Any) -> None:
    *_, name = key.split("/")
    await stage.store.put(key, json.dumps({"metadata": {"name": name}, **fields}).encode())


async def test_what_was_there_and_what_comes_is_seen() -> None:
    stage, witness = Stage(), Witness()
    await put(stage, keys.STORAGE_CLASSES + "fast", volumeBindingMode="WaitForFirstConsumer")
    await put(stage, keys.PERSISTENT_VOLUMES + "v", spec={"storageClassName": "fast"})
    async with stage:
        stage.loops.scheduling.informer._subscribers.append(witness)  # type: ignore[attr-defined]
        await put(stage, keys.PERSISTENT_VOLUME_CLAIMS + "team/data", spec={"storageClassName": "fast"})
        await put(stage, keys.CSI_NODES + "n1")
        await put(stage, keys.CSI_DRIVERS + "d", spec={"storageCapacity": True})
        await put(stage, keys.CSI_STORAGE_CAPACITIES + "team/room", storageClassName="fast")
        await put(stage, keys.VOLUME_ATTACHMENTS + "va", spec={"nodeName": "n1"})
        await stage.caught_up()

        found = stage.cache.surroundings.storage
        assert found.classes["fast"].waits
        assert list(found.free["fast"]) == ["v"]
        assert list(found.claims) == [ClaimKey("team", "data")]
        assert (list(found.nodes), list(found.drivers), list(found.attached)) == (["n1"], ["d"], ["n1"])
        assert list(found.capacities_of["fast"]) == [("team", "room")]
        assert stage.cache.snapshot().surroundings.storage is found
    assert witness.labels == [
        "PersistentVolumeClaimAdd",
        "CSINodeAdd",
        "CSIDriverAdd",
        "CSIStorageCapacityAdd",
        "VolumeAttachmentAdd",
    ]


async def test_a_change_is_told_with_what_was_before() -> None:
    key, witness = keys.PERSISTENT_VOLUME_CLAIMS + "team/data", Witness()
    async with Stage() as stage:
        await put(stage, key)
        await stage.caught_up()
        stage.loops.scheduling.informer._subscribers.append(witness)  # type: ignore[attr-defined]
        await put(stage, key, spec={"volumeName": "v"}, status={"phase": "Bound"})
        await put(stage, key, spec={"volumeName": "v"}, status={"phase": "Bound", "capacity": {"storage": "1Gi"}})
        await stage.store.put(key, b"{")
        await stage.store.delete(key)
        await stage.caught_up()

    unbound = PersistentVolumeClaim(ClaimKey("team", "data"))
    bound = PersistentVolumeClaim(ClaimKey("team", "data"), volume_name="v", bound=True, phase="Bound")
    assert witness.storage == [StorageChange(unbound, bound), StorageChange(bound, bound), StorageChange(bound, None)]
    assert witness.labels == ["PersistentVolumeClaimUpdate", "PersistentVolumeClaimDelete"]
