"""Test the rules for alerts, and read every query of the dashboards, with promtool; say so where it cannot be had.

A step of `make release-check`. promtool is built once with Go.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wharfinger.dev.binaries import PROMTOOL, at_hand, locate
from wharfinger.errors import ServerError

FOLDER = Path(__file__).parents[2] / "deploy/monitoring"


def queries() -> str:
    """The queries of all dashboards, as a file of recording rules, which promtool can read."""
    boards = [json.loads(file.read_text()) for file in sorted(FOLDER.glob("dashboards/*.json"))]
    asked = [one["expr"] for board in boards for panel in board["panels"] for one in panel.get("targets", ())]
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m").replace("$job", ".+")}
        for number, query in enumerate(asked)
    ]
    return json.dumps({"groups": [{"name": "dashboards", "rules": rules}]})


def main() -> int:
    """0 where all is well, or promtool cannot be had without Go."""
    if at_hand(PROMTOOL) is None and shutil.which("go") is None:
        print("rules for alerts: not tested, because there is neither promtool nor Go on the PATH")
        return 0
    try:
        promtool = locate(PROMTOOL)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(queries())
        file.flush()
        steps = (("check", "rules", "rules.yaml", file.name), ("test", "rules", "rules_test.yaml"))
        return max(subprocess.run([promtool, *step], cwd=FOLDER, check=False).returncode for step in steps)  # noqa: S603 - ours


if __name__ == "__main__":
    raise SystemExit(main())
