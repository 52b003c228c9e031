"""Manifests from files, folders and standard input (`-f`), in the format of the cluster that they are for."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.output import plain
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.documents.kinds import FLEET, NAMESPACE, NODE, POD, Reference, reference
from wharfinger.objects.documents.metadata import checked_object
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.texts import counted

if TYPE_CHECKING:
    from wharfinger.objects.rk8s.applying import GivenDocument


class Validation(StrEnum):
    """What becomes of a manifest with unknown or duplicate fields."""

    STRICT = "strict"
    """It is refused."""
    WARN = "warn"
    """It is taken, with a warning for each field."""
    IGNORE = "ignore"
    """It is taken."""


_WORDS = {**{word.value: word for word in Validation}, "true": Validation.STRICT, "false": Validation.IGNORE}


def _validation(word: str) -> Validation:
    found = _WORDS.get(word)
    if found is None:
        raise typer.BadParameter(f"{word!r} is none of {', '.join(_WORDS)}")
    return found


ValidateOption = Annotated[
    Validation,
    typer.Option(
        "--validate",
        parser=_validation,
        help="Unknown and duplicate fields: strict (or true) refuses the object, warn accepts it and names the fields,"
        " ignore (or false) accepts it silently. A misspelt field that scheduling reads is refused in any case.",
        metavar="strict|warn|ignore",
    ),
]


def warn(title: str, findings: Iterable[str]) -> None:
    """Name what was found, a line each, on standard error."""
    for finding in findings:
        typer.echo(plain(f"warning: {title}: {finding}"), err=True)


DEFAULT_NAMESPACE = "default"
STANDARD_INPUT = "-"
FILE_LIMIT = 512 * 1024 * 1024
"""Bytes of one file."""
SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_FOLDERS_NAMED = 3

_FILES = typer.Option(
    "--filename", "-f", help="File, folder, or - for standard input; repeatable.", metavar="FILE|DIR|-"
)
FilesOption = Annotated[list[str], _FILES]
OptionalFilesOption = Annotated[list[str] | None, _FILES]
RecursiveOption = Annotated[
    bool, typer.Option("--recursive", "-R", help="Read the folders below the folders of -f, too; no hidden ones.")
]

_RANKS = {NODE: 0, NAMESPACE: 1, POD: 3}
_OTHER_RANK = 2


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file; where it cannot be stored as any, `problem` has the reason, and `about` is None."""

    source: str
    about: Reference | None = None
    obj: Mapping[str, Any] | None = None
    problem: str = ""
    findings: tuple[str, ...] = ()
    """Its unknown and duplicate fields, where these were asked for."""
    document: GivenDocument | None = None
    """The document of rk8s, where it is one."""

    @property
    def rank(self) -> int:
        """Nodes first, then namespaces, then others; pods last, when all they need is there."""
        return _RANKS.get(self.about.kind, _OTHER_RANK) if self.about is not None else -1


def contents_of(sources: Iterable[str], *, recursive: bool = False) -> list[tuple[str, bytes]]:
    """The files of all sources; a note on standard error names folders that are not read. Raises as `contents`."""
    found: list[tuple[str, bytes]] = []
    for source in sources:
        found += contents(source, recursive=recursive)
        for note in () if recursive else unread(source):
            typer.echo(plain(f"note: {note}"), err=True)
    return found


def load(
    files: Iterable[tuple[str, bytes]],
    namespace: str,
    *,
    agreeing: bool = False,
    judged: bool = False,
    format_: ClusterFormat = ClusterFormat.KUBERNETES,
) -> list[Manifest]:
    """Every object of the files, in the order in which they are best written.

    What cannot be read stays as an entry with a `problem`, so the rest goes on. `namespace`: of objects that name none;
    `agreeing`: an object that names another one has a `problem`. `judged`: look for unknown and
    duplicate fields; otherwise a key that stands twice in YAML is a problem of its file. `format_`: of the cluster;
    documents of rk8s may have fields that rk8s does not know, because it ignores them.
    """
    found = [manifest for name, content in files for manifest in _content(name, content, namespace, judged, format_)]
    if agreeing:
        found = [_agreeing(manifest, namespace) for manifest in found]
    return sorted(found, key=lambda manifest: manifest.rank)


def defined_again(manifests: Iterable[Manifest]) -> list[str]:
    """A note for each object that several manifests define."""
    sources: dict[Reference, list[str]] = {}
    for manifest in manifests:
        if manifest.about is not None:
            sources.setdefault(manifest.about, []).append(manifest.source)
    return [
        f"{about} is defined {len(found)} times, and the last one counts ({', '.join(dict.fromkeys(found))})"
        for about, found in sources.items()
        if len(found) > 1
    ]


def _agreeing(manifest: Manifest, namespace: str) -> Manifest:
    """The manifest, or why it is for another namespace; kubectl's words. A document of rk8s has the only one."""
    about, metadata = manifest.about, (manifest.obj or {}).get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    anywhere = about is None or not about.kind.namespaced or manifest.document is not None
    if anywhere or named in (None, "", namespace):
        return manifest
    problem = (
        f'the namespace from the provided object "{named}" does not match the namespace "{namespace}" '
        f"({about}): leave out --namespace, or change metadata.namespace"
    )
    return Manifest(manifest.source, obj=manifest.obj, problem=problem)


