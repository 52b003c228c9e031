"""Door: `python worker.py ...` is `wharfinger worker ...`."""

from __future__ import annotations

import sys

from wharfinger.cli.entry import main

if __name__ == "__main__":
    main(["worker", *sys.argv[1:]])
