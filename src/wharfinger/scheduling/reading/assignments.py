"""Which pod was bound to which node, as a stream that survives reconnects and compaction.

::

    list at the start ──► known: the lives of pods that are bound
          │
        watch ── a pod gets its node ──► Assignment
          │  └── compacted ──► list again: what is bound and not known ──► Assignment

Each life of a pod comes once. A slow consumer slows the watch down: nothing is buffered here beyond one revision, or
one list. Memory grows with the number of bound pods, one short entry each.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from wharfinger.errors import Compacted, InvalidObject, RevisionFuture, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, Get, KeyValue, Store
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.formats import ObjectFormat, format_of
from wharfinger.objects.documents.metadata import attempt_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.pressure import delays
from wharfinger.process.records import binder_of

T = TypeVar("T")

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.2, 5.0
"""Seconds between two tries to list again."""
LISTS = 5
"""Times that a list is begun again because etcd compacted what it was reading."""
READS = 100
"""Records read in one transaction; etcd takes 128 operations unless set."""


class AssignedPod(NamedTuple):
    """A bound pod, as far as its record has to agree with it."""

    key: PodKey
    create_revision: int
    node: str


async def binders_of(store: Store, pods: Iterable[AssignedPod], revision: int) -> Mapping[PodKey, str]:
    """`<workflow id>@<run id>` by pod, of those that an attempt bound. Raises the store's errors.

    A record goes with its pod. So what is not there now is looked for at the revision of the bind, while etcd keeps it.
    """
    found: dict[PodKey, str] = {}
    left = iter(pods)
    while chunk := list(islice(left, READS)):
        answer = await store.txn([], [Get(keys.bound_by(*pod.key)) for pod in chunk])
        for pod, kv in zip(chunk, answer.reads, strict=True):
            found[pod.key] = binder_of(kv.value if kv is not None else None, pod.create_revision, pod.node)
            if not found[pod.key]:
                found[pod.key] = await _then(store, pod, revision)
    return found


async def _then(store: Store, pod: AssignedPod, revision: int) -> str:
    try:
        kv = (await store.get(keys.bound_by(*pod.key), revision=revision)).kv
    except (Compacted, RevisionFuture):
        return ""
    return binder_of(kv.value if kv is not None else None, pod.create_revision, pod.node)


async def listed_binders(store: Store, pods: Sequence[AssignedPod], revision: int) -> Mapping[PodKey, str]:
    """The same by one list, as of a revision; for many pods. Raises the store's errors."""
    if not pods:
        return {}
    values = {kv.key: kv.value async for kv in store.each(keys.BOUND_BY, revision=revision)}
    return {pod.key: binder_of(values.get(keys.bound_by(*pod.key)), pod.create_revision, pod.node) for pod in pods}


@dataclass(frozen=True, slots=True)
class Assignment:
    """One pod that got its node."""

    namespace: str
    name: str
    uid: str
    """Of a pod of rk8s: `rev-` and its create revision, as in its workflow id."""
    node: str
    workflow_id: str
    """Of the attempt, cohort or gang that bound the pod (annotation `wharfinger.dev/attempt`; of a pod of rk8s, the
    record beside it); empty = another did."""
    run_id: str
    revision: int
    """Of etcd: when the pod was bound; of a pod that a list showed, the revision of the list."""
    complete: bool = False
    """Whether this is the last assignment of its revision. Then `revision + 1` is where to resume."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound pod, and which life of it."""

    key: str
    life: int
    """Create revision."""
    assignment: Assignment

    @property
    def pod(self) -> AssignedPod:
        """As its record has to name it."""
        return AssignedPod(PodKey(self.assignment.namespace, self.assignment.name), self.life, self.assignment.node)


async def watch_assignments(
    store: Store, from_revision: int | None = None, *, rng: random.Random | None = None
) -> AsyncGenerator[Assignment, None]:
    """Every assignment from a revision on; see `Wharfinger.watch_assignments`."""
    format_ = format_of(store.format)
    rng = rng or random.Random()  # noqa: S311 - spreads retries, no secret
    known: dict[str, int] = {}
    if from_revision is None or from_revision <= 0:
        found, revision = await _list_now(store)
        known = {one.key: one.life for one in found}
        for assignment in _numbered(found, revision) if from_revision is not None else ():
            yield assignment
    else:
        revision = from_revision - 1
        found, _ = await _list_before(store, from_revision)
        known = {one.key: one.life for one in found}
    while True:
        try:
            async with store.watch(keys.PODS, revision + 1) as batches:
                async for batch in batches:
                    news = [one for event in batch.events if (one := _news(event, known, format_)) is not None]
                    if news and not format_.marks_pods:
                        news = await _with_binders(store, news, batch.revision, rng)
                    for assignment in _numbered(news, batch.revision):
                        yield assignment
                    revision = batch.revision
            return  # the store was closed
        except Compacted as error:
            log.info("assignments_listed_again revision=%d compacted=%d", revision, error.compact_revision)
        except Unavailable as error:
            log.warning("assignments_interrupted revision=%d error=%r", revision, str(error))
        found, revision = await _answered(
            lambda: _list_now(store), rng, lambda why: log.warning("assignments_list_failed error=%r", why)
        )
        news = [one for one in found if known.get(one.key) != one.life]
        known = {one.key: one.life for one in found}
        for assignment in _numbered(news, revision):
            yield assignment


