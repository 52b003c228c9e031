"""How often this process looks for cyclic garbage.

CPython looks after every 700 new containers, and ever more deeply; a worker makes thousands for a pod,
nearly all freed by reference counting, and keeps a whole cluster that never is garbage. With the values
here looking costs a tenth of what it did, and workflows that left the cache still are collected.
"""

from __future__ import annotations

import gc

YOUNG = 50_000
"""New containers between two looks at the youngest."""
MIDDLE, OLD = 20, 50
"""Looks at the younger generation before one at the next."""


def tune() -> None:
    """Take what was imported out of every later look, and look more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
