"""The package of the previous release, for tests that run it.

`wharfinger-0.1.0.tar.xz` is what `pip wheel --no-deps .` makes of commit 0f45db8, the last one before the changelog's
first entry after 0.1.0; left out are examples, the demo and the modules that build servers. It runs on the libraries of
this release.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.1.0"
PACKAGE = Path(__file__).with_name(f"wharfinger-{VERSION}.tar.xz")
BUILD = Path(__file__).parents[2] / "build" / "previous_release"


def environment() -> dict[str, str]:
    """The environment in which `python -m wharfinger` is that release.

    The package is unpacked once into a folder named by its digest, so that its processes share their bytecode. The
    folder appears complete: test processes may unpack at the same time.
    """
    folder = BUILD / hashlib.sha256(PACKAGE.read_bytes()).hexdigest()[:12]
    if not folder.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as temporary, tarfile.open(PACKAGE) as archive:
            archive.extractall(Path(temporary, "release"), filter="data")
            try:
                Path(temporary, "release").rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another process was quicker
                    raise
    return {**os.environ, "PYTHONPATH": str(folder)}
