"""When the next group of pods starts: true group commit, as policy without I/O.

A group is the pods of one workflow run, one or many. In a quiet system a pod goes at once, alone. What arrives while
a group is on its way goes together into the next one. So the size of groups follows the load, etcd, Temporal and the
processor, without a measurement of any of them.
"""

from __future__ import annotations

from collections import deque

REMEMBERED = 16
"""Groups of which it is known how long they took."""


class Window:
    """The groups that count: those of whose pods etcd, or a Kubernetes API, has not told all. For one event loop."""

    def __init__(self, most_pods: int, most_groups: int, *, task_timeout: float) -> None:
        """`most_pods`: of one group; `most_groups`: at a time; `task_timeout`: Temporal's, of workflow tasks, in
        seconds. After it, a group has lost its worker, or an outage holds it.
        """
        self._task_timeout = task_timeout
        self._began: dict[str, float] = {}
        self._took: deque[float] = deque(maxlen=REMEMBERED)
        self._probing = False
        self._probe = ""
        """The last group that probed."""
        self.acceptances = 0
        """Starts of groups that Temporal has accepted."""
        self.configure(most_pods, most_groups)

    def configure(self, most_pods: int, most_groups: int) -> None:
        """Go by these from now on."""
        self._most_pods = most_pods
        self._most_groups = most_groups

    def __len__(self) -> int:
        return len(self._began)

    def __contains__(self, group: str) -> bool:
        return group in self._began

    @property
    def size(self) -> int:
        """How many pods the next group takes at most."""
        return 1 if self._probing else self._most_pods

    def began(self, group: str, now: float) -> None:
        """The group counts from now on."""
        self._began[group] = now
        if self._probing:
            self._probe = group

    def ended(self, group: str, now: float, *, told: bool = True) -> None:
        """The group counts no more. `told`: because it was told of all its pods, so it shows how long groups take."""
        began = self._began.pop(group, None)
        if began is not None and told:
            self._took.append(now - began)

    def accepted(self) -> None:
        """Temporal accepted the start of a group."""
        self._probing, self._probe = False, ""
        self.acceptances += 1

    def failed(self) -> None:
        """The start of a group failed for good: one pod at a time probes until Temporal accepts one again."""
        self._probing = True

    def may_start(self, ready: int, now: float) -> bool:
        """Whether the next group starts now, of so many pods that are ready."""
        if not ready or len(self._began) >= self._most_groups:
            return False
        if not self._began:
            return True
        if self._probe in self._began:
            return False
        # A flood: several full groups at once.
        return (ready >= self._most_pods and not self._probing) or len(self.overdue(now)) == len(self)

    def overdue(self, now: float) -> list[str]:
        """The groups that take longer than usual."""
        patience = self._patience()
        return [group for group, began in self._began.items() if now >= began + patience]

    def overdue_at(self) -> float | None:
        """When the last of the groups that count becomes overdue, in clock seconds.

        None when that lets no group start: none counts, or as many as may, or one of them probes.
        """
        if not self._began or self._probe in self._began or len(self._began) >= self._most_groups:
            return None
        return max(self._began.values()) + self._patience()

    def _patience(self) -> float:
        return min(2 * max(self._took, default=self._task_timeout), self._task_timeout)
