"""The recorded answers by which our own checks of manifests are tested are those of the API server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.apiserver.api_server_process import ApiServerProcess
from tests.objects.documents.checks.cases import CASES
from wharfinger.objects.documents.kinds import of_object

ANSWERS = Path(__file__).parents[1] / "objects" / "documents" / "checks" / "answers.json"
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_the_api_server_refuses_what_is_recorded(kube_apiserver: ApiServerProcess) -> None:
    found = {title: _refused(kube_apiserver, obj) for title, obj in CASES.items()}

    assert found == json.loads(ANSWERS.read_text())


def _refused(server: ApiServerProcess, obj: Mapping[str, Any]) -> list[str]:
    """Why a dry run refuses an object; nothing where it takes it."""
    kind = of_object(obj)
    version = obj["apiVersion"]
    folder = f"/apis/{version}" if kind.group else f"/api/{version}"
    space = "/namespaces/default" if kind.namespaced else ""
    answer = server.request("POST", f"{folder}{space}/{kind.plural}?dryRun=All", obj)
    if answer.code == 201:
        return []
    causes = answer.body.get("details", {}).get("causes", ())
    reasons = [f"{cause['field']}: {cause['message']}" for cause in causes] or [answer.body["message"]]
    return sorted(_UID.sub("u", reason) for reason in reasons)
