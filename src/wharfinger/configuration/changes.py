"""Changes values of the dynamic configuration: all problems are reported first, then one compare-and-set.

The value and the record of who set it, when and why are one transaction. The record lies where no worker follows, so
that the past costs those nothing. Neighbours: `configuration.cli.commands` are the
commands, `framework.config.dynamic` says what a value may say, `configuration.following` follows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import AccessDenied, InvalidConfiguration, InvalidObject, Unavailable, WharfingerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, KeyValue, Operation, Put, Store
from wharfinger.fleet.spec.fleet import read_fleet
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.dynamic import (
    CohortValue,
    ProfileValue,
    QueueValue,
    canonical,
    check_alone,
    check_backoff,
    check_kind,
    digest,
    read_value,
    well_formed_profiles,
)
from wharfinger.framework.config.validation import refuse
from wharfinger.framework.profiles import Configured, load_configuration, overlay_configuration
from wharfinger.objects.documents import documents
from wharfinger.process.committing import Author
from wharfinger.process.names import MOST_LISTED
from wharfinger.process.records import ConfigChangeRecord

TRIES = 10
"""Compare-and-sets; each fails only because another client changed the value in between."""
KEPT = 100
"""Changes of one value that are remembered."""
_DIGITS = 18
"""Of a change's number, at most."""


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value to be set, or taken away (None)."""

    kind: str
    target: str
    value: Mapping[str, Any] | None

    def __str__(self) -> str:
        return f"config/{self.kind}/{self.target}"

    @property
    def key(self) -> str:
        """Of the value."""
        return keys.config(self.kind, self.target)

    def noted(self, number: int) -> str:
        """The key of a change."""
        return keys.config_history(self.kind, self.target, f"{number:09d}")


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a change."""

    result: str
    """`created`, `configured`, `unset` or `unchanged`."""
    number: int = 0
    """Of the change in the history; 0 when nothing was changed."""


async def check(store: Store, change: ValueChange, catalog: Catalog) -> None:
    """Check that workers will accept the value, as far as possible here. Raises `InvalidConfiguration`, all problems.

    Of a tenant with a fleet it is laid over the fleet's template; how other workers were started is unknown.
    """
    model = check_kind(change.kind)
    base = await _template_of(store, change.target, catalog) if model in (ProfileValue, QueueValue) else None
    if model is ProfileValue:
        _check_profiles(change.value or {}, base, catalog)
        return
    match read := read_value(model, change.value):
        case QueueValue():
            first, longest = read.pod_initial_backoff_seconds, read.pod_max_backoff_seconds
            if base is not None:
                settings = base.configuration.settings
                check_backoff(read, settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
            elif first is not None and longest is not None:
                check_backoff(read, first, longest)
        case CohortValue():
            _check_listed(read)


def without_effect(change: ValueChange) -> Iterator[str]:
    """Fields of the value that have no effect any more, and why, a line each."""
    if change.kind == CohortValue.kind and (change.value or {}).get("cohortFrom") is not None:
        yield "cohortFrom has no effect any more: a group takes whatever has arrived"


def _check_listed(value: CohortValue) -> None:
    """Refuse cohorts of whose pods Temporal would not find each one; workers cap those that were set before."""
    if (value.cohort_most or 0) > MOST_LISTED:
        reason = f"must be at most {MOST_LISTED}, because Temporal finds a cohort by the name of each of its pods"
        raise refuse([("cohortMost", reason)])


def _check_profiles(written: Mapping[str, Any], base: Configured | None, catalog: Catalog) -> None:
    """Raise what is malformed together with what is wrong with the rest, each once."""
    problems: list[str] = []
    try:
        value = read_value(ProfileValue, written)
    except InvalidConfiguration as error:
        problems += error.problems
        value = well_formed_profiles(written)
    problems += refuse(check_alone(value, catalog)).problems
    if base is not None:
        try:
            overlay_configuration(base, value, base)
        except InvalidConfiguration as error:
            problems += error.problems
    if problems:
        raise InvalidConfiguration(dict.fromkeys(problems))


async def write(store: Store, change: ValueChange, by: Author, *, now: str, again: bool = False) -> Written:
    """Make a change, also beside other writers. `again`: also when the value is the same already.

    Raises `Unavailable`, `AccessDenied`.
    """
    try:
        return await _write(store, change, by, now, again=again)
    except AccessDenied as error:
        raise AccessDenied(f"{error} (a change of a value writes below {keys.ROOT} and {keys.ASIDE})") from error


async def _write(store: Store, change: ValueChange, by: Author, now: str, *, again: bool) -> Written:
    value, wanted = change.value, canonical(change.value) if change.value is not None else None
    record = ConfigChangeRecord(
        value=dict(value) if value is not None else None,
        digest=digest(value) if value is not None else "",
        who=by.who,
        why=by.why,
        time=now,
    )
    for _ in range(TRIES):
        stored = (await store.get(change.key)).kv
        if (stored.value if stored is not None else None) == wanted and not (again and value is not None):
            return Written("unchanged")
        numbers = [number for number, _ in await history(store, change.kind, change.target)]
        if await _commit(store, change, stored, record, numbers):
            result = "unset" if value is None else "created" if stored is None else "configured"
            return Written(result, _next(numbers))
    raise WharfingerError(f"{change} is changed by others all the time; gave up after {TRIES} tries")


async def history(store: Store, kind: str, target: str) -> list[tuple[int, ConfigChangeRecord]]:
    """The changes of a value that are remembered, the oldest first; what cannot be read is left out."""
    return [
        (int(number), ConfigChangeRecord.from_bytes(kv.value) or ConfigChangeRecord(why="(cannot be read)"))
        async for (*_, number), kv in keys.config_history.rows(store, kind, target)
        if number.isascii() and number.isdigit() and len(number) <= _DIGITS
    ]


async def _commit(
    store: Store, change: ValueChange, stored: KeyValue | None, record: ConfigChangeRecord, numbers: list[int]
) -> bool:
    noted = change.noted(_next(numbers))
    forgotten = sorted(numbers)[: -(KEPT - 1)]
    operations: list[Operation] = [
        Put(change.key, canonical(change.value)) if change.value is not None else Delete(change.key),
        Put(noted, record.to_bytes()),
        *(Delete(change.noted(number)) for number in forgotten[:20]),
    ]
    before = stored.mod_revision if stored is not None else 0
    try:
        compares = [Compare(change.key, "mod", before), Compare(noted, "create", 0)]
        return (await store.txn(compares, operations)).succeeded
    except Unavailable as error:
        if not error.maybe_applied:
            raise
        kv = (await store.get(noted)).kv  # only a read shows it
        return kv is not None and kv.value == record.to_bytes()


def _next(numbers: list[int]) -> int:
    return max(numbers, default=0) + 1


async def _template_of(store: Store, target: str, catalog: Catalog) -> Configured | None:
    """The configuration of the target's fleet; None without a fleet, or with one that is not valid itself.

    None too where the template has none: its instances get their agent's (`--config`), which is unknown here.
    """
    of_tenant = target.split("/")[1:2]
    kv = (await store.get(keys.fleet(of_tenant[0]))).kv if of_tenant else None
    if kv is None:
        return None
    try:
        written = documents.parse(kv.value)
        template = read_fleet(written, catalog, name=of_tenant[0]).template
        return load_configuration(template.configuration, catalog=catalog) if template.configuration else None
    except (InvalidConfiguration, InvalidObject):
        return None
