"""Which release and which build of wharfinger this process runs, and from where."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import wharfinger

DIGITS = 12
"""Of the digest: 48 bits. Among a million builds, two share them with a probability of 0.2 %."""


def release() -> str:
    """Our version."""
    try:
        return version("wharfinger")
    except PackageNotFoundError:
        return "checkout"


def checkout() -> Path | None:
    """The root of the checkout this code runs from; None when it was installed from a wheel."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "tools").is_dir() else None


def shipped(path: str) -> Path:
    """A file or folder beside the package: of the checkout, or packed in the wheel. It may be missing."""
    return (checkout() or Path(wharfinger.__path__[0])) / path


@cache
def build_id() -> str:
    """Release and digest of the package's files, as in `0.1.0+3f9c2a17e5b0`: Temporal distinguishes workers by it.

    It is computed by the first call, which takes some 25 ms. A process must call it before it waits for anything, so
    that it is about the files that were imported, and not about those of an installation that replaces them later.
    """
    return f"{release()}+{digest(Path(wharfinger.__path__[0]))}"


def digest(package: Path) -> str:
    """Digest of the names and contents of all files below a folder, but for compiled modules.

    Links are followed: a strict editable install is a tree of links, and has the digest of the wheel of the same files.
    """
    total = hashlib.sha256()
    for name, path in sorted(_files(str(package))):
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:DIGITS]


def _files(package: str) -> Iterator[tuple[str, str]]:
    """Each file's name below the folder, with `/` between its parts, and its path."""
    for folder, folders, names in os.walk(package, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        inside = folder[len(package) + 1 :].replace(os.sep, "/")
        for name in names:
            yield f"{inside}/{name}" if inside else name, f"{folder}{os.sep}{name}"
