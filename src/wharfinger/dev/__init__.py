"""Embedded servers and workers as one supervised tree (`wharfinger dev`).

`binaries` finds or makes the servers, `etcd` and `temporal` know their command lines, `supervisor` keeps
processes running, `folder` is the data folder with its lock and its memory, `tree` composes them.
"""
