"""A digest of the pods that a worker assumes: how many, and a sum over them that is kept up to date pod by pod.

A record of a decision names the digest where it has no room for the pods. Whoever has their names can check them, and
tell from the difference of two sums which pod is too many or missing. The same in every release.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

BITS = 64
MASK = (1 << BITS) - 1


def mark(pod: str, create_revision: int, node: str) -> int:
    """What one assumed pod (`namespace/name`) adds to the sum."""
    said = f"{pod}\n{create_revision}\n{node}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(said, digest_size=BITS // 8).digest(), "big")


def digest(count: int, total: int) -> str:
    """As it is recorded: `<how many>-<sum modulo 2^64, in hex>`."""
    return f"{count}-{total & MASK:016x}"


def parsed(text: str) -> tuple[int, int]:
    """Count and sum of a recorded digest. ValueError for what is none."""
    count, _, total = text.partition("-")
    return int(count), int(total, 16)


def digest_of(pods: Iterable[tuple[str, int, str]]) -> str:
    """The digest of these pods: name, create revision and node of each."""
    marks = [mark(*one) for one in pods]
    return digest(len(marks), sum(marks))
