"""Whose value is in force, what becomes of a wrong one, and of one that a process died of."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.clock import Clock
from tests.patience import patient
from tests.scheduling.stage import Stage, pod_bytes
from wharfinger.configuration import trials
from wharfinger.configuration.following import DynamicConfig, ProfileKind
from wharfinger.configuration.last_good import LastGoodFiles
from wharfinger.configuration.trials import Commit, TrialTerms
from wharfinger.errors import ConfigurationError, RequestTooLarge, RevisionWentBack, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.model.fleet import Grant
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.config.dynamic import ProfileValue, digest, read_value
from wharfinger.framework.plugins.arguments import PluginArgs
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profile import InForce
from wharfinger.framework.profiles import Configured, load_configuration, overlay_configuration
from wharfinger.framework.status import SUCCESS, Status, unresolvable
from wharfinger.objects.model.pod import Pod
from wharfinger.process.records import ConfigStatusRecord
from wharfinger.programs.grants import min_ready
from wharfinger.scheduling.state.informer.changes import Changes, ConfigChange
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.settings import DispatchSettings, GrantSettings
from wharfinger.telemetry import Metrics
from wharfinger.testing.memory_store import MemoryStore

ONE, TWO, BAD = {"n": 1}, {"n": 2}, {"n": -1}
DEFAULT, TENANT, INSTANCE = "default", "tenant/a", "instance/a/0"


class Numbers:
    """A kind whose values are positive numbers."""

    def __init__(self, name: str = "number", *, said_at_start: bool = False) -> None:
        self.name = name
        self.said_at_start = said_at_start
        self.runs = 0
        self.prepared: list[Any] = []
        self.in_the_way: BaseException | None = None
        self.free = asyncio.Event()
        self.free.set()

    async def prepare(self, value: Any) -> Commit:
        self.prepared.append(value)
        if self.in_the_way is not None:
            raise self.in_the_way
        await self.free.wait()
        number = 0 if value is None else value["n"]
        if number < 0:
            raise ConfigurationError("n: must not be negative")

        def commit() -> None:
            self.runs = number

        return commit


class Killed(BaseException):
    """The process ends here."""


async def ten_seconds() -> float:
    return 10.0


class Life:
    """One process of a slot: what it is told by the watch, and what it does."""

    def __init__(self, slot: Slot, incarnation: int, **kinds: Numbers) -> None:
        self.slot = slot
        self.clock = slot.clock
        self.kinds = kinds or {"number": Numbers(said_at_start=slot.said_at_start)}
        self.ready = True
        self.told = ConfigStatusRecord()
        self.metrics = Metrics()
        remembered = LastGoodFiles(slot.folder, incarnation, slot.alive.__contains__)
        terms = TrialTerms(remembered, self.metrics, self.clock, lambda: self.ready, ten_seconds)
        self.config = DynamicConfig(terms, tenant="a", slot="0", report=self._report)
        for kind in self.kinds.values():
            self.config.follow(kind)

    def _report(self, told: ConfigStatusRecord) -> None:
        self.told = told

    @property
    def runs(self) -> int:
        return self.kinds["number"].runs

    @property
    def in_force(self) -> dict[str, str]:
        return self.told.in_force

    @property
    def problem(self) -> str:
        return self.told.problems.get("number", "")

    async def listed(self) -> Life:
        self.config.apply(Changes(self.slot.revision, listed=True, config=list(self.slot.values.values())))
        await self.look()
        return self

    async def set(self, target: str, value: Any, kind: str = "number") -> None:
        self.config.apply(Changes(self.slot.revision + 1, config=[self.slot.write(target, value, kind)]))
        await self.look()

    async def look(self) -> None:
        for name in self.kinds:
            follower = self.config.follower(name)
            with contextlib.suppress(Unavailable, OSError):
                await follower.look()

    async def proven(self) -> None:
        await self.look()
        self.clock.advance(10)
        await self.look()

    def count(self, result: str) -> float:
        return self.metrics.config_updates.labels("number", result)._value.get()


class Slot:
    """What outlives a process: etcd's keys and the slot's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "config"
        self.clock = Clock()
        self.alive: set[int] = set()
        self.values: dict[tuple[str, str], ConfigChange] = {}
        self.revision = 10
        self.said_at_start = False

    def write(self, target: str, value: Any, kind: str = "number") -> ConfigChange:
        self.revision += 1
        content = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        change = ConfigChange(kind, target, content, self.revision)
        self.values.pop((kind, target), None)
        if content is not None:
            self.values[kind, target] = change
        return change

    def marked(self) -> dict[str, bytes]:
        """The trials that the disk tells of."""
        return {path.name: path.read_bytes() for path in self.folder.glob("*.trial.*")}

    async def life(self, incarnation: int, **kinds: Numbers) -> Life:
        self.alive = {incarnation}
        return await Life(self, incarnation, **kinds).listed()


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


