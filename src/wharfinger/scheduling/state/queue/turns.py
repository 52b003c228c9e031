"""Namespaces take turns: of pods of equal priority, each namespace with pods that can be started gives one at a time.

This is start-time fair queueing (Goyal, Vin and Cheng, 1996) with a pod for the unit of service. Each namespace has a
tag, which grows by one with each pod that it gives. A namespace that had no pods for a while starts at the tag of the
pod that was given last, so that idle time is not saved up. The smallest tag goes first. Within a namespace the order of
the profile's QueueSort holds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.entry import GARBAGE, Entry, EntryHeap

Share = tuple[int, str]
"""Whose turns are taken: minus the priority, and the namespace. All pods have one share where no turns are taken."""


def one_share(_pod: Pod) -> Share:
    """First come, first served, or whatever the QueueSort says."""
    return 0, ""


def by_namespace(pod: Pod) -> Share:
    """The namespaces of each priority take turns."""
    return -pod.priority, pod.namespace


@dataclass(slots=True)
class _Rank:
    """The pods of one priority."""

    ready: int = 0
    """How many can be started."""
    given: int = 0
    """The tag of the one that was given last."""
    tags: dict[str, int] = field(default_factory=dict)
    """By namespace: the tag of its next pod, where it has given one."""
    most: int = GARBAGE
    """Tags from which on those are dropped that would be due anyway."""


class Turns:
    """The tags, shared by all heaps of a queue."""

    def __init__(self, share_of: Callable[[Pod], Share] = one_share) -> None:
        self.share_of = share_of
        self.given = 0
        """How often a share gave pods: as long as it is the same, no tag is another."""
        self._ranks: dict[int, _Rank] = {}

    def tag(self, share: Share) -> int:
        """When it is the share's turn: the smallest goes first among those of one priority."""
        rank = self._ranks[share[0]]
        return max(rank.given, rank.tags.get(share[1], 0))

    def give(self, share: Share, pods: int = 1) -> None:
        """The share gives so many pods in its turn; at least one of them can be started until now."""
        self.given += 1
        rank = self._ranks[share[0]]
        rank.given = self.tag(share)
        rank.tags[share[1]] = rank.given + pods
        if len(rank.tags) > rank.most:
            rank.tags = {space: tag for space, tag in rank.tags.items() if tag > rank.given}
            rank.most = 2 * len(rank.tags) + GARBAGE

    def came(self, share: Share) -> None:
        """A pod of the share can be started."""
        self._ranks.setdefault(share[0], _Rank()).ready += 1

    def left(self, share: Share) -> None:
        """It was given, or can be started no more."""
        rank = self._ranks[share[0]]
        rank.ready -= 1
        if not rank.ready:  # no pod of this priority waits
            del self._ranks[share[0]]


class _Head(NamedTuple):
    """A share's place among the others."""

    rank: int
    tag: int
    order: Any
    """Of its first pod."""
    space: str

    @property
    def share(self) -> Share:
        return self.rank, self.space


class FairHeap:
    """Entries by turns of their shares, and by an order within a share; one a pod."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._shares: dict[Share, EntryHeap] = {}
        self._share_of: dict[PodKey, Share] = {}
        self._stands: dict[Share, _Head] = {}
        self._heads: list[_Head] = []
        """A heap. An item counts while it is what its share stands for."""
        self._first: tuple[int, tuple[_Head, Entry]] | None = None
        """What `first` found when so many turns had been given; None = it has to look again."""

    def __len__(self) -> int:
        return len(self._share_of)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._share_of

    def __iter__(self) -> Iterator[Entry]:
        """The entries, in no order."""
        return (entry for heap in self._shares.values() for entry in heap)

    def push(self, entry: Entry, order: Any) -> None:
        """Put the entry in, or to another place when its order is another."""
        share = self._turns.share_of(entry.pod)
        known = self._share_of.get(entry.key)
        if known is not None and known != share:
            self.discard(entry.key)
            known = None
        if known is None:
            self._share_of[entry.key] = share
            self._turns.came(share)
        heap = self._shares.get(share)
        if heap is None:
            heap = self._shares[share] = EntryHeap()
        heap.push(entry, order)
        stands = self._stands.get(share)
        if known is not None or stands is None or order < stands.order:  # else another pod goes first as before
            self._stand(share)

    def discard(self, key: PodKey) -> bool:
        """Take the pod's entry out; whether it was in."""
        share = self._share_of.get(key)
        if share is None:
            return False
        self._shares[share].discard(key)
        self._left(share, key)
        return True

    def first(self) -> tuple[_Head, Entry] | None:
        """The place of the first entry, comparable with that of another heap of the same turns, and the entry."""
        if self._first is not None and self._first[0] == self._turns.given:
            return self._first[1]
        while self._heads:
            head = self._heads[0]
            if self._stands.get(head.share) is head and self._stand(head.share) is head:
                found = self._shares[head.share].first()
                assert found is not None
                self._first = self._turns.given, (head, found[1])
                return self._first[1]
            if self._heads[0] is head:
                heapq.heappop(self._heads)
        return None

    def pop(self) -> Entry | None:
        """The first entry, taken out, which was its share's turn; None when there is none."""
        found = self.first()
        if found is None:
            return None
        share = found[0].share
        entry = self._shares[share].pop()
        assert entry is not None
        self._turns.give(share)
        self._left(share, entry.key)
        return entry

    def _left(self, share: Share, key: PodKey) -> None:
        del self._share_of[key]
        self._turns.left(share)
        if self._shares[share]:
            self._stand(share)
        else:
            self._first = None
            del self._shares[share], self._stands[share]

    def _stand(self, share: Share) -> _Head:
        """Where the share stands now, with its first pod and its tag."""
        self._first = None
        first = self._shares[share].first()
        assert first is not None
        head = _Head(share[0], self._turns.tag(share), first[0], share[1])
        known = self._stands.get(share)
        if known == head:
            return known
        self._stands[share] = head
        if len(self._heads) > 2 * len(self._shares) + GARBAGE:
            self._heads = list(self._stands.values())
            heapq.heapify(self._heads)
        else:
            heapq.heappush(self._heads, head)
        return head
