"""What a pod's claims mean to every node at once: the column form of `objects.model.volume_matching`.

Both must say the same of every node; a property test compares them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import BoolColumn, NodeNames, RowNumbers
from wharfinger.framework.interned import Interned
from wharfinger.framework.plugins.node_matching import matches_all, matches_any_term
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement
from wharfinger.objects.model.storage import CsiNode, PersistentVolume, PersistentVolumeClaim, whole_bytes
from wharfinger.objects.model.storage_index import Keyed, Storage
from wharfinger.objects.model.volume_matching import ClaimsOfPod, Offers, Unmet, minds_capacity, provisions

Lacks = NDArray[np.int8]
"""By row: `Unmet` as a number; 0 = the node lacks nothing."""


class _Choice(NamedTuple):
    """What a claim chooses."""

    places: Mapping[str, int]
    """The volumes that it may choose, by name, and the place of each."""
    by_row: NDArray[np.intp]
    """The place of the chosen one; -1 = none."""


class Migrations:
    """On which nodes an in-tree plugin is migrated; worked out anew when a CSINode or the nodes are others."""

    def __init__(self) -> None:
        self._names: NodeNames | None = None
        self._nodes: Keyed[str, CsiNode] | None = None
        self._by_plugin: dict[str, BoolColumn] = {}

    def of(self, plugin: str, snapshot: Snapshot, storage: Storage) -> BoolColumn:
        """The rows. Not to be written to."""
        names = snapshot.node_columns.names
        if names is not self._names or storage.nodes is not self._nodes:
            self._names, self._nodes, self._by_plugin = names, storage.nodes, {}
        found = self._by_plugin.get(plugin)
        if found is None:
            known = (storage.nodes.get(name) for name in names.names)
            migrated = (node is not None and plugin in node.migrated for node in known)
            found = self._by_plugin[plugin] = np.fromiter(migrated, np.bool_, len(names.names))
        return found


class VolumeColumns:
    """Answers for one pod over one snapshot."""

    def __init__(self, claims: ClaimsOfPod, snapshot: Snapshot, migrations: Migrations) -> None:
        self._claims = claims
        self._storage = claims.storage
        self._snapshot = snapshot
        self._migrations = migrations
        self._orders: dict[str, tuple[RowNumbers, NDArray[Any]]] = {}

    def lacks(self) -> Lacks:
        """What each node lacks."""
        lacks = self._bound()
        if not self._claims.delayed:
            return lacks
        left = np.ones(len(self._snapshot), dtype=np.bool_)
        for claim in self._claims.selected:
            left &= self._named(claim.selected_node)
        lacks[~left] |= Unmet.BIND_CONFLICT
        needing: list[tuple[PersistentVolumeClaim, BoolColumn]] = [(claim, left) for claim in self._claims.selected]
        if self._claims.offers and left.any():
            needing += self._unmatched(left)
        self._provision(needing, lacks)
        return lacks

    # --- bound claims -------------------------------------------------------------------------

    def _bound(self) -> Lacks:
        """The first claim whose volume is not there, or out of reach, decides."""
        lacks = np.zeros(len(self._snapshot), dtype=np.int8)
        left = np.ones(len(self._snapshot), dtype=np.bool_)
        for claim in self._claims.bound:
            volume = self._storage.volumes.get(claim.volume_name)
            if volume is None:
                lacks[left] |= Unmet.NO_VOLUME
                break
            reached = self._reached(volume)
            if reached is not None:
                lacks[left & ~reached] |= Unmet.NODE_CONFLICT
                left &= reached
        return lacks

    def _reached(self, volume: PersistentVolume) -> BoolColumn | None:
        """From which nodes a bound volume can be reached; None = from all."""
        if volume.in_tree is None or volume.node_terms == volume.migrated_terms:
            return None if volume.node_terms is None else matches_any_term(self._snapshot, volume.node_terms)
        migrated = self._migrations.of(volume.in_tree.plugin, self._snapshot, self._storage)
        plain, otherwise = self._mask(volume.node_terms), self._mask(volume.migrated_terms)
        return np.where(migrated, otherwise, plain)

    def _mask(self, terms: Sequence[NodeSelectorTerm] | None) -> BoolColumn:
        if terms is None:
            return np.ones(len(self._snapshot), dtype=np.bool_)
        return matches_any_term(self._snapshot, terms)

    # --- claims that choose a volume ------------------------------------------------------------

    def _unmatched(self, left: BoolColumn) -> list[tuple[PersistentVolumeClaim, BoolColumn]]:
        """The claims that choose, each with the rows of those left where it finds no volume."""
        chosen: list[_Choice] = []
        found = []
        for claim, offers in self._claims.offers:
            choice = self._choice(offers, chosen, len(self._claims.offers))
            chosen.append(choice)
            found.append((claim, left & (choice.by_row < 0)))
        return found

    def _choice(self, offers: Offers, before: Sequence[_Choice], claims: int) -> _Choice:
        """What one claim chooses on each node, after those `before`.

        Of volumes with one node affinity, no more than there are claims can matter.
        """
        volumes = [offers.kept] if offers.kept is not None else _first_of_each(offers.others, claims)
        choice = _Choice(
            {volume.name: place for place, volume in enumerate(volumes)},
            np.full(len(self._snapshot), -1, dtype=np.intp),
        )
        for place in range(len(volumes) - 1, -1, -1):  # the best one last, so that it overwrites the others
            rows = self._rows(volumes[place].node_terms)
            for other in before:
                taken = other.places.get(volumes[place].name)
                if taken is not None:
                    rows = rows[other.by_row[rows] != taken]
            choice.by_row[rows] = place
        return choice

    def _rows(self, terms: Sequence[NodeSelectorTerm] | None) -> RowNumbers:
        """The rows that node affinity selects."""
        if terms is not None and len(terms) == 1 and len(terms[0].expressions) == 1:
            (only,) = terms[0].expressions
            if only.operator is Operator.IN and not terms[0].fields:
                return self._with_value(only)
        return np.flatnonzero(self._mask(terms))

    def _with_value(self, requirement: Requirement) -> RowNumbers:
        """The rows whose label has one of the values: local volumes are as many as nodes, so rows are sorted once."""
        column = self._snapshot.label(requirement.key)
        order, begins = self._order(requirement.key, column)
        codes = [code for value in dict.fromkeys(requirement.values) if (code := column.code(value)) > 0]
        parts = [order[begins[code] : begins[code + 1]] for code in codes]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else order[:0]

    def _order(self, key: str, column: Interned[str | None]) -> tuple[RowNumbers, NDArray[Any]]:
        known = self._orders.get(key)
        if known is None:
            order = np.argsort(column.codes, kind="stable")
            begins = np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))
            known = self._orders[key] = order, begins
        return known

    # --- claims for which a volume is made ------------------------------------------------------

    def _provision(self, needing: Iterable[tuple[PersistentVolumeClaim, BoolColumn]], lacks: Lacks) -> None:
        """The first claim for which none can be made decides."""
        undecided: BoolColumn = np.ones(len(self._snapshot), dtype=np.bool_)
        for claim, rows in needing:
            rows = rows & undecided  # noqa: PLW2901 - of the rows given, those that matter
            if not rows.any():
                continue
            known = self._storage.classes.get(claim.storage_class)
            if known is None or not provisions(known):
                lacks[rows] |= Unmet.BIND_CONFLICT
                undecided &= ~rows
                continue
            if known.allowed_topologies:
                outside = rows & ~self._allowed(known.allowed_topologies)
                lacks[outside] |= Unmet.BIND_CONFLICT
                undecided &= ~outside
                rows = rows & ~outside  # noqa: PLW2901 - likewise
            if minds_capacity(claim, known, self._storage):
                full = rows & ~self._with_room(known.name, whole_bytes(claim.request or 0))
                lacks[full] |= Unmet.NO_SPACE
                undecided &= ~full

    def _allowed(self, topologies: Sequence[Sequence[Requirement]]) -> BoolColumn:
        allowed: BoolColumn = np.zeros(len(self._snapshot), dtype=np.bool_)
        for term in topologies:
            if term:
                allowed |= matches_all(self._snapshot, term)
        return allowed

    def _with_room(self, class_name: str, size: int) -> BoolColumn:
        room: BoolColumn = np.zeros(len(self._snapshot), dtype=np.bool_)
        for capacity in self._storage.capacities_of.get(class_name, {}).values():
            if capacity.limit is None or capacity.topology is None or whole_bytes(capacity.limit) < size:
                continue
            requirements = capacity.topology.requirements
            if len(requirements) == 1 and requirements[0].operator is Operator.IN:
                room[self._with_value(requirements[0])] = True
            else:
                room |= matches_all(self._snapshot, requirements)
        return room

    def _named(self, node_name: str | None) -> BoolColumn:
        rows: BoolColumn = np.zeros(len(self._snapshot), dtype=np.bool_)
        row = self._snapshot.index.get(node_name) if node_name else None
        if row is not None:
            rows[row] = True
        return rows


def _first_of_each(volumes: Sequence[PersistentVolume], number: int) -> list[PersistentVolume]:
    """Of volumes with equal node affinity the first few; in the order given."""
    seen: dict[Hashable, int] = {}
    found = []
    for volume in volumes:
        terms = _told_apart(volume.node_terms)
        count = seen.get(terms, 0)
        if count < number:
            seen[terms] = count + 1
            found.append(volume)
    return found


def _told_apart(terms: tuple[NodeSelectorTerm, ...] | None) -> Hashable:
    """What is equal for equal terms; of one requirement, as local volumes have it, its texts: they hash fast."""
    if terms is not None and len(terms) == 1 and len(terms[0].expressions) == 1:
        (only,) = terms[0].expressions
        return only.key, only.operator.value, only.values
    return terms
