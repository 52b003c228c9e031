"""What counts in a decision: what is stored is replaced only when that differs, and nothing is started otherwise."""

from __future__ import annotations

import hashlib

from wharfinger.model.placement import PlacementDecision


def counting(decision: PlacementDecision) -> bytes:
    """A digest of all that counts in a decision.

    Members, the policy each was chosen by, how many are wanted, the condition, and who refused whom by which code
    count; scores, ages and texts do not: they change all the time.
    """
    told = (
        decision.policy,
        decision.generation,
        decision.number,
        sorted((one.name, one.identity, one.policy) for one in decision.chosen),
        sorted((one.name, one.plugin, one.code) for one in decision.verdicts),
        (decision.condition.status, decision.condition.reason),
    )
    return hashlib.blake2b(repr(told).encode(errors="surrogatepass"), digest_size=16).digest()
