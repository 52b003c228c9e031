"""Files are completed with what an API server and its controllers make: each folder of `completed` has questions.

`answers.yaml` lists them: `command` and `arguments`, the exit code, and of `simulate` every pod with its node, or with
a part of the reason why it has none. Notes are complete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.shell import Shell

FOLDERS = Path(__file__).parent / "completed"
QUESTIONS = [
    pytest.param(folder, question, id=f"{folder.name}-{number}")
    for folder in sorted(FOLDERS.iterdir())
    for number, question in enumerate(yaml.safe_load((folder / "answers.yaml").read_text()), start=1)
]


@pytest.mark.parametrize(("folder", "question"), QUESTIONS)
def test_file_is_completed_as_in_a_cluster(outside: Shell, folder: Path, question: dict[str, Any]) -> None:
    command = question.get("command", "simulate")
    arguments = (command, "-f", str(folder / "input.yaml"), *question.get("arguments", "").split())

    answer = outside(*arguments, "-o", "json")

    told = answer.json
    assert (answer.code, answer.err) == (question["code"], "")
    for pod, expected in question.get("pods", {}).items():
        [one] = [each for each in told["pods"] if each["pod"] == pod]
        assert one["node"] == expected or expected in one["message"], one
        assert one.get("leansOn") == question.get("leans", {}).get(pod)
    if "pods" in question:
        assert sorted(question["pods"]) == sorted(one["pod"] for one in told["pods"])
        assert told["notes"] == question.get("notes", [])
    if "nodes" in question:
        assert told["nodes"] == question["nodes"]
    if "verdicts" in question:
        assert {one["pod"]: one["result"] for one in told["pods"]} == question["verdicts"]
        assert told["notes"] == question["notes"]
    if "says" in question:
        assert question["says"] in outside(*arguments).out
