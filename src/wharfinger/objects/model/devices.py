"""Classes of devices (dynamic resource allocation), as far as they are read: which resources are devices.

Which devices a pod gets is not decided here. A resource that a class answers for is an ordinary extended resource on
nodes whose device plugin has it, and devices on all others (KEP-5004, on by default since Kubernetes 1.36).
"""

from __future__ import annotations

from dataclasses import dataclass

IMPLIED = "deviceclass.resource.kubernetes.io/"
"""How the resource begins that each class answers for, before the name of the class."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: kinds of devices that a claim may name."""

    name: str
    extended_resource: str = ""
    """The extended resource that it answers for besides the implied one; empty = none."""
