"""How long a placement takes to decide: ten of many members, with affinity, properties and spread.

    python benchmarks/placement.py [--members 1000]

Prints the median of warm decisions, and of the first one after all members were read anew, in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

from wharfinger.placement.deciding.deciding import decide
from wharfinger.placement.deciding.question import Question
from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.spec.members import member_from_mapping
from wharfinger.placement.spec.placements import placement_from_mapping

ROUNDS = 50
PLACEMENT: dict[str, Any] = {
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "web", "generation": 1},
    "spec": {
        "policy": {
            "placementType": "PickN",
            "numberOfClusters": 10,
            "affinity": {
                "clusterAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "clusterSelectorTerms": [
                            {
                                "labelSelector": {"matchLabels": {"env": "prod"}},
                                "propertySelector": {
                                    "matchExpressions": [
                                        {"name": "kubernetes-fleet.io/node-count", "operator": "Ge", "values": ["5"]}
                                    ]
                                },
                            }
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 50,
                            "preference": {
                                "propertySorter": {
                                    "name": "resources.kubernetes-fleet.io/available-cpu",
                                    "sortOrder": "Descending",
                                }
                            },
                        },
                        {"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "1"}}}},
                    ],
                }
            },
            "topologySpreadConstraints": [
                {"topologyKey": "region"},
                {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        }
    },
}


def members(count: int) -> tuple[Member, ...]:
    """Members in seven regions with three zones each, half of them for production."""
    chance = random.Random(1)
    heard = "2026-01-01T00:00:00Z"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": heard} for kind in ("Joined", "Healthy")]
    return tuple(
        member_from_mapping(
            {
                "metadata": {
                    "name": f"member-{number:04}",
                    "labels": {
                        "region": f"r{number % 7}",
                        "zone": f"r{number % 7}-{number % 3}",
                        "env": chance.choice(["prod", "test"]),
                        "tier": str(number % 4),
                    },
                },
                "status": {
                    "agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": heard, "conditions": conditions}],
                    "properties": {"kubernetes-fleet.io/node-count": {"value": str(chance.randrange(3, 50))}},
                    "resourceUsage": {"available": {"cpu": f"{chance.randrange(1000, 60_000)}m"}},
                },
            },
            number + 1,
        )
        for number in range(count)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=1000)
    count = parser.parse_args().members
    placement = placement_from_mapping(PLACEMENT)

    def question() -> Question:
        known = members(count)
        return Question(placement, 0, known, {one.name: Ages(5.0, 1000.0) for one in known})

    def seconds(asked: Question) -> float:
        begin = time.perf_counter()
        decide(asked)
        return time.perf_counter() - begin

    warm = question()
    chosen = decide(warm).chosen
    first = statistics.median(seconds(question()) for _ in range(5))
    again = statistics.median(seconds(warm) for _ in range(ROUNDS))
    print(f"{count} members, {len(chosen)} chosen: {again * 1e3:.2f} ms, with members read anew {first * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
