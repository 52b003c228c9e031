"""Binds of this worker that a Kubernetes API has not answered or shown yet, though etcd may show their pods bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager

from wharfinger.objects.model.pod import PodKey

Report = Callable[[Collection[PodKey]], None]


class UnansweredBinds:
    """The pods of these binds. Lives on one event loop.

    Those that the API has bound are in until their copies show it: they come with new pods, which start together then.
    """

    def __init__(self) -> None:
        self._pods: set[PodKey] = set()
        self._report: Report = lambda _pods: None

    def __contains__(self, key: PodKey) -> bool:
        return key in self._pods

    def on_answer(self, report: Report) -> None:
        """Call `report` with pods of each bind that ends from now on, but for those whose copies are to show it."""
        self._report = report

    @contextmanager
    def of(self, pods: Collection[PodKey], promised: Container[PodKey] = ()) -> Iterator[set[PodKey]]:
        """Contain these pods inside the block, which ends with the answers, or with the try to get them.

        Pods that the block adds to the set are bound in the API. Those of them that are `promised` stay until `shown`.
        """
        self._pods.update(pods)
        bound: set[PodKey] = set()
        try:
            yield bound
        finally:
            ended = [pod for pod in pods if pod not in bound or pod not in promised]
            self._pods.difference_update(ended)
            self._report(ended)

    def shown(self, pod: PodKey) -> None:
        """Etcd has no promise of the pod any more."""
        self._pods.discard(pod)
