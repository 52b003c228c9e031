"""A small model of the original's scheduler manager: two maps, a count, and the decision that running must be wanted.

It follows how that manager was read (one Go file, every callback a goroutine): a step kills one instance, sleeps 10 s
and creates the same id; any other difference than a template while all run is a full update, which kills all and sleeps
10 s; events of etcd kill what has the wrong signature and recreate what was deleted; a delete that meets a create of
the same id crashes the process. Where the reading is unsure, the model takes what loses less: creations never fail by
themselves, ids that are used again after a full update are not slept for once more, and a crashed controller is back
in 15 s with the configuration that it had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.properties.fleet_world.timeline import Timeline

SLEEP = 10.0
"""Between a kill and the create of the same id."""
BACK = 15.0
"""Seconds until a crashed controller runs again."""

Then = Callable[[bool], object]


@dataclass(slots=True)
class Instance:
    """One process, as etcd shows it."""

    version: str
    status: Literal["creating", "running", "sub-health", "exiting"] = "creating"


@dataclass(slots=True)
class Update:
    """The context of one update."""

    cancelled: bool = False


class Original:
    """The manager of the common pool."""

    def __init__(
        self,
        timeline: Timeline,
        rng: Random,
        replicas: int,
        *,
        start: Callable[[], float],
        leave: Callable[[], float],
    ) -> None:
        """`start`, `leave`: seconds that an instance takes to be ready, and to end."""
        self._timeline = timeline
        self._rng = rng
        self._start = start
        self._leave = leave
        self.version = "v1"
        self.count = replicas
        self.broken: set[str] = set()
        """Versions whose instances never start."""
        self.live = {f"id-{number}": Instance("v1", "running") for number in range(replicas)}
        self._cache: dict[str, Instance | None] = dict(self.live)
        """id -> what is known of it; None = it was just created."""
        self._terminal: set[str] = set()
        self._creating: set[str] = set()
        self._known = set(self.live)
        self._update = Update()
        self._life = 0
        self._ids = replicas

    @property
    def serving(self) -> int:
        """Instances that serve."""
        return sum(instance.status == "running" for instance in self.live.values())

    def _later(self, delay: float, act: Callable[..., object], *args: object) -> None:
        """A goroutine of this controller: gone when it crashes."""
        life = self._life
        self._timeline.after(delay, lambda: act(*args) if life == self._life else None)

    # --- configuration ------------------------------------------------------------------------

    def configure(self, version: str, count: int) -> None:
        """The signal with the whole configuration; the same once more is no change."""
        if (version, count) == (self.version, self.count):
            return
        self._update.cancelled = True
        self.version, self.count = version, count
        self._update = Update()
        self._later(0.01, self._roll, self._update)

    def _roll(self, update: Update) -> None:
        running = sum(known is not None and known.status == "running" for known in self._cache.values())
        outdated = {name for name, known in self._cache.items() if known is None or known.version != self.version}
        self._terminal |= outdated
        for name in outdated:
            del self._cache[name]
        if running != self.count:
            self._replace_all(update)
        else:
            self._step(update)

    def _replace_all(self, update: Update) -> None:
        """The full update."""
        going = [*self._terminal, *self._cache]
        self._terminal.clear()
        self._cache.clear()
        left = len(going)

        def gone(_: bool) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self._later(SLEEP, self._bring_to_count, update)

        for name in going:
            self._kill(name, gone)
        if not going:
            gone(True)

    def _step(self, update: Update) -> None:
        """One turn of the rolling loop."""
        if update.cancelled:
            return
        if len(self._cache) == self.count:
            for name in self._terminal:
                self._kill(name)
            self._terminal.clear()
        elif not self._terminal:
            self._bring_to_count(update)
        else:
            name = self._rng.choice(sorted(self._terminal))
            self._terminal.discard(name)

            def created(fine: bool) -> None:
                if fine:
                    self._step(update)

            self._kill(name, lambda _: self._later(SLEEP, self._create, name, created, update))

    def _bring_to_count(self, update: Update | None, pause: float = 0.0) -> None:
        missing = self.count - len(self._cache)
        if missing < 0:
            for name in self._rng.sample(sorted(self._cache), -missing):
                self._kill(name)
            return
        again = sorted(self._known - set(self._cache))[:missing]
        for name in again:
            self._later(pause, self._create, name, lambda _: None, update)
        for _ in range(missing - len(again)):
            self._ids += 1
            self._create(f"id-{self._ids}", lambda _: None, update)

    # --- create and kill ----------------------------------------------------------------------

    def _create(self, name: str, then: Then, update: Update | None) -> None:
        if name in self._creating:  # busy: success
            then(True)
            return
        if name in self.live:  # duplicated: success
            self._cache.setdefault(name, None)
            then(True)
            return
        if update is not None:
            self._creating.add(name)  # with a cancel function that is nil
        instance = self.live[name] = Instance(self.version)
        self._known.add(name)
        self._timeline.after(self._start(), self._started, name, instance, then, self._life)

    def _started(self, name: str, instance: Instance, then: Then, life: int) -> None:
        if self.live.get(name) is not instance or instance.status != "creating":
            return
        fine = instance.version not in self.broken
        if fine:
            instance.status = "running"
            self._later(self._rng.uniform(0.02, 0.3), self._put, name, instance)
        else:
            del self.live[name]
        if life == self._life:
            self._creating.discard(name)
            if fine:
                self._cache.setdefault(name, None)
            then(fine)

    def _kill(self, name: str, then: Then = lambda _: None) -> None:
        instance = self.live.get(name)
        if instance is None or instance.status == "exiting":
            then(True)
            return
        instance.status = "exiting"
        life = self._life

        def gone() -> None:
            if self.live.get(name) is instance:
                del self.live[name]
                self._later(self._rng.uniform(0.02, 0.5), self._deleted, name, instance)
            if life == self._life:
                then(True)

        self._timeline.after(self._leave(), gone)

    # --- events -------------------------------------------------------------------------------

    def _put(self, name: str, instance: Instance) -> None:
        if instance.status == "exiting":
            return
        if instance.version != self.version:
            if name not in self._terminal:
                self._kill(name)
        elif name in self._cache:
            self._cache[name] = instance
        elif len(self._cache) >= self.count:
            self._kill(name)
        else:
            self._cache[name] = instance

    def _deleted(self, name: str, instance: Instance) -> None:
        self._cache.pop(name, None)
        if name in self._creating:
            self.crash()  # calls a nil function
        elif instance.version == self.version and len(self._cache) < self.count:
            self._create(name, lambda _: None, None)

    # --- faults -------------------------------------------------------------------------------

    def crash(self, version: str = "") -> None:
        """The controller's process is gone; when it is back, perhaps another configuration is wanted."""
        self._life += 1
        self._creating.clear()
        self._terminal.clear()
        self._cache.clear()
        self._later(BACK, self._begin, version or self.version)

    def _begin(self, version: str) -> None:
        self.version = version
        for name, instance in list(self.live.items()):
            if instance.version == version:
                self._cache[name] = instance
            else:
                self._later(self._rng.uniform(0.02, 0.5), self._put, name, instance)
        self._update = Update()
        self._bring_to_count(self._update, SLEEP)

    def sicken(self, seconds: float) -> None:
        """One instance is below health for a while."""
        name = self._rng.choice(sorted(self.live))
        instance = self.live[name]
        instance.status = "sub-health"

        def recover() -> None:
            if instance.status == "sub-health":
                instance.status = "running"

        self._timeline.after(seconds, recover)

    def lose(self) -> None:
        """One instance crashes; the kernel tells."""
        name = self._rng.choice(sorted(self.live))
        instance = self.live.pop(name)
        instance.status = "exiting"
        self._later(self._rng.uniform(0.02, 0.5), self._deleted, name, instance)
