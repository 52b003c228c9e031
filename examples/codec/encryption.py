"""A plugin of the Temporal SDK that encrypts all payloads with a key file, for every process of wharfinger.

    openssl rand 32 > /etc/wharfinger/payloads.key
    export WHARFINGER_PAYLOADS_KEY=/etc/wharfinger/payloads.key PYTHONPATH=examples/codec
    wharfinger worker --temporal-plugin encryption:Encryption

AES-256-GCM, with a random nonce before each ciphertext. Temporal, its UI and its database see ciphertext only, but for
ids and search attributes (names of pods and nodes). The UI decodes through a codec server of yours. What wharfinger
keeps in etcd, and in its archives, is as before.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec
from temporalio.plugin import SimplePlugin

ENCODING = b"binary/encrypted"
NONCE = 12
"""Bytes."""


class EncryptionCodec(PayloadCodec):
    """Payloads in ciphertext."""

    def __init__(self, key: bytes) -> None:
        """`key`: 32 bytes."""
        self._cipher = AESGCM(key)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each, with its metadata."""
        return [Payload(metadata={"encoding": ENCODING}, data=self._encrypted(one)) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt those that are encrypted; others are from before the key was there."""
        return [self._decrypted(one) if one.metadata.get("encoding") == ENCODING else one for one in payloads]

    def _encrypted(self, payload: Payload) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, payload.SerializeToString(), None)

    def _decrypted(self, payload: Payload) -> Payload:
        clear = self._cipher.decrypt(payload.data[:NONCE], payload.data[NONCE:], None)
        return Payload.FromString(clear)


class Encryption(SimplePlugin):
    """Give every client and worker the codec, with the key of the file that WHARFINGER_PAYLOADS_KEY names."""

    def __init__(self) -> None:
        """Raises OSError when the key cannot be read, ValueError when it has not 32 bytes."""
        key = Path(os.environ["WHARFINGER_PAYLOADS_KEY"]).read_bytes()
        if len(key) != 32:
            raise ValueError(f"the key has {len(key)} bytes, not 32")
        codec = EncryptionCodec(key)

        def encrypting(converter: DataConverter | None) -> DataConverter:
            return dataclasses.replace(
                converter or DataConverter.default,
                payload_codec=codec,
                failure_converter_class=DefaultFailureConverterWithEncodedAttributes,  # messages of failures, too
            )

        super().__init__("encryption", data_converter=encrypting)
