"""What the process of `tests.fork_server` imports once, before it forks: all that commands need."""

import os

# As the command sets them, before anything imports what reads them.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests import forked
from wharfinger.cli.main import command_line
from wharfinger.dev import processes, tree
from wharfinger.process.build import build_id
from wharfinger.programs import agent, hub, member, worker

__all__ = ["agent", "forked", "hub", "member", "processes", "tree", "worker"]

command_line()
build_id()
