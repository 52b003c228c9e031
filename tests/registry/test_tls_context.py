"""The context by which etcd's certificates are verified."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.registry.certificates import Authority
from wharfinger.errors import ConfigurationError
from wharfinger.registry import etcd_tls
from wharfinger.settings import EtcdSettings


def test_certificates_and_names_are_verified_alike_on_every_python(tmp_path: Path) -> None:
    context = etcd_tls.context(EtcdSettings(endpoints=("https://x:2379",), ca=Authority(tmp_path, "ours").pem))

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert [dict(pair for (pair,) in one["subject"])["commonName"] for one in context.get_ca_certs()] == ["ours"]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"

    with pytest.raises(ConfigurationError, match=r"cannot use the certificates for etcd \(.*none\.pem\)"):
        etcd_tls.context(EtcdSettings(endpoints=("https://x:2379",), ca=missing))
