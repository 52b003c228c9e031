"""Hard spread constraints: which nodes they refuse.

With count = matching pods in the node's domain, least = the smallest count of any domain that takes part (0 where
there are fewer domains than `minDomains`), a node is refused when count + self - least > maxSkew, and when it has no
value for the topology key. The first constraint that refuses gives the reason. kube-scheduler 1.36,
`plugins/podtopologyspread/filtering.go`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.model.pod import Pod
from wharfinger.plugins.spread_constraints import Spread
from wharfinger.plugins.spread_counting import SpreadCounts

_MISMATCH = "node(s) didn't match pod topology spread constraints"
_STATUSES = (SUCCESS, unschedulable(_MISMATCH), unresolvable(f"{_MISMATCH} (missing required label)"))
_TOO_MANY, _NO_LABEL = 1, 2


def verdicts(counts: SpreadCounts, pod: Pod, spreads: tuple[Spread, ...], snapshot: Snapshot) -> Verdicts | None:
    """Verdicts by row; None = no node is refused, which most often needs no look at the rows."""
    keys = tuple([spread.constraint.topology_key for spread in spreads])
    complete = counts.having(snapshot, keys).among is None
    codes: NDArray[Any] | None = None
    for spread in spreads:
        refused = _refused_domains(counts, pod, spread, snapshot, keys)
        if refused is None and complete:
            continue
        labels = snapshot.label(spread.constraint.topology_key)
        by_code = np.zeros(len(labels.values), dtype=np.int8)
        if refused is not None:
            by_code[: len(refused)][refused] = _TOO_MANY
        by_code[0] = _NO_LABEL
        by_row = by_code.take(labels.codes)
        codes = by_row if codes is None else np.where(codes, codes, by_row)
    return None if codes is None else Verdicts(codes, _STATUSES)


def _refused_domains(
    counts: SpreadCounts, pod: Pod, spread: Spread, snapshot: Snapshot, keys: tuple[str, ...]
) -> BoolColumn | None:
    """By code of the topology label: whether the domain has too many pods; None = no domain has."""
    constraint = spread.constraint
    nodes = counts.nodes(snapshot, pod, spread, keys)
    sums = counts.sums(snapshot, pod, spread, nodes)
    if sums is None:
        return None  # 0 + self never exceeds a skew, which is 1 at least
    allowed = constraint.max_skew - spread.matches_itself
    highest = int(sums.max())
    if highest <= allowed:
        return None  # whatever the smallest count is
    domains = nodes.domains(snapshot, constraint.topology_key)
    if len(domains) >= constraint.min_domains:
        allowed += int(sums.take(domains).min())
    return sums > allowed if highest > allowed else None
