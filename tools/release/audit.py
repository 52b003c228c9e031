"""Report known vulnerabilities of the locked packages (`make audit`).

pip-audit answers about a package that its service does not know as if all were well. Here it counts as not audited.
Exit code: 0 = all packages were audited and none is vulnerable, 1 = a vulnerability is known, 2 = not all could be
audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def verdict(printed: str, complained: str) -> tuple[int, list[str]]:
    """The exit code and the lines about it, from what pip-audit printed as JSON and on stderr."""
    try:
        packages: list[dict[str, Any]] = json.loads(printed)["dependencies"]
    except (ValueError, KeyError):
        reason = next(reversed(complained.strip().splitlines()), "pip-audit printed nothing")
        return 2, [f"not audited: the data about vulnerabilities cannot be reached: {reason}"]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'none'}"
        for package in packages
        for found in package.get("vulns", ())
    ]
    if lines:
        return 1, lines
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped:
        count = f"{len(skipped)} of {len(packages)} packages"
        return 2, [f"not audited: {count} are not in the data that can be reached, {skipped[0]} for example"]
    return 0, [f"{len(packages)} packages, no known vulnerability"]


def main(locks: list[str]) -> int:
    """Audit each file of locked packages."""
    worst = 0
    options = ["--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json"]
    for lock in locks:
        command = [Path(sys.executable).with_name("pip-audit"), *options, "--requirement", lock]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
            code, lines = verdict(done.stdout, done.stderr)
        except subprocess.TimeoutExpired:
            code, lines = 2, ["not audited: no answer within 300 s"]
        for line in lines:
            print(f"{lock}: {line}")
        worst = worst if worst == 1 else code or worst
    return worst


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
