"""What the process of `tests.forked` imports once, before it forks: all that commands need."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # as the command does, before anything imports grpcio

from wharfinger import agent, worker
from wharfinger.cli.main import command_line
from wharfinger.dev import processes

__all__ = ["agent", "die_with_parent", "worker"]

command_line()

die_with_parent = processes.die_with_parent()
"""For the forks of this process."""
