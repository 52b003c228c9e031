"""`wharfinger get --watch`: the table first, then a row for every change.

A node's row is printed again when its own object or what its pods use changes, and a pod's when its attempt record
changes, where pods do not carry refusals themselves, or when the Kubernetes API has shown its promised bind. When etcd
has compacted what was to be watched next, the list is printed anew. A pod's row is printed again, too, when its gang
begins to hold it back, or stops. Priority classes and PodGroups are those of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import typer

from wharfinger.cli.objects.rows import Usage, columns, table_rows
from wharfinger.cli.objects.shown import to_texts
from wharfinger.cli.objects.stored import (
    Stored,
    attempt_records,
    every,
    priority_classes,
    promised,
    read,
    record_key,
    refused,
    resolved,
)
from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import Columns, Output, plain
from wharfinger.cli.understand.gangs import pod_groups
from wharfinger.client.installations import has_copies
from wharfinger.contracts.records import AttemptRecord
from wharfinger.errors import Compacted
from wharfinger.manifests.formats import ObjectFormat, format_of
from wharfinger.manifests.kinds import NODE, POD, Kind
from wharfinger.model.gang import GangKey, PodGroup, gang_key, standing
from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.priority import PriorityClasses
from wharfinger.observe.upstream_pods import promised_pod, promises_of
from wharfinger.registry import keys
from wharfinger.registry.store import Event, KeyValue, Store


async def follow(connection: ConnectionOptions, kind: Kind, namespace: str, name: str, output: Output) -> None:
    """Print what there is, then every change, until interrupted."""
    async with connection.store() as store:
        await show_changes(store, kind, namespace, name, output)


async def show_changes(store: Store, kind: Kind, namespace: str, name: str, output: Output) -> None:
    """The same, of a store that is open."""
    view = _View(kind, namespace, name, output, format_of(store.format))
    while True:
        try:
            await _follow(store, view)
        except Compacted:
            continue


async def _follow(store: Store, view: _View) -> None:
    revision, found = await every(store, view.kind, view.namespace)
    prefix = keys.stored_prefix(view.kind.folder, view.namespace)
    if view.kind is NODE:  # rows of nodes show what pods use: both in one stream, in order
        prefix = keys.ROOT
        _, pods = await every(store, POD)
        view.usage = Usage.of(stored.pod for stored in pods if stored.pod is not None)
    if view.kind is POD:
        view.classes = await priority_classes(store)
        view.gangs = _Gangs(await pod_groups(store, view.namespace))
        view.promises = set(await promises_of(store))
        prefix = keys.ROOT if await has_copies(store) else prefix
    if view.reads_records:
        prefix = keys.ROOT
        view.records = await attempt_records(store)
    view.show_all(found)
    async with store.watch(prefix, revision + 1) as batches:
        async for batch in batches:
            view.show(batch.events)


class _Gangs:
    """Why gangs hold back the pods that are followed."""

    def __init__(self, groups: Mapping[GangKey, PodGroup]) -> None:
        self._groups = groups
        self._members: dict[GangKey, dict[str, Pod]] = {}
        self._gang_of: dict[str, GangKey] = {}
        self._why: dict[GangKey, str] = {}
        self._changed = False

    def set_pod(self, key: str, pod: Pod | None) -> None:
        """Take the new state of the pod at this key in etcd; None = it is gone, or cannot be read."""
        before, now = self._gang_of.pop(key, None), gang_key(pod) if pod is not None else None
        if before is not None:
            self._members[before].pop(key)
        if pod is not None and now is not None:
            self._gang_of[key] = now
            self._members.setdefault(now, {})[key] = pod
        for gang in (before, now):
            if gang is not None:
                self._why.pop(gang, None)
                self._changed = True

    def take_changes(self) -> bool:
        """Whether a member changed since the last time."""
        changed, self._changed = self._changed, False
        return changed

    def held(self, entry: Stored) -> Stored:
        """The same with why its gang holds it back; empty when none does."""
        gang = self._gang_of.get(entry.kv.key)
        if gang is None or entry.pod is None or not entry.pod.pending:
            return replace(entry, held="") if entry.held else entry
        if gang not in self._why:
            self._why[gang] = standing(gang, self._members[gang].values(), self._groups.get(gang)).held
        return replace(entry, held=self._why[gang])


class _View:
    """What is on the screen."""

    def __init__(self, kind: Kind, namespace: str, name: str, output: Output, format_: ObjectFormat) -> None:
        self.kind = kind
        self.format = format_
        self.reads_records = kind is POD and not format_.marks_pods
        """Whether rows of pods show what their attempt records hold."""
        self.records: dict[tuple[str, str], AttemptRecord] = {}
        self.promises: set[PodKey] = set()
        """Pods whose bind the Kubernetes API has not shown yet."""
        self.namespace = namespace
        self.usage = Usage()
        self.gangs = _Gangs({})
        self.classes = PriorityClasses()
        self._name = name
        self._output = output
        self._columns: Columns = columns(kind)
        self._known: dict[str, Stored] = {}
        self._prefix = keys.stored_prefix(kind.folder, namespace)

    def show_all(self, found: Iterable[Stored]) -> None:
        """Print the whole list."""
        found = list(found)
        for entry in found:
            self.gangs.set_pod(entry.kv.key, entry.pod)
        self._known = {entry.kv.key: self.gangs.held(entry) for entry in found if self._name in ("", entry.name)}
        entries = list(self._known.values())
        if self._output is Output.TABLE:
            typer.echo(self._columns.render(table_rows(self.kind, entries, self.usage, datetime.now(UTC))))
        else:
            self._print(entries)

    def show(self, events: Iterable[Event]) -> None:
        """Print what the events of one revision change."""
        changed: dict[str, Stored] = {}
        for event in events:
            if self.reads_records and (pod := record_key(event.kv)) is not None:
                self._record_changed(event, pod, changed)
        for event in events:
            if self.kind is POD and (promised_one := promised_pod(event.kv.key)) is not None:
                self._promise_changed(event, promised_one, changed)
        for event in events:
            if event.kv.key.startswith(self._prefix):
                self._take(event, changed)
            elif self.kind is NODE and event.kv.key.startswith(keys.PODS):
                for node in self._pod_changed(event):
                    if (entry := self._known.get(keys.node(node))) is not None:
                        changed[entry.kv.key] = entry
        if self.kind is POD:
            self._gangs_changed(changed)
        self._print(list(changed.values()))

    def _gangs_changed(self, changed: dict[str, Stored]) -> None:
        """Rows of pods that a gang holds back since these changes, or no longer."""
        for key, before in self._known.items() if self.gangs.take_changes() else ():
            if (now := self.gangs.held(before)).held != before.held:
                self._known[key] = changed[key] = now

    def _take(self, event: Event, changed: dict[str, Stored]) -> None:
        entry = self._read(event.kv)
        if self.kind is POD:
            self.gangs.set_pod(event.kv.key, None if event.deleted else entry.pod)
            entry = self.gangs.held(entry)
        if self._name not in ("", entry.name):
            return
        if event.deleted:
            self._known.pop(event.kv.key, None)
            changed.pop(event.kv.key, None)
            if self._output is Output.TABLE:
                name = "/".join(part for part in (entry.namespace, entry.name) if part)
                typer.echo(f"{plain(name)} deleted")
        else:
            self._known[event.kv.key] = changed[event.kv.key] = entry

    def _read(self, kv: KeyValue) -> Stored:
        entry = promised(resolved(read(self.kind, kv, self.format), self.classes), self.promises)
        return refused(entry, self.records.get((entry.namespace, entry.name)))

    def _record_changed(self, event: Event, pod: tuple[str, str], changed: dict[str, Stored]) -> None:
        record = None if event.deleted else AttemptRecord.from_bytes(event.kv.value)
        if record is not None:
            self.records[pod] = record
        else:
            self.records.pop(pod, None)
        before = self._known.get(keys.pod(*pod))
        if before is not None and record is not None and (now := self._read(before.kv)).pod != before.pod:
            self._known[now.kv.key] = changed[now.kv.key] = self.gangs.held(now)

    def _promise_changed(self, event: Event, pod: PodKey, changed: dict[str, Stored]) -> None:
        (self.promises.discard if event.deleted else self.promises.add)(pod)
        before = self._known.get(keys.pod(*pod))
        if before is not None and (now := self._read(before.kv)).promised != before.promised:
            self._known[now.kv.key] = changed[now.kv.key] = self.gangs.held(now)

    def _pod_changed(self, event: Event) -> tuple[str, ...]:
        stored = read(POD, event.kv, self.format)
        return self.usage.set_pod(PodKey(stored.namespace, stored.name), None if event.deleted else stored.pod)

    def _print(self, entries: list[Stored]) -> None:
        if not entries:
            return
        if self._output is Output.TABLE:
            table = table_rows(self.kind, entries, self.usage, datetime.now(UTC))
            typer.echo(self._columns.render(table, headings=False))
            return
        for text in to_texts(entries, self._output):
            separator = "---\n" if self._output is Output.YAML else ""
            typer.echo(separator + text)
