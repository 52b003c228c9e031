"""The objects of pending pods as etcd holds them, so that a bind writes every unknown field back without reading.

A deep backlog is kept packed: what one controller makes differs in names, so against the first of its pods the
others take a tenth of their room, for a few microseconds each. A short one is kept as it is.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from wharfinger.objects.model.pod import Pod, PodKey

PLAIN = 32 * 1024 * 1024
"""Bytes of objects kept as they are; those that come when so many are held already are packed."""
TEMPLATES = 4096
"""Objects that others are packed against, at most."""
TEMPLATE_SIZE = 8 * 1024
"""Bytes of a template that are used."""


class _Packed(NamedTuple):
    template: bytes
    deflated: bytes


class RawPods:
    """Bytes by pod; see the module."""

    def __init__(self, plain: int = PLAIN) -> None:
        """`plain`: bytes that are kept as they are."""
        self._limit = plain
        self._plain: dict[PodKey, bytes] = {}
        self._packed: dict[PodKey, _Packed] = {}
        self._size = 0
        """Bytes in `_plain`."""
        self._templates: dict[tuple[str, tuple[str, str] | None], bytes] = {}

    def put(self, pod: Pod, raw: bytes) -> None:
        """Keep the pod's object, in the place of an older one."""
        self.discard(pod.key)
        if self._size + len(raw) <= self._limit:
            self._plain[pod.key] = raw
            self._size += len(raw)
        else:
            self._packed[pod.key] = self._pack(pod, raw)

    def get(self, key: PodKey) -> bytes | None:
        """The pod's object; None when it is not kept."""
        raw = self._plain.get(key)
        packed = self._packed.get(key) if raw is None else None
        if packed is None:
            return raw
        return zlib.decompressobj(zdict=packed.template).decompress(packed.deflated)

    def discard(self, key: PodKey) -> None:
        """Keep it no more."""
        raw = self._plain.pop(key, None)
        if raw is not None:
            self._size -= len(raw)
        elif self._packed.pop(key, None) is not None and not self._packed:
            self._templates.clear()

    def _pack(self, pod: Pod, raw: bytes) -> _Packed:
        maker = pod.namespace, pod.controller
        template = self._templates.get(maker)
        if template is None:
            template = raw[:TEMPLATE_SIZE]
            if len(self._templates) < TEMPLATES:
                self._templates[maker] = template
            else:
                template = next(iter(self._templates.values()))
        packing = zlib.compressobj(level=1, zdict=template)
        return _Packed(template, packing.compress(raw) + packing.flush())
