"""How much memory a replay, or an archive, may take; what does not fit ends with one line that says what to do.

What grows with the span lies in temporary files (`scratch`), so what is left is the cluster's state, once for each
worker that is stood in for, and what is under way. Its size is known only once it is there: whoever adds to it asks
`check` after each part. Memory is what the kernel counts as resident, so it is the whole process that is bounded.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.objects.model.quantities import NANO, parse_quantity

MIB = 1 << 20
USUAL = 2048 * MIB
"""Half of a machine with 4 GiB: servers may run there, too."""
LEAST = 192 * MIB
"""The interpreter and its libraries alone take half of it."""
MARGIN = 16
"""The share of the limit that is left free, one in so many: between two checks memory goes on to grow."""
BLOCKS = 32
"""A block of an archive may take one part in so many: as objects it is some ten times as large."""
HISTORIES = 16
"""Histories that are under way may take one part in so many, as Temporal counts their bytes."""


class MemoryLimitReached(WharfingerError):
    """What is to be done takes more memory than is allowed."""


def resident() -> int:
    """Bytes of memory that this process holds now; where the kernel does not tell, what it held at most."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def give_back() -> None:
    """Return to the kernel what is not used any more: freed memory stays with the process otherwise."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One for a whole command."""

    most: int = USUAL
    """Bytes."""
    held: Callable[[], int] = resident
    give_back: Callable[[], None] = give_back

    @classmethod
    def parse(cls, text: str) -> MemoryLimit:
        """From a quantity, such as `512Mi`. Raises `UsageError`."""
        try:
            most = parse_quantity(text.strip()) // NANO
        except ValueError:
            raise UsageError(f"--memory-limit takes a size, such as 512Mi or 2Gi, not {text!r}") from None
        if most < LEAST:
            raise UsageError(f"--memory-limit {text} is too little: {LEAST // MIB}Mi is the least")
        return cls(most)

    @property
    def block(self) -> int:
        """Bytes of one block of an archive, at most."""
        return self.most // BLOCKS

    @property
    def histories(self) -> int:
        """Bytes of the histories that are read at a time."""
        return self.most // HISTORIES

    def check(self, doing: Callable[[], str]) -> None:
        """Raise `MemoryLimitReached` when next to nothing is left. `doing`: what took it, for a person."""
        enough = self.most - self.most // MARGIN
        if self.held() < enough:
            return
        self.give_back()
        held = self.held()
        if held >= enough:
            raise MemoryLimitReached(
                f"{held // MIB}Mi of memory are in use {doing()}, and --memory-limit allows {self.most // MIB}Mi: give "
                "it more, or run this where there is more memory"
            )


UNLIMITED = MemoryLimit(most=sys.maxsize)
"""For spans that are known to be small."""
