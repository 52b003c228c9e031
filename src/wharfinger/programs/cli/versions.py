"""`--version` of `wharfinger kube-scheduler`: which release of Kubernetes it stands for, in kube-scheduler's forms."""

from __future__ import annotations

import json
import platform
import re

from wharfinger.errors import UsageError
from wharfinger.programs.cli.go_types import boolean

RELEASE = "v1.36.2"
"""The release of Kubernetes whose scheduler this stands for."""
RAW = "raw"
_REPORTED = re.compile(r"v\d+\.\d+\.\d+([-+].*)?", re.ASCII)


def printed(wanted: str) -> str:
    """What `--version=...` prints; empty where it prints nothing. Raises `UsageError`."""
    from wharfinger.process.build import release

    if wanted == RAW:
        major, minor, _ = RELEASE.removeprefix("v").split(".")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        fields = {
            "Major": major,
            "Minor": minor,
            "GitVersion": RELEASE,
            "Wharfinger": release(),
            "Python": platform.python_version(),
            "Platform": f"{platform.system().lower()}/{machine}",
        }
        return f"version.Info{{{', '.join(f'{name}:{json.dumps(value)}' for name, value in fields.items())}}}"
    if wanted.startswith("v"):
        return ""
    try:
        return f"Kubernetes {RELEASE} (wharfinger {release()})" if boolean(wanted) else ""
    except ValueError as error:
        raise _refused(wanted, str(error)) from None


def reported(wanted: str) -> str | None:
    """The release that pages report, as `--version=vX.Y.Z...` sets it; None = ours. Raises `UsageError`."""
    if not wanted.startswith("v"):
        return None
    if _REPORTED.fullmatch(wanted) is None or re.split("[-+]", wanted)[0] != RELEASE:
        why = f"version {json.dumps(wanted)} must match major/minor/patch of default version {json.dumps(RELEASE)}"
        raise _refused(wanted, why)
    return wanted


def _refused(wanted: str, why: str) -> UsageError:
    return UsageError(f'invalid argument {json.dumps(wanted)} for "--version" flag: {why}')
