"""Lets tests import the modules of `benchmarks/`, which import each other as scripts do."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")

if BENCHMARKS not in sys.path:
    sys.path.append(BENCHMARKS)  # last, because names like `etcd` must not hide a package