def contents(source: str, *, recursive: bool = False) -> Iterator[tuple[str, bytes]]:
    """The files that a source stands for, by name, with what is in them.

    `recursive`: those in the folders below a folder, too. Raises `UsageError` when the source does not exist, or is
    larger than the `FILE_LIMIT`.
    """
    if source == STANDARD_INPUT:
        with _interrupted_at_once():
            content = sys.stdin.buffer.read(FILE_LIMIT + 1)
        _limited("standard input", len(content))
        yield "standard input", content
        return
    if source.startswith(("http://", "https://")):
        raise UsageError(f"addresses are not read: curl -sSfL {source} | wharfinger ... -f -")
    path = Path(source)
    if path.is_dir():
        files = sorted(_below(path) if recursive else filter(_is_manifest, path.iterdir()))
        if not files:
            raise UsageError("; ".join((f"there is no manifest ({', '.join(SUFFIXES)}) in {path}", *unread(source))))
    elif path.exists():
        files = [path]
    else:
        raise UsageError(f"there is no file {path}")
    for file in files:
        _limited(str(file), file.stat().st_size)
        with _interrupted_at_once():  # it may be a pipe
            content = file.read_bytes()
        yield str(file), content


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Let Ctrl-C end the block: a running event loop would cancel the command only when the block has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def unread(source: str) -> list[str]:
    """Which folders below a folder have manifests that are read with --recursive only: at most one note."""
    path = Path(source)
    if source == STANDARD_INPUT or not path.is_dir():
        return []
    below = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    folders = [folder for folder in below if next(_below(folder), None) is not None]
    if not folders:
        return []
    named = counted([str(folder) for folder in folders], _FOLDERS_NAMED)
    return [f"folders below {path} are not read: {named} (-R reads them)"]


def _below(path: Path) -> Iterator[Path]:
    """The manifests in a folder and in the folders below it, but for hidden ones."""
    for folder, below, files in os.walk(path):
        below[:] = sorted(one for one in below if not one.startswith("."))
        yield from (file for name in files if _is_manifest(file := Path(folder, name)))


def _is_manifest(file: Path) -> bool:
    return file.suffix in SUFFIXES and file.is_file()


def _limited(source: str, size: int) -> None:
    if size > FILE_LIMIT:
        raise UsageError(f"{source} is larger than {FILE_LIMIT // 1024 // 1024} MiB")


def _content(
    source: str, content: bytes, namespace: str, judged: bool, format_: ClusterFormat = ClusterFormat.KUBERNETES
) -> Iterator[Manifest]:
    from wharfinger.objects.documents.documents import objects_of
    from wharfinger.objects.rk8s import applying

    try:
        if format_ is ClusterFormat.RK8S:
            yield from (_rk8s_manifest(source, one) for one in applying.documents(content.decode("utf-8-sig")))
            return
        for obj in objects_of(source, content, duplicates=judged):
            yield _manifest(source, obj, namespace, judged)
    except UnicodeDecodeError as error:
        yield Manifest(source, problem=f"is no UTF-8 text (byte {error.start})")
    except InvalidObject as error:
        yield Manifest(source, problem=str(error))


def _rk8s_manifest(source: str, document: GivenDocument) -> Manifest:
    from wharfinger.objects.documents.documents import to_json
    from wharfinger.objects.rk8s import applying
    from wharfinger.objects.rk8s.tree import plain_values

    try:
        kind = applying.kind_of(document.tree)
        if kind == FLEET.name:  # of wharfinger itself, in every cluster
            value = document.text.encode() if document.text else to_json(plain_values(document.tree))
            return next(iter(_content(source, value, "", judged=True)))
        about = Reference(POD if kind == POD.name else NODE, *applying.names_of(document.tree))
    except InvalidObject as error:
        return Manifest(source, problem=str(error))
    return Manifest(source, about, document.tree, document=document)


def _manifest(source: str, found: object, namespace: str, judged: bool) -> Manifest:
    from wharfinger.objects.documents import unknown
    from wharfinger.objects.documents.unknown import other_kind

    try:
        obj = checked_object(found)
    except InvalidObject as error:
        return Manifest(source, problem=f"one of its documents {error}")
    try:
        other_kind(obj)  # tells misspelt kinds from those of other makers, which have no reference
        return Manifest(source, reference(obj, namespace), obj, findings=unknown.findings(obj) if judged else ())
    except InvalidObject as error:
        metadata = obj.get("metadata")
        name = str(metadata.get("name") or "")[:80] if isinstance(metadata, Mapping) else ""
        named = f" ({str(obj.get('kind'))[:40]} {name})" if name and repr(name) not in str(error) else ""
        return Manifest(source, obj=obj, problem=f"{error}{named}")
