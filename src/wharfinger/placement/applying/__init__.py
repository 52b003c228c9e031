"""Deciding how objects are applied on a member cluster: pure policy, without I/O, clock or storage.

`object_steps` decides what is done about one; `merge` computes what an object becomes, and what conflicts;
`comparing` finds drift; `waves` orders objects; `availability` judges an object that was applied.
"""
