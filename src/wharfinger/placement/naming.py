"""How KubeFleet names a binding: only which members it can name there is of interest."""

from __future__ import annotations

import re

PART = 26
"""Characters of a placement's name in the name of a binding; a member's has one more."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def nameable(placement: str, member: str) -> bool:
    """Whether KubeFleet can name a binding: it admits dots in both names, but not in a binding's."""
    return _NAME.fullmatch(f"{placement[:PART]}-{member[: PART + 1]}-0") is not None
