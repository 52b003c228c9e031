"""Alerts about etcd: by its members' metrics, and by what they say of their health."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.page.alerts.etcd_health import ALARM, EtcdHealth
from wharfinger.page.alerts.expressions import Processes, how_many, quantile
from wharfinger.page.alerts.rules import CRITICAL, MINUTE, AlertRule, AlertSource, SeenAlert, counted, says_no

_ETCD_SLOW = (
    "etcd_server_has_leader == 0, "
    "histogram_quantile(0.99, rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m])) > 0.02 (etcd's)"
)


def _fullest(them: Processes) -> float | None:
    """Of etcd's members, how much of its quota is in use where it is most."""
    shares = []
    for one in them:
        used = one.last.total("etcd_mvcc_db_total_size_in_use_in_bytes") if one.last is not None else None
        quota = one.last.total("etcd_server_quota_backend_bytes") if one.last is not None else None
        if used is not None and quota:
            shares.append(used / quota)
    return max(shares, default=None)


RULES = (
    AlertRule("EtcdFull", "etcd_mvcc_db_total_size_in_use_in_bytes / etcd_server_quota_backend_bytes > 0.7 (etcd's)",
              "etcd is full: at its quota it refuses every write but deletes", _fullest, above=0.7,
              severity=CRITICAL, unit=" of the quota"),
    AlertRule("EtcdWithoutLeader", _ETCD_SLOW, "no quorum",
              how_many(says_no("etcd_server_has_leader")), severity=CRITICAL,
              unit=" servers without a leader"),
    AlertRule("EtcdDiskSlow", _ETCD_SLOW, "the disk is too slow",
              quantile(0.99, "etcd_disk_wal_fsync_duration_seconds", 5 * MINUTE), above=0.02, unit=" s"),
)  # fmt: skip


class EtcdAlerts(AlertSource):
    """Evaluated on the members of etcd."""

    name = "etcd"
    rules = RULES
    nobody = "no address of etcd's metrics is known: give --etcd-metrics-url"

    def __init__(self, etcd: EtcdHealth) -> None:
        super().__init__(etcd.scraper)
        self._etcd = etcd

    def told(self) -> dict[str, Any]:
        """With what its members say of their health."""
        return self._etcd.told()

    def seen(self) -> Iterable[SeenAlert]:
        """Alarms, and what else makes a member call itself unhealthy."""
        said = {address: why for address, why in self._etcd.alarms.items() if why is not None}
        wrong = {address: why for address, why in said.items() if why}
        means = "a member of etcd says that it is not healthy"
        if any(ALARM in why for why in wrong.values()):
            means = "etcd has raised an alarm: at its quota it refuses every write but deletes"
        shown = "; ".join(f"{address}: {why}" for address, why in wrong.items())
        value = shown or f"{counted(len(said), ' members')} asked, none says so"
        yield SeenAlert("EtcdUnhealthy", bool(wrong) if said else None, means, value, severity=CRITICAL)
