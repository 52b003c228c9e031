"""Which workers shared the nodes, by digest."""

from __future__ import annotations

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.framework.preferred_nodes import members_digest
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.records import InstanceRecord
from wharfinger.replay.facts import MOST_MEMBERSHIPS, Facts
from wharfinger.scheduling.contracts.computation import OwnNodes


def test_the_latest_memberships_are_known_and_no_more() -> None:
    """One worker stays, and another comes again and again under a new incarnation."""
    facts = Facts(format_of(ClusterFormat.KUBERNETES))
    ready = InstanceRecord(state="ready", host="h", pid=1).to_bytes()
    facts.take([Event(KeyValue(keys.instance("common", "0", 1), ready, 1, 1, 5))], 1)
    for number in range(1, MOST_MEMBERSHIPS + 50):
        key = keys.instance("common", str(number), number)
        facts.take([Event(KeyValue(key, ready, 2 * number, 2 * number, 5))], 2 * number)
        facts.take([Event(KeyValue(key, b"", 0, 2 * number + 1), deleted=True)], 2 * number + 1)

    def known(*members: str) -> tuple[str, ...]:
        return facts.memberships.of(OwnNodes(me="common/0", digest=members_digest(members), margin=4))

    assert len(facts.memberships) == MOST_MEMBERSHIPS
    assert known("common/0") == ("common/0",), "it was there between all of them"
    newest = tuple(sorted(("common/0", f"common/{MOST_MEMBERSHIPS + 49}")))
    assert known(*newest) == newest
    assert known("common/0", "common/1") == ()
