"""Runs a server process to its end, as each command does that is one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import typer


def run_process(
    main: Callable[[], Coroutine[Any, Any, int]], *, end_with: int, log_level: str = "info", log_format: str = "text"
) -> None:
    """Run what `main` makes until a signal stops it; a code that is not 0 is the command's exit code.

    `main` imports what is slow to import. `end_with`: the process id with which this one ends at once; 0 = with none.
    """
    if end_with:
        from wharfinger.process.children.lives import end_with as watch

        watch(end_with)
    import uvloop

    from wharfinger.process.logs import quiet_sdk, write_lines

    write_lines(log_level, log_format)
    quiet_sdk()
    code = uvloop.run(main())
    if code:
        raise typer.Exit(code)
