"""Placements of a hub's etcd: clusters by placements, and one with its verdicts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.page.cluster import no_temporal
from tests.placement.delivered import GOOD, DeliveredScene
from tests.placement.scene import P
from wharfinger.errors import NotFound
from wharfinger.placement.cli.placements import rows_of
from wharfinger.placement.page.hubs import HubReading
from wharfinger.placement.page.placements import PlacementPageReader
from wharfinger.placement.page.update_runs import UpdateRunPageReader


def page_reader(scene: DeliveredScene, reading: HubReading) -> PlacementPageReader:
    runs = UpdateRunPageReader(
        scene.store, reading, utc_now=lambda: datetime.now(UTC), cluster="c", ui="", namespace="default"
    )
    return PlacementPageReader(scene.store, reading, runs, no_temporal, "c")


async def test_clusters_by_placements_with_the_state_of_each() -> None:
    scene = await DeliveredScene.begin()
    await scene.snapshot(1)
    await scene.deliver("a", result=GOOD)
    await scene.deliver("b", result={"failed": True, "reason": "no"})
    looks = page_reader(scene, HubReading(scene.store, lambda: 1.0))

    found = await looks.all()
    [row] = found["placements"]
    assert row["placement"] == P
    assert (row["on"]["a"], row["on"]["b"]) == ("available", "failed")
    assert row["troubles"] == {"b": "no"}
    assert {"a", "b"} <= {member["name"] for member in found["members"]}
    one = await looks.one(P)
    states = {member["member"]: (member["chosen"], member["state"], member["message"]) for member in one["members"]}
    assert states["a"] == (True, "available", None)
    assert states["b"] == (True, "failed", "no")
    assert not one["settled"]
    with pytest.raises(NotFound):
        await looks.one("cluster/nothing")


async def test_result_of_an_earlier_life_of_a_member_does_not_count() -> None:
    scene = await (await DeliveredScene.begin()).ready()
    await scene.deliver("a", result={**GOOD, "identity": 1})
    reading = HubReading(scene.store, lambda: 1.0)

    [shown] = (await page_reader(scene, reading).all())["placements"]
    [listed] = rows_of((await reading.view()).view)

    assert shown["on"] == {"a": "applying", "b": "available", "c": "available"}
    assert listed["available"] == 2
