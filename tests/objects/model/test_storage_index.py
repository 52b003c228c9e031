"""Storage after any changes is what the same objects make from nothing, and shares what did not change."""

from __future__ import annotations

import random

from tests.volumes import GIB, bound_claim, bound_volume, claim, limited, reference, storage, volume
from wharfinger.objects.model.storage import (
    CsiDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from wharfinger.objects.model.storage_index import NO_STORAGE, Keyed, Storage, place_of


def rebuilt(things: list[StorageObject]) -> Storage:
    found = NO_STORAGE
    for thing in things:
        found = found.with_object(thing)
    return found


def some_object(rng: random.Random) -> StorageObject:
    number = str(rng.randrange(6))
    node, group = rng.choice(("n1", "n2")), rng.choice(("wait", "local"))
    match rng.randrange(8):
        case 0 | 1:
            kept = rng.choice((None, reference("data"), reference("more")))
            phase = rng.choice(("Available", "Bound"))
            return volume(number, rng.randrange(1, 4), claim=kept, phase=phase, storage_class=group)
        case 2:
            return claim(number, request=rng.choice((None, GIB)))
        case 3:
            return StorageClass(number, waits=rng.random() < 0.5)
        case 4:
            return limited(node, rng.randrange(3))
        case 5:
            return CsiDriver(number, storage_capacity=rng.random() < 0.5)
        case 6:
            return StorageCapacity("s", number, group, None, rng.randrange(3))
        case _:
            return VolumeAttachment(number, node, "d", f"v{rng.randrange(3)}")


def test_changes_in_any_order_end_where_the_objects_do() -> None:
    rng = random.Random(7)
    for _ in range(40):
        known: dict[tuple[type, tuple[str, str]], StorageObject] = {}
        found = NO_STORAGE
        for _ in range(60):
            thing = some_object(rng)
            place = type(thing), place_of(thing)
            if rng.random() < 0.35:
                known.pop(place, None)
                found = found.without(type(thing), *place_of(thing))
            else:
                known[place] = thing
                found = found.with_object(thing)
            for pool in found.free.values():  # its order is kept from here on
                assert list(pool.by_size) == sorted(pool.values(), key=lambda one: (one.capacity, one.name))

        assert found == rebuilt(list(known.values()))
        assert all(found.get(*key[:1], *key[1]) == thing for key, thing in known.items())  # type: ignore[arg-type]


def test_what_says_the_same_changes_nothing() -> None:
    found = storage(volume("v"), claim(), limited("n1"))

    assert found.with_object(volume("v")) is found
    assert found.without(PersistentVolume, "", "other") is found


def test_only_free_volumes_can_be_chosen_the_smallest_first() -> None:
    found = storage(
        volume("b", 2), volume("a", 2), volume("c", 1), bound_volume("taken"), volume("old", phase="Released")
    )

    assert [one.name for one in found.free["wait"].by_size] == ["c", "a", "b"]
    assert [one.name for one in found.kept[reference("data").key]] == ["taken"]


def test_a_volume_that_is_bound_is_free_no_more() -> None:
    found = storage(volume("v")).with_object(bound_volume("v"))

    assert "wait" not in found.free
    assert found.without(PersistentVolume, "", "v").kept == {}


def test_claims_are_told_apart_by_namespace() -> None:
    found = storage(claim(), claim(namespace="other"), bound_claim("more", "v"))

    assert len(found.claims) == 3
    assert found.get(PersistentVolumeClaim, "other", "data") == claim(namespace="other")


class TestKeyed:
    def test_it_is_a_mapping_that_never_changes(self) -> None:
        one: Keyed[str, int] = Keyed()
        two = one.put("a", 1).put("b", 2).put("a", 3)

        assert (dict(one), len(two), dict(two)) == ({}, 2, {"a": 3, "b": 2})
        assert ("a" in two, "c" in two, two.get("c")) == (True, False, None)
        assert dict(two.without("a")) == {"b": 2}
        assert two.without("c") is two
        assert two == {"b": 2, "a": 3}

    def test_it_knows_where_two_differ(self) -> None:
        values = {f"key{number}": object() for number in range(2000)}
        one: Keyed[str, object] = Keyed()
        for key, value in values.items():
            one = one.put(key, value)

        two = one.put("key7", object()).without("key8").put("new", object())

        assert sorted(two.differing(one)) == ["key7", "key8", "new"]
        assert list(one.differing(one)) == []
