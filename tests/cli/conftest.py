"""Command lines for the tests of this folder."""

from tests.cli.shell import hasty, outside, root_log, shell, url

__all__ = ["hasty", "outside", "root_log", "shell", "url"]
