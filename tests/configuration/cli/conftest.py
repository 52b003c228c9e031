"""Command lines for the tests of this folder."""

from tests.cli.shell import outside, root_log, shell

__all__ = ["outside", "root_log", "shell"]