def _news(event: Event, known: dict[str, int], format_: ObjectFormat) -> _Bound | None:
    """The assignment that an event is; None for what is none, or was reported. Keeps `known` as of the event."""
    if event.deleted:
        known.pop(event.kv.key, None)
        return None
    if known.get(event.kv.key) == event.kv.create_revision:
        return None
    found = _bound(event.kv, format_)
    if found is None:
        known.pop(event.kv.key, None)
        return None
    known[found.key] = found.life
    return found


def _numbered(found: list[_Bound], revision: int) -> Iterator[Assignment]:
    """The assignments of one revision, in order; the last one is marked."""
    last = len(found) - 1
    for number, one in enumerate(found):
        yield replace(one.assignment, revision=revision, complete=number == last)


async def _list(store: Store, at: int) -> tuple[list[_Bound], int]:
    """The bound pods as of a revision (0 = now), and that revision. Raises the store's errors."""
    format_ = format_of(store.format)
    found: list[_Bound] = []
    revision = at
    async for page in store.list(keys.PODS, revision=at):
        found += [one for kv in page.items if (one := _bound(kv, format_)) is not None]
        revision = page.revision
    if not format_.marks_pods:
        found = _named(found, await listed_binders(store, [one.pod for one in found], revision))
    return found, revision


async def _list_now(store: Store) -> tuple[list[_Bound], int]:
    """The same as of now; begun again when etcd compacts while it is read."""
    for left in reversed(range(LISTS)):
        try:
            return await _list(store, 0)
        except Compacted:
            if not left:
                raise
    raise AssertionError("not reached")


async def _list_before(store: Store, from_revision: int) -> tuple[list[_Bound], int]:
    """What was bound already just before a revision. Raises `Compacted` when etcd does not keep that any more."""
    if from_revision == 1:
        return [], 0
    try:
        return await _list(store, from_revision - 1)
    except Compacted as error:
        raise Compacted(
            f"the assignments since revision {from_revision} are no longer kept, and which of the bound pods are new "
            "cannot be known: start with from_revision=0, which reports every bound pod",
            compact_revision=error.compact_revision,
        ) from error


async def _with_binders(store: Store, found: list[_Bound], revision: int, rng: random.Random) -> list[_Bound]:
    """The same with what bound them, as soon as etcd answers."""
    pods = [one.pod for one in found]
    return _named(
        found,
        await _answered(
            lambda: binders_of(store, pods, revision),
            rng,
            lambda why: log.warning("assignments_binders_unknown error=%r", why),
        ),
    )


async def _answered(ask: Callable[[], Awaitable[T]], rng: random.Random, failed: Callable[[str], None]) -> T:
    """What etcd answers, as soon as it does; `failed` is told why each time that it does not."""
    for delay in delays(FIRST_DELAY, LONGEST_DELAY, rng):
        try:
            return await ask()
        except (Unavailable, Compacted) as error:
            failed(str(error))
        await asyncio.sleep(delay)
    raise AssertionError("delays are endless")


def _named(found: list[_Bound], binders: Mapping[PodKey, str]) -> list[_Bound]:
    named = []
    for one in found:
        workflow_id, _, run_id = binders.get(one.pod.key, "").rpartition("@")
        named.append(replace(one, assignment=replace(one.assignment, workflow_id=workflow_id, run_id=run_id)))
    return named


def _bound(kv: KeyValue, format_: ObjectFormat) -> _Bound | None:
    """The bound pod that is stored; None for a pending one, and for what is no pod."""
    if not format_.marks_pods:
        return _bound_document(kv, format_)
    try:
        obj = documents.parse(kv.value)
    except InvalidObject:
        return None
    node = _text(_part(obj, "spec"), "nodeName")
    if not node:
        return None
    metadata = _part(obj, "metadata")
    namespace, _, name = kv.key.removeprefix(keys.PODS).partition("/")
    workflow_id, _, run_id = attempt_of(obj).rpartition("@")
    uid = _text(metadata, "uid") or f"rev-{kv.create_revision}"
    return _Bound(kv.key, kv.create_revision, Assignment(namespace, name, uid, node, workflow_id, run_id, 0))


def _bound_document(kv: KeyValue, format_: ObjectFormat) -> _Bound | None:
    """The same of a format whose pods do not carry what bound them."""
    namespace, _, name = kv.key.removeprefix(keys.PODS).partition("/")
    life = kv.create_revision
    try:
        pod: Pod | None = format_.decode_pod(kv.value, namespace=namespace, name=name, create_revision=life)
    except InvalidObject:
        pod = format_.decode_occupant(kv.value, namespace=namespace, name=name, create_revision=life)
    if pod is None or not pod.bound:
        return None
    return _Bound(kv.key, life, Assignment(namespace, name, pod.uid, pod.node_name, "", "", 0))


def _part(obj: Any, name: str) -> dict[str, Any]:
    found = obj.get(name) if isinstance(obj, dict) else None
    return found if isinstance(found, dict) else {}


def _text(obj: dict[str, Any], name: str) -> str:
    found = obj.get(name)
    return found if isinstance(found, str) else ""
