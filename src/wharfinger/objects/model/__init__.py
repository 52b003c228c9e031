"""Facts: frozen dataclasses and pure functions over them, standard library only.

Everything above speaks in these words; nothing here knows bytes, etcd, Temporal or NumPy.
Objects are made by `documents` and read everywhere.
"""
