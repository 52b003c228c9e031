"""Where the console command begins: it ends quietly on Ctrl-C while its modules are imported, which takes some 0.3 s.

It imports nothing of its own at its head for that reason. `cli.main` has the command; it handles Ctrl-C from then on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line (default: the process's), then leave the process with its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored: in the background of a script
        _imported()(arguments)
        return
    # An exception is no way out of an import: modules of C code print it, and go on.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    command = _imported()  # this is what takes long
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        command(arguments)
    except KeyboardInterrupt:  # before or after the command could make its exit code of it
        os._exit(INTERRUPTED)


def _imported() -> Callable[[Sequence[str] | None], None]:
    """The command. Where a module of another project is missing, it leaves the process with a line on what to do."""
    try:
        from wharfinger.cli.main import main as command
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "wharfinger":
            raise
        sys.exit(
            f"error: module {error.name} is not installed for {sys.executable}: run `make setup` in a checkout, or "
            "install wharfinger with pip"
        )
    return command
