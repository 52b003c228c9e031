"""The required anti-affinity of the pods that count on nodes: which pods it may keep from somewhere.

It holds for pods that come later too, so a plain pod's placement depends on it. Where no such term may match a pod,
nothing beyond its own node has to be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from wharfinger.model.affinity import PodAffinityTerm
from wharfinger.model.pod import Pod, PodIdentity


class AntiAffinity:
    """The distinct terms, however many pods have them, by the namespaces they may concern."""

    def __init__(self) -> None:
        self._named: dict[str, Counter[PodAffinityTerm]] = {}
        self._selecting: Counter[PodAffinityTerm] = Counter()
        """Terms with a namespace selector: any namespace may be meant."""
        self._of: dict[PodIdentity, tuple[str, tuple[PodAffinityTerm, ...]]] = {}
        self.epoch = 0
        """Moves whenever a pod with such terms begins to count somewhere."""

    def count(self, pod: Pod, node_name: str | None) -> None:
        """The pod counts on this node and nowhere else; None = nowhere."""
        terms = pod.required_anti_affinity if node_name is not None else ()
        if not terms and not self._of:
            return
        identity = pod.identity
        known = self._of.get(identity)
        now = (node_name, terms) if node_name is not None and terms else None
        if known == now:
            return
        if known is not None:
            del self._of[identity]
            self._add(known[1], -1)
        if now is not None:
            self._of[identity] = now
            self._add(terms, 1)
            self.epoch += 1

    def concerns(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether some pod's anti-affinity selects this pod; `namespace_labels` are those of the pod's namespace."""
        return any(term.selects(pod.namespace, namespace_labels, pod.labels) for term in self._about(pod.namespace))

    def concerns_namespace(self, namespace: str) -> bool:
        """Whether some pod's anti-affinity names this namespace."""
        return namespace in self._named

    def _about(self, namespace: str) -> Iterator[PodAffinityTerm]:
        yield from self._named.get(namespace, ())
        yield from self._selecting

    def _add(self, terms: tuple[PodAffinityTerm, ...], number: int) -> None:
        for term in terms:
            if term.namespace_selector is not None:
                _change(self._selecting, term, number)
            for namespace in term.namespaces:
                counts = self._named.setdefault(namespace, Counter())
                _change(counts, term, number)
                if not counts:
                    del self._named[namespace]


def _change(counts: Counter[PodAffinityTerm], term: PodAffinityTerm, number: int) -> None:
    counts[term] += number
    if not counts[term]:
        del counts[term]
