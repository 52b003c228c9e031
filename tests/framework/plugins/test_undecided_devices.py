"""Resources that a DeviceClass answers for: refused as devices, except on nodes whose device plugin has them."""

from __future__ import annotations

import pytest

from wharfinger.framework.plugins import names
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.events import node_event
from wharfinger.objects.model.surroundings import NOTHING_AROUND, DeviceClass, Surroundings
from wharfinger.testing.builders import node, pod, snapshot

DEFAULT = load_profiles()["default-scheduler"]
GPU = "example.com/gpu"
CLASSES = NOTHING_AROUND.with_object(DeviceClass("gpu.example.com", GPU))
NODES = ("plain", "plugin", "none")
IMPLIED = "deviceclass.resource.kubernetes.io/gpu.example.com"


def said(resource: str, around: Surroundings = CLASSES) -> dict[str, str]:
    """Why each node refuses a pod that wants one of the resource; empty where it does not."""
    seen = snapshot(node("plain"), node("plugin", extended={GPU: 2}), node("none", extended={GPU: 0}))
    seen = seen.at(1, surroundings=around, nominated={})
    wanted = pod(cpu=1, extended={resource: 1})
    return {name: ", ".join(DEFAULT.verify(wanted, seen, name).reasons) for name in NODES}


@pytest.mark.parametrize(
    ("resource", "around", "refused"),
    [
        (GPU, CLASSES, dict.fromkeys(("plain", "none"), f"devices are not decided here ({GPU})")),
        (GPU, NOTHING_AROUND, dict.fromkeys(("plain", "none"), f"Insufficient {GPU}")),
        (IMPLIED, CLASSES, dict.fromkeys(NODES, f"devices are not decided here ({IMPLIED})")),
        (IMPLIED, NOTHING_AROUND, dict.fromkeys(NODES, f"devices are not decided here ({IMPLIED})")),
        ("example.com/other", CLASSES, dict.fromkeys(NODES, "Insufficient example.com/other")),
    ],
)
def test_each_node_gives_the_true_reason(resource: str, around: Surroundings, refused: dict[str, str]) -> None:
    assert said(resource, around) == {**dict.fromkeys(NODES, ""), **refused}


def test_device_plugin_that_registers_wakes_the_pod() -> None:
    wanted = pod(cpu=1, extended={GPU: 1})
    rejectors = (names.UNSUPPORTED_FEATURES,)
    before, after = node("n"), node("n", extended={GPU: 2})

    registered, other = node_event(before, after, 1), node_event(before, node("n", cpu=8000), 1)

    assert registered is not None
    assert other is not None
    assert DEFAULT.may_help(registered, wanted, rejectors) == names.UNSUPPORTED_FEATURES
    assert DEFAULT.may_help(other, wanted, rejectors) is None
