"""The package of the previous release, for tests that run it.

`wharfinger-0.1.0.tar.xz` is what `pip wheel --no-deps .` makes of commit 0f45db8, the last one before the changelog's
first entry after 0.1.0; left out are examples, the demo and the modules that build servers. It runs on the libraries of
this release.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

VERSION = "0.1.0"
PACKAGE = Path(__file__).with_name(f"wharfinger-{VERSION}.tar.xz")


def unpacked(folder: Path) -> dict[str, str]:
    """Unpack it there; the environment in which `python -m wharfinger` is that release."""
    with tarfile.open(PACKAGE) as archive:
        archive.extractall(folder, filter="data")
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
