"""Door: `python -m wharfinger` is the command `wharfinger`."""

from __future__ import annotations

from wharfinger.cli.entry import main

if __name__ == "__main__":
    main()
