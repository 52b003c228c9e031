"""Binds of this worker that a Kubernetes API has not answered yet, though etcd may show their pods bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from wharfinger.model.pod import PodKey

Report = Callable[[Collection[PodKey]], None]


class UnansweredBinds:
    """The pods of these binds. Lives on one event loop."""

    def __init__(self) -> None:
        self._pods: set[PodKey] = set()
        self._report: Report = lambda _pods: None

    def __contains__(self, key: PodKey) -> bool:
        return key in self._pods

    def on_answer(self, report: Report) -> None:
        """Call `report` with the pods of each bind that ends from now on."""
        self._report = report

    @contextmanager
    def of(self, pods: Collection[PodKey]) -> Iterator[None]:
        """Contain these pods inside the block, which ends with the answers, or with the try to get them."""
        self._pods.update(pods)
        try:
            yield
        finally:
            self._pods.difference_update(pods)
            self._report(pods)
