"""What people say about hosts: cordons, drains, and that one is gone for good."""

from __future__ import annotations

from typing import Literal

from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, KeyValue, Put, Store
from wharfinger.fleet.contracts.fleet_records import LostHostRecord, read_value, stored
from wharfinger.fleet.model.fleet import Cordon
from wharfinger.process.committing import Author, commit


async def has_agent(store: Store, host: str) -> bool:
    """Whether the host has a live agent."""
    return (await store.get(keys.host(host))).kv is not None


async def cordon(store: Store, host: str, action: Literal["cordon", "drain"], by: Author, *, now: str) -> bool:
    """Cordon or drain a host; whether that was new. `now`: RFC 3339."""

    def over(before: KeyValue | None) -> bytes | None:
        if before is not None and _same(before.value, action, by.why):
            return None
        return stored(Cordon(action=action, who=by.who, why=by.why, time=now))

    return (await commit(store, keys.cordon(host), over, f"the cordon of {host}")).written


async def uncordon(store: Store, host: str) -> bool:
    """Allow new instances again; whether they were not allowed."""
    return await store.delete(keys.cordon(host))


async def confirm_lost(store: Store, host: str, by: Author, *, now: str) -> bool:
    """Record that a host is gone for good; whether that was new. Raises `UsageError` while it has a live agent."""
    lost = keys.lost_host(host)
    said = (await store.get(lost)).kv
    put = Put(lost, LostHostRecord(who=by.who, why=by.why, time=now).to_bytes())
    absent = [Compare(keys.host(host), "create", 0)]
    if not (await store.txn(absent, [put] if said is None or by.why else [])).succeeded:
        raise UsageError(f"host {host} has a live agent: it is not lost (`wharfinger host cordon` keeps off it)")
    return said is None or bool(by.why)


def _same(value: bytes, action: str, why: str) -> bool:
    try:
        record = read_value(Cordon, value)
    except ValueError:
        return False
    return record.action == action and why in ("", record.why)
