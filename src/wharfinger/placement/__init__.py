"""Deciding which member clusters get a placement: pure policy, without I/O, clock or storage.

A sibling of `fleet`. It knows `model` and `errors` only. `deciding` chooses; `filters`, `affinity`, `eligibility` and
`spread` judge one member; `upstream` decides as KubeFleet's scheduler does, cycle by cycle, for comparisons.
"""
