"""The documents of rk8s: its pods and nodes as it keeps them in etcd, read as the objects of Kubernetes they stand for.

`tree` is their syntax, `fields` reads one field by its declared type; `pods` and `nodes` give the mapping that the rest
of `documents` reads, and `edit` writes the one field that is wharfinger's. Types, defaults and spelling are those of
rk8s' crate `common` (April 2026); documents of the version with GPUs and gangs (May 2026) are told by their fields.
"""
