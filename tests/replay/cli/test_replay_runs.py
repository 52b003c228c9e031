"""Decisions name what decided: a build and plugin packages, stored once."""

from __future__ import annotations

from tests.scheduling.world import World
from wharfinger.etcd import keys
from wharfinger.framework.catalog import CatalogEntry
from wharfinger.framework.profiles import Configured, load_configuration
from wharfinger.process.build import build_id
from wharfinger.process.installation import keep_software
from wharfinger.process.records import SoftwareRecord
from wharfinger.programs.worker import software_of
from wharfinger.replay.cli.replay_runs import read_builds

OURS = SoftwareRecord(build="1.2", packages={"racks": "0.3"})


async def test_what_decided_is_stored_once_under_its_digest() -> None:
    store = World().store
    await keep_software(store, OURS)
    await keep_software(store, OURS)

    kv = (await store.get(keys.software(OURS.digest))).kv
    assert kv is not None
    assert (kv.value, kv.create_revision) == (OURS.to_bytes(), kv.mod_revision)
    assert SoftwareRecord(build="1.3").digest != OURS.digest == SoftwareRecord.model_validate_json(kv.value).digest


async def test_builds_are_told_with_what_they_decided() -> None:
    store = World().store
    await keep_software(store, OURS)
    await store.put(keys.software("broken"), b"?")

    found = await read_builds(store, {OURS.digest: 7, "": 9, "broken": 1})

    assert [(one["build"], one["packages"], one["decisions"]) for one in found] == [
        ("", {}, 9),
        ("1.2", {"racks": "0.3"}, 7),
        ("", {}, 1),
    ]


def test_only_packages_that_take_part_are_named() -> None:
    usual = load_configuration()
    [profile] = usual.profiles.values()
    taking_part = profile.plugins[0].name

    class Known:
        def get(self, name: str) -> CatalogEntry | None:
            entry = usual.catalog.get(name)
            return None if entry is None else CatalogEntry(name, entry.factory, origin="racks", version="0.3")

    plain = software_of(usual)
    other = software_of(Configured(usual.configuration, usual.profiles, Known()))  # type: ignore[arg-type]

    assert plain == SoftwareRecord(build=build_id())
    assert taking_part
    assert other == SoftwareRecord(build=build_id(), packages={"racks": "0.3"})
