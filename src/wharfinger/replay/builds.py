"""Which builds of ours, with which packages, decided: as workers stored it under the digests that decisions name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.etcd import keys
from wharfinger.process.records import SoftwareRecord
from wharfinger.replay.kept import KeptStates


async def read_builds(store: KeptStates, decisions: Mapping[str, int]) -> list[dict[str, Any]]:
    """By digest (empty = of an earlier release), the most decisions first. Raises `StoreError`."""
    found = []
    for digest, count in sorted(decisions.items(), key=lambda entry: -entry[1]):
        read = await store.get(keys.software(digest)) if digest else None
        record = SoftwareRecord.from_bytes(read.kv and read.kv.value) if read is not None else None
        found.append(
            {
                "digest": digest,
                "build": record.build if record is not None else "",
                "packages": dict(record.packages) if record is not None else {},
                "decisions": count,
            }
        )
    return found
