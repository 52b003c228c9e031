"""Door: `python worker.py ...` is `wharfinger worker ...`."""

from __future__ import annotations

import sys

try:
    from wharfinger.cli.entry import main
except ModuleNotFoundError:
    sys.exit(
        f"error: wharfinger is not installed for {sys.executable}: run `make setup` in the checkout, then "
        "`.venv/bin/python worker.py`"
    )

if __name__ == "__main__":
    main(["worker", *sys.argv[1:]])
