"""Forgetting all copies after the API was restored."""

from __future__ import annotations

import pytest

from tests.kubernetes.api_and_store import Between
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete
from wharfinger.kubernetes.effects.adopting import NotTheImporter
from wharfinger.kubernetes.effects.copying import TOGETHER, forget_copies
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported


@pytest.fixture
async def between() -> Between:
    found = Between()
    await found.begin()
    return found


async def test_copies_and_promises_of_all_kinds_go(between: Between) -> None:
    for number in range(TOGETHER + 5):
        await between.add(f"pod-{number}")
    await between.promised("a")
    await between.store.put(keys.node("n1"), b"{}")
    await between.store.put(keys.attempt("default", "a"), b"{}")
    told = await forget_copies(between.store, ["pods", "nodes"], epoch=between.epoch, generation=4)
    assert told == (TOGETHER + 7, 1)
    left = [kv.key async for page in between.store.list(keys.ROOT) for kv in page.items]
    assert left == sorted([keys.IMPORTER, keys.IMPORTED, keys.attempt("default", "a")])
    kv = (await between.store.get(keys.IMPORTED)).kv
    assert kv is not None
    assert promise_records.read_value(Imported, kv.value) == Imported(generation=4)


async def test_the_right_to_bind_goes_before_anything_else(between: Between) -> None:
    await between.promised("a")
    deleted: list[str] = []
    between.store.before_txn = lambda _, writes: deleted.extend(one.key for one in writes if isinstance(one, Delete))
    await forget_copies(between.store, ["pods"], epoch=between.epoch, generation=1)
    assert deleted == [keys.ACTIVE, keys.promise("default", "a"), keys.pod("default", "a")]


async def test_an_importer_that_was_replaced_forgets_nothing(between: Between) -> None:
    await between.promised("a")
    await between.store.put(keys.IMPORTER, b"{}")
    with pytest.raises(NotTheImporter):
        await forget_copies(between.store, ["pods"], epoch=between.epoch, generation=1)
    assert await between.promise() is not None
    assert (await between.store.get(keys.ACTIVE)).kv is not None


async def test_forgetting_can_be_run_again(between: Between) -> None:
    await between.promised("a")
    for _ in range(2):
        await forget_copies(between.store, ["pods"], epoch=between.epoch, generation=1)
    assert (await between.store.get(keys.pod("default", "a"))).kv is None
