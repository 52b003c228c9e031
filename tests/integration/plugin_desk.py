"""Asynchronous plugins for real workers, which do what files in a folder say and note each call there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.plugin_package import put_plugin

NOTING = """
import asyncio
import json
import os
from pathlib import Path

from wharfinger.framework.async_plugins import CallLimits
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable

FOLDER = Path(os.environ["LICENCES"])
LIMITS = CallLimits(timeout=60, deadline=120, heartbeat=2)


def note(**fields):
    with (FOLDER / "calls").open("a") as calls:
        calls.write(json.dumps(fields) + "\\n")


async def hang():
    while (FOLDER / "hangs").exists():
        await asyncio.sleep(0.02)
"""
"""What the plugins below, and those of a test, begin with."""

LICENCES = '''

class Licences:
    """Asks a licence server, which is a folder: files in it say what becomes of a call."""

    name = "Licences"
    call_limits = LIMITS

    def concerns(self, pod):
        return "licence" in pod.labels

    def reserve(self, state, pod, node_name):
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        if self.concerns(pod):
            note(unreserved=pod.name, data=state.carried(self.name))

    async def pre_bind(self, state, pod, node_name, call):
        note(pre_bind=pod.name, key=call.key, attempt=call.attempt, worker=os.getpid(), node=node_name)
        state.carry(self.name, {"licence": 7})
        await hang()
        if (FOLDER / "raises").exists():
            raise OSError("the server answered 500")
        if (FOLDER / "waits").exists():
            return Status(Code.WAIT, ("the licence is being made",))
        if (FOLDER / "refuses").exists():
            return unschedulable("no licence is free")
        return SUCCESS
'''


class PluginDesk:
    """The folder that the plugins read and write, the packages of the plugins, and a configuration with them."""

    def __init__(self, folder: Path, crane: str, **environment: str) -> None:
        """`crane`: the source of the class `Crane`, a Bind plugin; `environment`: variables that it reads."""
        self.folder = folder
        self.site = folder / "site"
        """Where a worker starts that has the plugins."""
        self.environment = {"LICENCES": str(folder), **environment}
        put_plugin(self.site, "Licences", NOTING + LICENCES)
        put_plugin(self.site, "Crane", NOTING + crane)

    def config(self, *, crane: bool) -> Path:
        """A configuration with `Licences`; with `Crane` before the default binder, if that is wanted."""
        path = self.folder / "config.json"
        binders = {"disabled": [{"name": "*"}], "enabled": [{"name": "Crane"}, {"name": "DefaultBinder"}]}
        plugins = {"multiPoint": {"enabled": [{"name": "Licences"}]}, **({"bind": binders} if crane else {})}
        path.write_text(json.dumps({"profiles": [{"plugins": plugins}]}))
        return path

    def noted(self, what: str) -> list[dict[str, Any]]:
        """The notes that have such a field, in the order of the calls."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [one for one in map(json.loads, lines) if what in one]

    def put(self, what: str) -> None:
        """Have the plugins do so: `hangs`, `raises`, `waits` or `refuses`."""
        (self.folder / what).touch()

    def take(self, what: str) -> None:
        """Have them do so no more."""
        (self.folder / what).unlink()
