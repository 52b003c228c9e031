"""The Temporal SDK's own download of the Temporal command line, with a deadline.

The SDK only downloads as part of starting a server, so that is done, in a process of its own that can be
ended whatever it does; the server is stopped again and its file kept. `python -m wharfinger.dev.download
VERSION FOLDER` is that process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from wharfinger.dev.progress import ProgressListener

DEADLINE = 20.0
"""Seconds; a source build is the alternative, so there is no point in waiting on a dead network."""


def fetch(version: str, target: Path, progress: ProgressListener) -> str:
    """Download a release (`v1.8.2`) to the file `target`; answers why it failed, empty when it did not."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder:
        with progress.counting(f"downloading Temporal {version} as its SDK does", 0):
            reason = _run(version, folder)
        if reason:
            return reason
        files = [path for path in Path(folder).iterdir() if path.is_file() and os.access(path, os.X_OK)]
        if not files:
            return "the SDK left no file"
        shutil.move(files[0], target)
        return ""


def _run(version: str, folder: str) -> str:
    process = subprocess.Popen(
        [sys.executable, "-m", "wharfinger.dev.download", version, folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        return f"not done within {DEADLINE:.0f} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the server it may have started too
        process.wait()
    if process.returncode == 0:
        return ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {process.returncode}"


async def _download(version: str, folder: str) -> None:
    from temporalio.testing import WorkflowEnvironment

    environment = await WorkflowEnvironment.start_local(dev_server_download_version=version, download_dest_dir=folder)
    await environment.shutdown()


if __name__ == "__main__":
    try:
        asyncio.run(_download(*sys.argv[1:3]))
        code = 0
    except RuntimeError as error:
        sys.stderr.write(f"{str(error).splitlines()[0]}\n")
        code = 1
    sys.stderr.flush()
    os._exit(code)  # the SDK's threads may abort an interpreter that is torn down
