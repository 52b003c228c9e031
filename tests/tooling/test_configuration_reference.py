"""The reference of the configuration files says of every field what it means."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from wharfinger.fleet.spec.fleet_fields import FleetFields
from wharfinger.framework.config.file_fields import SchedulerConfiguration

HOOKS = Path(__file__).parents[2] / "tools" / "documents" / "hooks.py"


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """What the build of the documents calls."""
    spec = importlib.util.spec_from_file_location("document_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("model", [SchedulerConfiguration, FleetFields])
def test_every_field_is_described(hooks: ModuleType, model: type[BaseModel]) -> None:
    rows = hooks.fields_of(model)

    assert len(rows) > 30
    assert [row.field for row in rows if not row.what] == []


def test_each_field_is_told_once_with_its_own_text(hooks: ModuleType) -> None:
    rows = {row.field: row for row in hooks.fields_of(FleetFields)}

    assert rows["spec.strategy.rollingUpdate.maxSurge"].default == "`1`"
    assert rows["spec.paused"].what == "Replace nothing; crashed instances return all the same."
    assert "spec.strategy.rollingUpdate.soakSeconds" in rows


def test_what_stands_in_many_places_refers_to_the_first(hooks: ModuleType) -> None:
    rows = {row.field: row for row in hooks.fields_of(SchedulerConfiguration)}

    assert "profiles.plugins.multiPoint.enabled.weight" in rows
    assert "profiles.plugins.filter.enabled.weight" not in rows
    assert rows["profiles.plugins.filter"].what.endswith("Fields as of `profiles.plugins.multiPoint`.")