# --- whose value counts ---------------------------------------------------------------------------


async def test_most_specific_target_counts_and_its_removal_falls_back(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(DEFAULT, {"n": 1})
    await life.set(INSTANCE, {"n": 3})
    await life.set(TENANT, {"n": 2})
    found = [life.runs]
    for target in (INSTANCE, TENANT, DEFAULT):
        await life.set(target, None)
        found.append(life.runs)

    assert found == [3, 2, 1, 0]
    assert life.told == ConfigStatusRecord()


async def test_the_default_gives_way_to_what_the_worker_was_started_with(slot: Slot) -> None:
    slot.said_at_start = True
    life = await slot.life(1)
    await life.set(DEFAULT, ONE)
    assert life.runs == 0
    assert life.told == ConfigStatusRecord(own=("number",))

    await life.set(TENANT, TWO)
    assert life.runs == 2


async def test_values_of_other_targets_are_ignored(slot: Slot) -> None:
    life = await slot.life(1)
    for target in ("tenant/b", "instance/a/1", "instance/b/0"):
        await life.set(target, ONE)
    await life.set(DEFAULT, ONE, "somethingnewer")

    assert life.kinds["number"].prepared == [None]


async def test_value_in_force_is_reported_by_its_hash(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)

    assert life.told == ConfigStatusRecord(in_force={"number": digest(ONE)})
    assert life.count("applied") == 1


async def test_problems_of_one_kind_do_not_affect_another(slot: Slot) -> None:
    life = await slot.life(1, number=Numbers(), other=Numbers("other"))
    await life.set(TENANT, BAD)
    await life.set(TENANT, TWO, "other")

    assert life.kinds["other"].runs == 2
    assert life.in_force == {"other": digest(TWO)}
    assert list(life.told.problems) == ["number"]


# --- wrong values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (BAD, "tenant/a: n: must not be negative"),
        (b"{", "tenant/a: it is no JSON"),
        (b"[" * 60_000, "tenant/a: it is no JSON"),
        (b'"' + b"a" * 70_000 + b'"', "tenant/a: it is larger than 64 KiB"),
        (b'{"n": NaN}', "tenant/a: it is no JSON value"),
    ],
)
async def test_wrong_value_changes_nothing_and_is_reported(slot: Slot, wrong: Any, why: str) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.set(TENANT, wrong)

    assert (life.runs, life.in_force) == (1, {"number": digest(ONE)})
    assert life.problem.startswith(why)
    assert "\n" not in life.problem
    assert life.count("refused") == 1
    assert life.metrics.config_problems.labels("number")._value.get() == 1


async def test_a_wrong_value_is_looked_at_once_and_a_right_one_ends_the_problem(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, BAD)
    prepared = list(life.kinds["number"].prepared)
    await life.look()
    assert life.kinds["number"].prepared == prepared

    await life.set(TENANT, TWO)
    assert (life.runs, life.problem) == (2, "")
    assert life.metrics.config_problems.labels("number")._value.get() == 0


