"""Writes one manifest by compare-and-set, also while other clients write the object.

What is written is `objects.documents.merge`'s affair, what is checked before that the kind's (`cli.kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wharfinger.cli.files import Manifest
from wharfinger.cli.kinds import WriteCheck, check_of, part
from wharfinger.cli.output import plain, say
from wharfinger.errors import ConfigurationError, InvalidConfiguration, InvalidObject, RequestTooLarge
from wharfinger.etcd.store import KeyValue, Read, Store
from wharfinger.objects.documents import documents, merge
from wharfinger.objects.documents.kinds import Reference
from wharfinger.objects.rk8s.applying import GivenDocument, written_over
from wharfinger.process.committing import commit, readable, same
from wharfinger.process.stored_objects import key_of

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one manifest."""

    object: str
    """`pod/default/web`, or the file when no object could be read from it."""
    result: str
    """`created`, `configured`, `unchanged` or `refused`; where objects are deleted, `deleted` or `absent`."""
    problems: tuple[str, ...] = ()
    """Why it was refused, a line each."""
    notes: tuple[str, ...] = ()
    """What of it has no effect, a line each."""

    def mapping(self) -> dict[str, str]:
        """As printed for programs; the reason only where there is one."""
        shown = {"object": self.object, "result": self.result}
        return {**shown, "reason": "; ".join(self.problems)} if self.problems else shown


def report(applied: Applied) -> None:
    """Print what became of it, for people; when the reader has left, go on without it."""
    for problem in applied.problems:
        say(plain(f"error: {applied.object}: {problem}"), err=True)
    for note in applied.notes:
        say(plain(f"note: {applied.object}: {note}"), err=True)
    if applied.result != REFUSED:
        say(plain(f"{applied.object} {applied.result}"))


async def write(store: Store, manifest: Manifest, *, uid: str, now: str, read: Read | None = None) -> Applied:
    """Write one object; what is wrong with it is a result, not an error.

    `uid` and `now` (RFC 3339, UTC) are given to a new object that has none. `read`: what was read of its key already.
    Raises `Unavailable`.
    """
    about = manifest.about
    if about is None or manifest.obj is None:
        return Applied(manifest.source, REFUSED, (manifest.problem,))
    try:
        if own := part(about.kind, "write"):
            return Applied(str(about), await own(store, about, manifest.obj))
        if manifest.document is not None:
            return Applied(str(about), await _write_rk8s(store, about, manifest.document, read, uid=uid, now=now))
        check = check_of(about.kind)(about, dict(manifest.obj))
        if taken := await check.prepare(store):
            return Applied(str(about), REFUSED, taken)
        draft = _Draft(about, dict(manifest.obj), uid, now, check)
        done = await commit(store, key_of(about), draft.over, str(about), read=read)
        await check.finish(store)
        return Applied(str(about), done.result, notes=check.notes)
    except InvalidConfiguration as error:
        return Applied(str(about), REFUSED, error.problems)
    except (ConfigurationError, InvalidObject, RequestTooLarge) as error:
        return Applied(str(about), REFUSED, (str(error),))


async def _write_rk8s(
    store: Store, about: Reference, document: GivenDocument, read: Read | None, *, uid: str, now: str
) -> str:
    def over(stored: KeyValue | None) -> bytes | None:
        return written_over(stored.value if stored is not None else None, document, uid=uid, now=now)

    return (await commit(store, key_of(about), over, str(about), read=read)).result


@dataclass(slots=True)
class _Draft:
    """A manifest to be laid over whatever is stored."""

    about: Reference
    manifest: dict[str, Any]
    uid: str
    now: str
    check: WriteCheck

    def over(self, stored: KeyValue | None) -> bytes | None:
        """The value to store, or None when the stored one is equal.

        Raises `InvalidObject`; for an object of placement `InvalidConfiguration`, which names all that is wrong.
        """
        before = readable(stored.value) if stored is not None else None
        if before is None:  # nothing there, or bytes that are no object: nothing to keep
            obj = merge.created(self.manifest, self.about, uid=self.uid, now=self.now)
            self.check.change(obj, None)
        else:
            obj = merge.updated(before, self.manifest, self.about)
            self.check.change(obj, before)
            if same(obj, before):
                return None
        self.check.written(obj)
        return documents.to_json(obj)


def unreadable(manifest: Manifest) -> tuple[str, ...]:
    """Why the scheduler could not read a manifest as it stands; empty when it can."""
    try:
        if manifest.about is not None and manifest.obj is not None:
            check_of(manifest.about.kind)(manifest.about, manifest.obj).readable(dict(manifest.obj))
    except InvalidObject as error:
        return (str(error),)
    return ()
