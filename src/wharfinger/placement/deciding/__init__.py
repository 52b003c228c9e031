"""Deciding which member clusters get a placement: pure policy, without I/O, clock or storage.

`deciding` chooses; `filters`, `affinity` and `ranking` judge members; `rolling` and `stages` plan.
"""