async def test_wrong_value_of_a_specific_target_does_not_fall_back(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(INSTANCE, ONE)
    await life.set(TENANT, TWO)
    await life.set(INSTANCE, BAD)

    assert life.runs == 1


async def test_exception_of_a_kind_is_reported_and_ends_nothing(slot: Slot) -> None:
    life = await slot.life(1)
    life.kinds["number"].in_the_way = ZeroDivisionError("oh")
    await life.set(TENANT, ONE)
    assert life.problem == "tenant/a: ZeroDivisionError: oh"
    life.kinds["number"].in_the_way = None

    await life.look()
    assert life.runs == 0  # it is not tried over and over
    await life.set(TENANT, ONE)
    assert life.runs == 1


async def test_a_value_that_something_else_is_in_the_way_of_is_tried_again(slot: Slot) -> None:
    life = await slot.life(1)
    life.kinds["number"].in_the_way = Unavailable("no answer")
    await life.set(TENANT, ONE)
    assert life.runs == 0

    life.kinds["number"].in_the_way = None
    await life.look()
    assert life.runs == 1


async def test_worker_does_not_start_before_etcd_has_delivered_its_values(slot: Slot) -> None:
    slot.write(TENANT, ONE)
    life = Life(slot, 1)
    number = life.kinds["number"]
    number.in_the_way = Unavailable("no answer")
    listed = Changes(slot.revision, listed=True, config=list(slot.values.values()))
    running = asyncio.create_task(life.config.run())
    life.config.apply(listed)
    async with asyncio.timeout(patient(20)):
        while not life.problem:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert not life.config.taken_in

        number.in_the_way = None
        life.config.apply(listed)
        while not life.config.taken_in:
            await asyncio.sleep(0.001)
    running.cancel()
    assert (life.runs, life.problem) == (1, "")


async def test_a_value_that_etcd_is_too_small_for_is_wrong(slot: Slot) -> None:
    life = await slot.life(1)
    life.kinds["number"].in_the_way = RequestTooLarge("request is too large")
    await life.set(TENANT, ONE)
    await life.look()

    assert (life.problem, life.kinds["number"].prepared) == ("tenant/a: request is too large", [None, ONE])


# --- trials ---------------------------------------------------------------------------------------


async def test_a_value_that_the_process_died_of_is_not_taken_in_again(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    await life.set(TENANT, TWO)
    assert life.runs == 2

    for incarnation in (2, 3):
        life = await slot.life(incarnation)
        assert (life.runs, life.in_force) == (1, {"number": digest(ONE)})
        assert life.problem == "a process ended before it had proven this value; the last good one is in force"
        assert life.count("undone") == 1


async def test_value_whose_preparation_killed_a_process_is_not_prepared_again(slot: Slot) -> None:
    """Plugins are constructed then, and their code may be a user's."""
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    life.kinds["number"].in_the_way = Killed()
    with pytest.raises(Killed):
        await life.set(TENANT, TWO)

    life = await slot.life(2)
    assert (life.runs, life.kinds["number"].prepared) == (1, [ONE])
    assert life.problem.startswith("a process ended before it had proven this value")


async def test_a_start_at_which_a_process_dies_of_a_value_is_not_repeated(slot: Slot) -> None:
    slot.write(TENANT, ONE)
    number = Numbers()
    number.in_the_way = Killed()
    with pytest.raises(Killed):
        await slot.life(1, number=number)

    assert (await slot.life(2)).kinds["number"].prepared == []


async def test_a_refused_value_leaves_the_trial_of_the_one_that_runs_open(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    tried = slot.marked()
    await life.set(TENANT, BAD)
    assert slot.marked() == tried

    slot.write(TENANT, None)
    await life.set(TENANT, None)
    await life.set(TENANT, BAD)
    assert slot.marked() == {}


async def test_a_value_that_could_not_be_taken_in_accuses_nothing(slot: Slot) -> None:
    life = await slot.life(1)
    for obstacle in (Unavailable("no answer"), ZeroDivisionError("oh")):
        life.kinds["number"].in_the_way = obstacle
        await life.set(TENANT, ONE)
        assert slot.marked() == {}

    assert (await slot.life(2)).runs == 1


async def test_a_mistake_of_a_kind_at_a_start_leaves_the_last_good_value(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    slot.write(TENANT, {"m": 1})
    life = await slot.life(2)

    assert (life.runs, life.problem) == (1, "tenant/a: KeyError: 'n'; the last good one is in force")


async def test_going_back_to_the_last_good_value_is_no_trial(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    await life.set(TENANT, TWO)
    await life.set(TENANT, ONE)
    assert slot.marked() == {}

    life = await slot.life(2)
    assert (life.runs, life.problem) == (1, "")


async def test_value_proven_by_another_incarnation_is_good_despite_a_crash(slot: Slot) -> None:
    first = await slot.life(1)
    await first.set(TENANT, ONE)
    second = await slot.life(2)
    slot.alive.add(1)
    await second.set(TENANT, TWO)
    await first.set(TENANT, TWO)
    await second.proven()

    third = await slot.life(3)
    assert (third.runs, third.problem) == (2, "")


async def test_both_lives_of_a_slot_are_dead_and_what_they_tried_has_failed(slot: Slot) -> None:
    first = await slot.life(1)
    await first.set(TENANT, ONE)
    slot.alive.add(2)
    second = await Life(slot, 2).listed()
    assert second.runs == 1

    third = await slot.life(3)
    assert (third.runs, third.problem) == (0, "a process ended before it had proven this value")


async def test_a_value_that_is_removed_while_it_is_tried_leaves_nothing_behind(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.set(TENANT, None)
    assert (life.runs, slot.marked()) == (0, {})
    life.clock.advance(100)
    await life.look()
    assert life.count("proven") == 0

    await life.set(TENANT, ONE)
    slot.write(TENANT, None)
    life = await slot.life(2)
    assert (life.runs, life.problem, slot.marked()) == (0, "", {})


async def test_without_a_good_value_it_is_as_the_worker_was_started(slot: Slot) -> None:
    await (await slot.life(1)).set(TENANT, ONE)
    life = await slot.life(2)

    assert (life.runs, life.in_force) == (0, {})
    assert life.problem == "a process ended before it had proven this value"


async def test_the_next_value_is_tried_and_so_is_the_same_one_written_again(slot: Slot) -> None:
    await (await slot.life(1)).set(TENANT, ONE)
    life = await slot.life(2)
    await life.set(TENANT, TWO)
    assert (life.runs, life.problem) == (2, "")

    await (await slot.life(3)).set(TENANT, ONE)
    life = await slot.life(4)
    assert life.runs == 0
    slot.write(TENANT, ONE)
    assert (await slot.life(5)).runs == 1


async def test_a_value_is_good_when_the_worker_was_ready_with_it_for_long_enough(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    life.ready = False
    life.clock.advance(100)
    await life.look()
    life.ready = True
    await life.look()
    life.clock.advance(9.9)
    await life.look()
    assert life.count("proven") == 0
    life.clock.advance(0.1)
    await life.look()
    assert life.count("proven") == 1

    life = await slot.life(2)
    assert (life.runs, life.problem) == (1, "")
    assert not list(slot.folder.glob("*.trial.*"))  # nothing is tried that is known to be good


async def test_a_worker_that_is_not_ready_all_the_time_proves_nothing(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    for ready in (True, False, True):
        life.ready = ready
        await life.look()
        life.clock.advance(6)
    await life.look()

    assert life.count("proven") == 0


async def test_the_same_value_written_again_is_a_trial_of_its_own(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.set(TENANT, ONE)
    assert life.count("applied") == 1

    assert (await slot.life(2)).runs == 0


async def test_planned_end_of_a_process_fails_no_trial(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.config.close()
    life = await slot.life(2)
    assert (life.runs, life.problem) == (1, "")

    await life.config.close()
    await life.set(TENANT, TWO)
    assert life.runs == 1  # it begins nothing any more


async def test_close_during_a_slow_value_neither_waits_nor_fails_its_trial(
    slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "CLOSE", 600.0)
    life = await slot.life(1)
    life.kinds["number"].free.clear()
    taking = asyncio.create_task(life.set(TENANT, ONE))
    while ONE not in life.kinds["number"].prepared:
        await asyncio.sleep(0.001)
    assert list(slot.marked()) == ["number.trial.1"]
    async with asyncio.timeout(patient(30)):
        await life.config.close()
    await taking
    assert (life.runs, slot.marked()) == (0, {})


async def test_planned_end_of_a_process_keeps_its_failed_trial_on_record(slot: Slot) -> None:
    await (await slot.life(1)).set(TENANT, ONE)
    await (await slot.life(1)).config.close()

    assert (await slot.life(2)).runs == 0


async def test_a_wrong_value_at_a_start_leaves_the_last_good_one(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    slot.write(TENANT, BAD)
    life = await slot.life(2)

    assert life.runs == 1
    assert life.problem == "tenant/a: n: must not be negative; the last good one is in force"


async def test_a_damaged_file_gives_way_to_the_generation_before(slot: Slot) -> None:
    life = await slot.life(1)
    for value in (ONE, TWO):
        await life.set(TENANT, value)
        await life.proven()
    slot.write(TENANT, BAD)
    good = slot.folder / "number.json"
    good.write_bytes(good.read_bytes().replace(b"2", b"3", 1))

    assert (await slot.life(2)).runs == 1


async def test_a_last_good_value_that_is_wrong_by_now_is_not_used(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    slot.write(TENANT, BAD)
    number = Numbers()
    number.in_the_way = ConfigurationError("nothing is right any more")
    life = await slot.life(2, number=number)

    assert (life.runs, life.in_force) == (0, {})
    assert "nor can the last good one" in life.problem


async def test_what_was_unset_does_not_come_back_as_the_last_good_value(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    await life.proven()
    await life.set(TENANT, None)
    await life.set(TENANT, BAD)

    assert (await slot.life(2)).runs == 0


async def test_a_value_whose_trial_cannot_be_marked_is_not_taken_in(slot: Slot) -> None:
    life = await slot.life(1)
    slot.folder.write_bytes(b"in the way")
    await life.set(TENANT, ONE)
    assert life.runs == 0

    slot.folder.unlink()
    await life.look()
    assert life.runs == 1


async def test_a_good_value_that_cannot_be_kept_is_in_force_and_kept_later(slot: Slot) -> None:
    life = await slot.life(1)
    await life.set(TENANT, ONE)
    (slot.folder / "number.json").mkdir()
    await life.proven()
    assert (life.problem, life.count("proven")) == ("", 0)

    (slot.folder / "number.json").rmdir()
    await life.look()
    assert life.count("proven") == 1


def test_a_kind_is_followed_once(slot: Slot) -> None:
    life = Life(slot, 1)
    with pytest.raises(ValueError, match="followed twice"):
        life.config.follow(Numbers())


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ({"spec": {"minReadySeconds": 3}}, 3.0),
        ({"spec": {"minReadySeconds": 0}}, 0.0),
        ({"spec": {"minReadySeconds": True}}, 7.0),
        ({"spec": {"minReadySeconds": -1}}, 7.0),
        ({"spec": {"minReadySeconds": 10**400}}, 7.0),
        ({"spec": []}, 7.0),
        ([], 7.0),
    ],
)
async def test_fleet_decides_how_long_a_trial_lasts(written: Any, seconds: float) -> None:
    store = MemoryStore()
    assert await min_ready(store, "a", 7.0) == 7.0

    await store.put(keys.fleet("a"), json.dumps(written).encode())
    assert await min_ready(store, "a", 7.0) == seconds
    store.fail_reads()
    assert await min_ready(store, "a", 7.0) == 7.0


# --- in a worker ----------------------------------------------------------------------------------


async def put(store: MemoryStore, kind: str, target: str, value: Any) -> None:
    await store.put(keys.config(kind, target), json.dumps(value).encode())


async def told(stage: Stage) -> ConfigStatusRecord:
    found = await stage.store.get(keys.config_status("common", stage.loops.membership.slot, 1))
    return ConfigStatusRecord.model_validate_json(found.kv.value) if found.kv is not None else ConfigStatusRecord()


async def registration(stage: Stage) -> KeyValue:
    found = await stage.store.get(keys.instance("common", stage.loops.membership.slot, 1))
    assert found.kv is not None
    return found.kv


async def test_a_worker_takes_in_what_lies_in_etcd_before_it_serves() -> None:
    store = MemoryStore()
    await put(store, "cohort", "default", {"cohortMost": 3})
    for name in ("a", "b", "c"):
        await store.put(keys.pod("default", name), pod_bytes(name))
    async with Stage(store) as stage:
        await stage.until(lambda: stage.attempts.cohorts)

        assert (await told(stage)).in_force == {"cohort": digest({"cohortMost": 3})}


async def test_a_value_is_not_to_blame_for_an_etcd_that_went_back(tmp_path: Path) -> None:
    store, lock = MemoryStore(), tmp_path / "3.lock"
    await store.put(keys.grant("common", 0, 3), stored(Grant(revision=7, host="here")))
    stage = Stage(store, grant=GrantSettings(0, 3, revision=7, lock=lock))
    task = stage.begin()
    await stage.until(lambda: stage.loops.scheduling.shards.me)
    before = store.revision
    await put(store, "cohort", "tenant/common", {"cohortMost": 3})
    await stage.until(lambda: stage.loops.dynamic.follower("cohort").digest)
    assert [path.name for path in (tmp_path / "config").iterdir()] == ["cohort.trial.3"]

    store.restore(before)  # the value was seen; whether what the worker wrote since was, is chance
    with pytest.raises(RevisionWentBack):
        async with asyncio.timeout(patient(20.0)):
            await task
    assert list((tmp_path / "config").iterdir()) == []


async def test_cohorts_are_switched_off_and_on_while_a_worker_runs() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0)) as stage:
        follower = stage.loops.dynamic.follower("cohort")
        await put(stage.store, "cohort", "tenant/common", {"cohorts": "off"})
        await stage.until(lambda: follower.digest)
        for name in ("a", "b", "c"):
            await stage.put_pod(name)
        await stage.until(lambda: len(stage.attempts.started) == 3)
        assert not stage.attempts.cohorts

        await stage.store.delete(keys.config("cohort", "tenant/common"))
        await stage.until(lambda: not follower.digest)
        stage.loops.scheduling.dispatcher.serve(False)
        for name in ("d", "e", "f"):
            await stage.put_pod(name)
        await stage.until(lambda: stage.queue.ready() == 3)
        stage.loops.scheduling.dispatcher.serve(True)
        await stage.until(lambda: stage.attempts.cohorts)


async def test_refused_value_is_reported_without_rewriting_the_registration() -> None:
    async with Stage() as stage:
        before = await registration(stage)
        await put(stage.store, "cohort", "tenant/common", {"cohortMost": 501})
        follower = stage.loops.dynamic.follower("cohort")
        await stage.until(lambda: follower.problem)
        async with asyncio.timeout(patient(20)):
            while not (said := await told(stage)).problems:
                await asyncio.sleep(0.002)

        assert said.in_force == {}
        assert said.problems == {
            "cohort": "tenant/common: cohortMost: Input should be less than or equal to 500, not 501"
        }
        assert await registration(stage) == before


async def test_value_in_force_is_reported_again_after_etcd_did_not_answer() -> None:
    value = {"cohortMost": 3}
    async with Stage() as stage:
        before = await registration(stage)
        stage.own.fail_next(applied=False, error=Unavailable("lost", maybe_applied=True))
        await put(stage.store, "cohort", "tenant/common", value)
        async with asyncio.timeout(patient(20)):
            while not (said := await told(stage)).in_force:
                await asyncio.sleep(0.002)

        assert said.in_force == {"cohort": digest(value)}
        assert await registration(stage) == before


async def test_values_in_force_leave_and_return_with_the_registration() -> None:
    value = {"cohortMost": 3}
    async with Stage() as stage:
        await put(stage.store, "cohort", "tenant/common", value)
        await stage.until(lambda: stage.loops.dynamic.follower("cohort").digest)
        key = (await registration(stage)).key
        stage.store.drop_lease((await registration(stage)).lease)
        async with asyncio.timeout(patient(20)):
            while not (said := await told(stage)).in_force:
                await asyncio.sleep(0.002)

        assert said.in_force == {"cohort": digest(value)}
        found = [kv.key async for page in stage.store.list(keys.CONFIG_STATUS) for kv in page.items]
        assert found == [keys.config_status("common", stage.loops.membership.slot, 1)]
        assert (await registration(stage)).key != key


async def test_a_worker_says_by_which_profile_it_decides() -> None:
    async with Stage() as stage:
        async with asyncio.timeout(patient(20)):
            while not (said := await told(stage)).profiles:
                await asyncio.sleep(0.002)

        assert said.profiles == {name: one.digest for name, one in stage.loops._profiles.items()}
        assert said.profiles


async def test_a_key_that_names_no_target_is_reported_and_stops_nothing() -> None:
    async with Stage() as stage:
        await put(stage.store, "cohort", "nobody", {"cohorts": "off"})
        await put(stage.store, "unheard-of", "default", {})
        await stage.caught_up()

        assert list(stage.loops.scheduling.view.invalid.reasons) == [keys.config("cohort", "nobody")]


class CurfewArgs(PluginArgs):
    over: bool = False


class Curfew:
    """Holds every pod back until it is over."""

    name = "Curfew"

    def __init__(self, args: CurfewArgs) -> None:
        self._over = args.over

    def pre_enqueue(self, _: Pod) -> Status:
        return SUCCESS if self._over else unresolvable("it is dark")


@pytest.mark.parametrize("gang", [None, ("together", 2)])
async def test_pods_that_other_arguments_hold_back_no_more_are_started(gang: tuple[str, int] | None) -> None:
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Curfew"}]}}}]}
    started = load_configuration(config, catalog=Catalog([*catalog(), CatalogEntry("Curfew", Curfew, CurfewArgs)]))
    over = {"profiles": {"default-scheduler": {"pluginConfig": [{"name": "Curfew", "args": {"over": True}}]}}}
    profiles = InForce(started.profiles)
    async with Stage(profiles=profiles) as stage:
        for name in ("a", "b"):
            await stage.put_pod(name, gang=gang)
        await stage.until(lambda: stage.part("a") is stage.part("b") is Part.GATED)

        profiles.replace(overlay_configuration(started, read_value(ProfileValue, over), started).profiles)
        stage.loops.scheduling.reconfigured(gates=True)
        await stage.until(lambda: stage.attempts.gangs if gang else stage.attempts.cohorts)


HARD = {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 9}}


@pytest.mark.parametrize(
    ("overlay", "told"),
    [
        ({"weights": {"NodeResourcesFit": 7}}, []),
        ({"pluginConfig": [HARD]}, [False]),
        ({"weights": {"NodeResourcesFit": 7}, "pluginConfig": [{"name": "Curfew", "args": {"over": True}}]}, [True]),
    ],
)
async def test_waiting_pods_are_decided_again_only_where_that_may_help(
    overlay: dict[str, Any], told: list[bool]
) -> None:
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Curfew"}]}}}]}
    started = load_configuration(config, catalog=Catalog([*catalog(), CatalogEntry("Curfew", Curfew, CurfewArgs)]))
    profiles, store, heard = InForce(started.profiles), MemoryStore(), list[bool]()

    def overlaid(value: ProfileValue, running: Configured) -> Configured:
        return overlay_configuration(started, value, running)

    kind = ProfileKind(profiles, started, store=store, overlay=overlaid, said_at_start=False, changed=heard.append)
    (await kind.prepare({"profiles": {"default-scheduler": overlay}}))()

    assert heard == told
    digest = profiles["default-scheduler"].digest
    assert digest != started.profiles["default-scheduler"].digest
    assert (await store.get(keys.profile(digest))).kv is not None
    (await kind.prepare(None))()
    assert profiles["default-scheduler"] is started.profiles["default-scheduler"]
    assert heard == told * 2
