"""The option by which `replay` and `archive` are told how much memory they may take."""

from __future__ import annotations

from typing import Annotated

import typer

USUAL = "2Gi"
"""As `memory_limit` has it, which is slow to import for a command's help."""

MemoryLimitOption = Annotated[
    str,
    typer.Option(
        "--memory-limit",
        help="Memory that the process may take; what does not fit ends with an error. At least 192Mi.",
        metavar="SIZE",
    ),
]
