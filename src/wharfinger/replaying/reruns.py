"""Runs a rerun over a span: lists the first state, applies etcd's events, and looks at both clusters on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from wharfinger.framework.profile import Profile
from wharfinger.manifests.formats import format_of
from wharfinger.model.pod import PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Event
from wharfinger.replaying.changes import ProfileChange
from wharfinger.replaying.deciding import placements
from wharfinger.replaying.facts import Facts
from wharfinger.replaying.kept import KeptStates, oldest_kept
from wharfinger.replaying.recorded import Unit
from wharfinger.replaying.rerun import Rerun, RerunSimulator
from wharfinger.replaying.rerun_report import Moment, RerunReport, moment, shapes_of
from wharfinger.replaying.shadow import SILENCE, Runs

MOMENTS = 60
"""Looks at both clusters, at most."""


async def rerun(
    store: KeptStates,
    runs: Runs,
    units: Sequence[Unit],
    change: ProfileChange,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> RerunReport:
    """Live the span of these units again. Raises `StoreError`, and `Unreplayable` when a profile cannot be made."""
    report = RerunReport(change.told)
    if not units:
        return report
    newest = (await store.get(keys.INSTALLATION)).revision
    first = await oldest_kept(store, min(units[0].revision, newest))
    profiles = await _profiles(store, units, change)
    decided = {
        (key, create_revision)
        for unit in units
        for key, create_revision, _ in placements(runs.get(unit.run), unit.place)
    }
    life = Rerun(RerunSimulator(profiles), decided, frozenset(profiles))
    facts = Facts(format_of(store.format))
    found = [kv async for page in store.list(keys.ROOT, revision=first) for kv in page.items]
    facts.begin(found, first)
    life.begin(map(Event, found))
    seen: dict[tuple[PodKey, int], Mapping[str, int]] = {}
    every, due = max(1, (newest - first) // MOMENTS), first
    async with store.watch(keys.ROOT, first + 1) as batches:
        while facts.revision < newest:
            async with asyncio.timeout(SILENCE):
                batch = await anext(batches)
            if batch.revision > newest:
                break
            facts.take(batch.events, batch.revision)
            life.take(batch.events)
            for pod in facts.cache.pods.values() if batch.revision >= due else ():
                seen.setdefault((pod.key, pod.create_revision), pod.requests)
            if batch.revision >= due:
                due = batch.revision + every
                report.moments.append(_moment(facts, life, seen))
                await asyncio.sleep(0)
            progress(facts.revision - first, newest - first)
    report.moments.append(_moment(facts, life, seen))
    report.close(life)
    return report


def _moment(facts: Facts, life: Rerun, seen: Mapping[tuple[PodKey, int], Mapping[str, int]]) -> Moment:
    shapes = shapes_of(seen.values())
    return moment(facts.revision, facts.cache.snapshot(), life.simulator.snapshot(), shapes)


async def _profiles(store: KeptStates, units: Sequence[Unit], change: ProfileChange) -> dict[str, Profile]:
    """By name, the one that decided last, under the change."""
    last = {unit.profile_name: unit.profile for unit in units}
    made: dict[str, Profile] = {}
    for name, digest in last.items():
        read = await store.get(keys.profile(digest)) if digest else None
        recorded = read.kv.value if read is not None and read.kv is not None else None
        made[name] = change.profile(recorded, name, digest)
    return made
