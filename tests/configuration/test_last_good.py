"""What a slot remembers of its dynamic configuration on disk, whatever happens to the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from wharfinger.configuration.last_good import Good, LastGood, LastGoodFiles, TriedValue, of_hand_started

ONE, TWO, NONE = Good({"level": "debug"}), Good({"level": "error"}), Good(None)
TRIAL = TriedValue("d" * 64, 7)


class Slot:
    """The folder of one slot, whose incarnations come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "config"
        self.alive: set[int] = set()

    def files(self, incarnation: int) -> LastGoodFiles:
        self.alive.add(incarnation)
        return LastGoodFiles(self.folder, incarnation, self.alive.__contains__)

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def test_nothing_is_known_of_a_slot_without_files(slot: Slot) -> None:
    assert slot.files(1).load("log") is None
    assert slot.files(1).failed("log") == []


@pytest.mark.parametrize("good", [ONE, NONE])
def test_what_is_good_is_known_to_the_next_life(slot: Slot, good: Good) -> None:
    slot.files(1).keep("log", good)

    assert slot.files(2).load("log") == good
    assert slot.files(2).load("queue") is None


def test_the_generation_before_is_kept(slot: Slot) -> None:
    slot.files(1).keep("log", ONE)
    slot.files(1).keep("log", TWO)
    (slot.folder / "log.json").unlink()  # as a crash between the two renames leaves it

    assert slot.files(2).load("log") == ONE


def test_the_same_value_again_writes_nothing(slot: Slot) -> None:
    slot.files(1).keep("log", ONE)
    slot.files(1).keep("log", TWO)
    before = (slot.folder / "log.json").stat().st_ino
    slot.files(1).keep("log", TWO)

    assert (slot.folder / "log.json").stat().st_ino == before
    (slot.folder / "log.json").unlink()
    assert slot.files(1).load("log") == ONE


def test_any_flipped_byte_is_noticed_and_the_generation_before_used(slot: Slot) -> None:
    slot.files(1).keep("log", ONE)
    slot.files(1).keep("log", TWO)
    current = slot.folder / "log.json"
    whole = current.read_bytes()
    for place in range(len(whole)):
        current.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert slot.files(1).load("log") == ONE, whole[: place + 1]


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"[1]", b"\xff", b"[" * 100_000, b'{"sha256": 1}'])
def test_a_file_that_is_damaged_is_no_value_and_no_generation(slot: Slot, content: bytes) -> None:
    slot.files(1).keep("log", ONE)
    slot.files(1).keep("log", TWO)
    (slot.folder / "log.json").write_bytes(content)
    slot.files(1).keep("log", TWO)
    (slot.folder / "log.json").write_bytes(content)

    assert slot.files(1).load("log") == ONE


def test_a_file_of_another_kind_in_its_place_is_not_used(slot: Slot) -> None:
    slot.files(1).keep("log", ONE)
    (slot.folder / "log.json").rename(slot.folder / "queue.json")

    assert slot.files(1).load("queue") is None


def test_a_trial_has_failed_when_its_process_is_dead(slot: Slot) -> None:
    slot.files(1).begin("log", TRIAL)
    assert slot.files(2).failed("log") == []

    slot.alive.discard(1)
    assert slot.files(2).failed("log") == [TRIAL]
    assert slot.files(2).failed("queue") == []


def test_failed_trial_is_reported_at_each_start_until_the_value_changes(slot: Slot) -> None:
    slot.files(1).begin("log", TRIAL)
    slot.alive.clear()
    slot.files(2)
    slot.alive.clear()

    assert slot.files(3).failed("log") == [TRIAL]
    slot.files(3).forget_failed("log")
    assert slot.files(3).failed("log") == []


def test_process_restarted_under_its_number_finds_its_own_trial(slot: Slot) -> None:
    slot.files(1).begin("log", TRIAL)

    assert slot.files(1).failed("log") == [TRIAL]


def test_trial_ends_with_a_proven_value_or_a_planned_end(slot: Slot) -> None:
    slot.files(1).begin("log", TRIAL)
    slot.files(1).keep("log", ONE)
    assert slot.names == ["log.json"]

    slot.files(1).begin("log", TRIAL)
    slot.files(1).end("log")
    assert slot.names == ["log.json"]


def test_another_life_of_the_slot_that_is_still_trying_is_left_alone(slot: Slot) -> None:
    slot.files(1).begin("log", TRIAL)
    slot.files(2).forget_failed("log")
    slot.files(2).end("log")

    slot.alive.discard(1)
    assert slot.files(2).failed("log") == [TRIAL]


def test_a_marker_that_cannot_be_read_accuses_nothing(slot: Slot) -> None:
    slot.files(1).begin("log", TRIAL)
    (slot.folder / "log.trial.1").write_bytes(b"?")
    (slot.folder / "log.trial.x").write_bytes(b"?")
    slot.alive.clear()

    assert slot.files(2).failed("log") == []


def test_workers_started_by_hand_share_what_is_good_and_see_who_died(tmp_path: Path) -> None:
    first, second = of_hand_started(tmp_path / "common"), of_hand_started(tmp_path / "common")
    first.begin("log", TRIAL)
    assert second.failed("log") == []  # the first one lives: this process has its lock
    first.keep("log", ONE)
    assert second.load("log") == ONE

    dead = LastGoodFiles(tmp_path / "common" / "config", 7, alive=lambda _: True)
    dead.begin("log", TRIAL)  # no process has the seventh lock
    assert second.failed("log") == [TRIAL]


def test_worker_that_may_not_write_says_so_and_remembers_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert type(of_hand_started(tmp_path / "file" / "common")) is LastGood
    assert "last_good_not_kept" in caplog.text
