"""What `wharfinger fleet status` shows: one fleet with its slots, conditions, and what is being waited for.

On a terminal, `--watch` draws it over itself while the seconds go on; elsewhere it is printed again whenever something
changes. It is level-triggered: any change, and everything is read again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import typer

from wharfinger.cli.objects.tables import age
from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import Columns, Output, plain, show_answer
from wharfinger.errors import Unavailable
from wharfinger.fleet.cli import output as printed
from wharfinger.fleet.reading.fleet_status import FleetStatus, look, status_of
from wharfinger.fleet.state.fleet_pictures import Estate, Picture
from wharfinger.fleet.state.fleet_reading import changes, existing, read

_INDENT = 18
_TICK = 1.0
"""Seconds between two drawings."""
_READ_AGAIN = 10.0
"""Seconds after which all is read again though no change was seen: hosts and leases may be gone unseen."""
_CALM = 0.3
"""Seconds that are let pass after a change, so that a burst is read once."""


async def once(connection: ConnectionOptions, tenant: str, output: Output) -> None:
    """Show it as it is now."""
    now = datetime.now(UTC)
    async with connection.store() as store:
        found = await look(store, tenant, now)
    show_answer(output, lambda: printed.status_mapping(found), lambda: status_text(found, now))


def status_text(found: FleetStatus, now: datetime) -> str:
    """The whole view of a fleet, for people."""
    picture, parts = found.picture, ["\n".join(_head(found, now))]
    for title, sentences in (("Waits for:", found.waiting), ("Note:", found.hints)):
        if sentences:
            parts.append("\n".join([title, *(f"  {plain(sentence)}" for sentence in sentences)]))
    if conditions := printed.condition_rows(picture, now):
        parts.append(Columns(*printed.CONDITION_HEADINGS).render(conditions))
    if slots := printed.slot_rows(picture):  # last: a terminal may be too small for all of them
        parts.append(Columns(*printed.SLOT_HEADINGS).render(slots))
    return "\n\n".join(parts)


def _head(found: FleetStatus, now: datetime) -> Iterator[str]:
    picture = found.picture
    yield _field("Fleet", found.tenant)
    counts = f"{found.ready} ready, {found.updated} updated, {found.outdated} outdated"
    yield _field("Instances", f"{found.replicas} wanted, {counts}")
    yield _field("Revision", _revision(picture, now))
    if found.last_change is not None:
        yield _field("Changed", str(found.last_change))
    generation = picture.status.status.generation if picture.status is not None else 0
    yield _field("Rollout", f"{found.rollout} (generation {generation})" if generation else found.rollout)
    if found.phase:
        yield _field("Now", found.phase if found.observed else f"{found.phase} (before the latest change)")
    if picture.status is not None:
        yield _field("As of", f"{picture.status.time} ({age(picture.status.time, now)} ago)")


def _revision(picture: Picture, now: datetime) -> str:
    if not picture.target:
        return "none yet"
    words = str(picture.target)
    record = picture.revisions.get(picture.target)
    if record is not None:
        why = f": {record.why}" if record.why else ""
        by = f" by {record.who}" if record.who else ""
        words += f" (written{by} {age(record.time, now)} ago{why})"
    completed = picture.status.status.completed if picture.status is not None else 0
    if completed and completed != picture.target:
        words += f", {completed} was completed last"
    return words


def _field(name: str, value: str) -> str:
    return f"{name + ':':<{_INDENT}}{plain(value)}"


# --- the view that stays --------------------------------------------------------------------------


async def follow(connection: ConnectionOptions, tenant: str) -> None:
    """Show it, and every change, until cancelled."""
    async with connection.store() as store, changes(store, tenant) as seen:
        estate = await read(store, tenant)
        existing(estate, tenant)
        with _Screen(tenant, estate) as screen:
            while True:
                waited = 0.0
                while not await seen.changed(_TICK) and waited < _READ_AGAIN:
                    waited += _TICK
                    screen.draw()
                await seen.changed(_CALM)
                try:
                    screen.take(await read(store, tenant))
                except Unavailable:
                    screen.lost(datetime.now(UTC))


class _Screen:
    """What is shown: drawn over itself on a terminal, else printed when it differs."""

    def __init__(self, tenant: str, estate: Estate) -> None:
        from rich.console import Console
        from rich.live import Live

        self.tenant = tenant
        self._estate = estate
        self._began = datetime.now(UTC)
        self._away: datetime | None = None
        """Since when etcd does not answer."""
        self._said = ""
        self._live: Live | None = None
        if sys.stdout.isatty():
            # Where the terminal is too low, the last line shows that there is more.
            self._live = Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="ellipsis")

    def __enter__(self) -> _Screen:
        if self._live is not None:
            self._live.start()
        self.draw()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def take(self, estate: Estate) -> None:
        """Show this from now on."""
        self._estate, self._away = estate, None
        self.draw()

    def lost(self, now: datetime) -> None:
        """Go on with what was seen last: etcd does not answer."""
        self._away = self._away or now
        self.draw()

    def draw(self) -> None:
        """Show what is known, as of now."""
        now = datetime.now(UTC)
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(self._text(now)), refresh=True)
            return
        # Without a terminal the seconds stand still: only what is news is printed.
        told = self._text(_written(self._estate, self.tenant, self._began))
        if told != self._said:
            separator = "---\n" if self._said else ""
            self._said = told
            typer.echo(separator + told)

    def _text(self, now: datetime) -> str:
        picture = self._estate.fleet(self.tenant)
        if not picture.exists:
            return f"there is no fleet {self.tenant} any more"
        text = status_text(status_of(self._estate, picture, now), now)
        if self._away is not None:
            text += f"\n\netcd does not answer since {self._away:%H:%M:%S} UTC: this is what it showed before"
        return text


def _written(estate: Estate, tenant: str, default: datetime) -> datetime:
    """When the status was written."""
    status = estate.fleet(tenant).status
    try:
        return datetime.fromisoformat(status.time) if status is not None else default
    except ValueError:
        return default
