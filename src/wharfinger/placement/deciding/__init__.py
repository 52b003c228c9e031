"""Deciding which member clusters get a placement: pure policy, without I/O, clock or storage.

`deciding` chooses; `filters`, `affinity`, `eligibility` and `spread` judge one member; `rolling` and `stages` plan.
"""
