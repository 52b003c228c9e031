"""Runs a benchmark on real servers: their programs, a folder of its own, and what an error looks like."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

import uvloop
from kubernetes_pods import BenchmarkFailed
from kubernetes_sides import missing
from report import say

from wharfinger.dev.progress import progress_for
from wharfinger.dev.settings import Servers, prepare
from wharfinger.errors import WharfingerError

Measure = Callable[[Servers, Path], Coroutine[Any, Any, int]]


def run(measure: Measure, *, keep: bool = False, kubernetes: bool = False) -> NoReturn:
    """Measure, and end the process with what `measure` answers.

    `kubernetes`: whether it needs Kubernetes' servers too; where they cannot be run, it ends with 0 and one line.

    `measure` gets a folder for logs and data. It is deleted afterwards unless it is kept, and then its path is printed.
    """
    lacking = missing() if kubernetes else ""
    if lacking:
        say(f"skipped: {lacking}")
    code = 0 if lacking else _code(measure, keep)
    sys.stdout.flush()
    os._exit(code)  # Temporal's SDK may abort an interpreter that is torn down


def _code(measure: Measure, keep: bool) -> int:
    servers = prepare(progress_for(sys.stderr))
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-bench-"))
    try:
        return uvloop.run(_until_terminated(measure(servers, folder)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted")
        return 130
    except (BenchmarkFailed, WharfingerError) as error:
        say(f"error: {error}")
        return 1
    finally:
        if keep:
            say(f"logs and data: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


async def _until_terminated(measuring: Coroutine[Any, Any, int]) -> int:
    running = asyncio.current_task()
    assert running is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await measuring
