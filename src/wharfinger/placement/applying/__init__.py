"""Deciding how objects are applied on a member cluster: pure policy, without I/O, clock or storage.

`object_steps` orders objects, and decides what is done about each; `merge` computes what an object becomes, and what
conflicts; `comparing` finds drift; `availability` judges an object that was applied.
"""
