"""What the client needs: not the packages that the CLI prints with, and Temporal's client only where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import wharfinger.client
from wharfinger.scheduling.effects import open_runs


def run(code: str) -> str:
    """Run in a fresh interpreter; its output."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.long
def test_the_client_needs_neither_typer_nor_rich_nor_the_cli() -> None:
    names = sorted(wharfinger.client.__all__)

    loaded = run(
        "import sys\n"
        "sys.modules |= {'typer': None, 'rich': None, 'wharfinger.cli': None}\n"
        "import wharfinger.client as client\n"
        f"print(*(getattr(client, name).__name__ for name in {names}))"
    )

    assert loaded.split() == names


def test_looking_at_a_fleet_loads_no_temporal_client() -> None:
    loaded = run("import sys, wharfinger.fleet.reading.fleet_status; print('temporalio' in sys.modules)")

    assert loaded.strip() == "False"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        wharfinger.client.nothing  # noqa: B018

    assert wharfinger.client.start_attempt is open_runs.start_attempt
