"""A Filter's verdict on all nodes at once: a code per node, and what each code means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn
from wharfinger.framework.status import SUCCESS, Status


class StatusTable(Protocol):
    """Statuses by code: a tuple will do; a code that is never looked up need not exist."""

    def __getitem__(self, code: int, /) -> Status:
        """What the code means."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Code 0 = the node passes; any other code is looked up in `statuses`."""

    codes: NDArray[Any]
    """Integers, one a node, by row."""
    statuses: StatusTable

    @classmethod
    def refuse(cls, refused: BoolColumn, status: Status) -> Verdicts:
        """One refusal, for the nodes where `refused` is true."""
        return cls(refused.view(np.int8), (SUCCESS, status))

    @classmethod
    def of(cls, statuses: Mapping[int, Status], length: int) -> Verdicts:
        """A refusal per row; rows that are not named pass."""
        codes = np.zeros(length, dtype=np.int32)
        table = [SUCCESS]
        code_of: dict[Status, int] = {}
        for row, status in statuses.items():
            code = code_of.setdefault(status, len(table))
            if code == len(table):
                table.append(status)
            codes[row] = code
        return cls(codes, tuple(table))

    def at(self, row: int) -> Status:
        """The verdict on one node."""
        code = int(self.codes[row])
        return SUCCESS if code == 0 else self.refusal(code)

    def check(self, nodes: int) -> None:
        """ValueError unless there is a code for each node, and each code used that can be looked up cheaply refuses.

        Only a tuple of statuses can; any other table is checked code by code when a reason is requested.
        """
        codes = self.codes
        if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "biu" or codes.ndim != 1:
            raise ValueError(f"codes are {type(codes).__name__}, not an array of integers")
        if len(codes) != nodes:
            raise ValueError(f"{len(codes)} verdicts for {nodes} nodes")
        if not isinstance(self.statuses, tuple):
            return
        if nodes and not 0 <= int(codes.min()) <= int(codes.max()) < max(len(self.statuses), 1):
            raise ValueError(f"codes {codes.min()} to {codes.max()} for {len(self.statuses)} statuses")
        for code, status in enumerate(self.statuses):
            if code and not _refuses(status) and (codes == code).any():
                raise ValueError(f"answered {status!r} as code {code}, not a refusal")

    def counts(self, among: BoolColumn) -> Mapping[Status, int]:
        """How often each refusal occurs among the chosen nodes."""
        values, numbers = np.unique(self.codes[among], return_counts=True)
        pairs: Iterable[tuple[int, int]] = zip(values.tolist(), numbers.tolist(), strict=True)
        counts: dict[Status, int] = {}
        for code, number in pairs:
            if code:
                status = self.refusal(code)
                counts[status] = counts.get(status, 0) + number
        return counts

    def refusal(self, code: int) -> Status:
        """What a code other than 0 means; ValueError unless it is a refusal."""
        status = self.statuses[code]
        if not _refuses(status):
            raise ValueError(f"answered {status!r} as code {code}, not a refusal")
        return status


def _refuses(status: object) -> bool:
    return isinstance(status, Status) and status.rejected
