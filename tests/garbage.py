"""Collects the cyclic garbage of a test before the next one begins.

Sandboxed workflows import modules anew, which are cyclic garbage afterwards. CPython 3.11's parser fails when much
garbage is collected while it runs, and the next sandbox parses.
"""

from __future__ import annotations

import gc

__all__ = ["collect"]


def collect() -> None:
    """Collect now, and let the next call look at what is made from now on only.

    After some thousand tests of one process, to look through all that they have left takes half a second.
    """
    gc.collect()
    gc.freeze()
