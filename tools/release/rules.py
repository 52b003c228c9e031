"""Test the rules for alerts with promtool, which is built once with Go; say so where it cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from wharfinger.dev.binaries import PROMTOOL, at_hand, locate
from wharfinger.errors import ServerError

FOLDER = Path(__file__).parents[2] / "deploy/monitoring"


def main() -> int:
    """0 where the rules pass, or promtool cannot be had without Go."""
    if at_hand(PROMTOOL) is None and shutil.which("go") is None:
        print("rules for alerts: not tested, because there is neither promtool nor Go on the PATH")
        return 0
    try:
        promtool = locate(PROMTOOL)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for verb, file in (("check", "rules.yaml"), ("test", "rules_test.yaml")):
        done = subprocess.run([promtool, verb, "rules", file], cwd=FOLDER, check=False)  # noqa: S603 - ours
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
