"""No password of etcd is sent where it can be read on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.errors import ConfigurationError
from wharfinger.etcd import etcd_tls
from wharfinger.settings import EtcdSettings

PASSWORD = "open sesame"


def _password_file(folder: Path) -> Path:
    path = folder / "password"
    path.write_text(PASSWORD)
    return path


@pytest.mark.parametrize(
    "endpoint", ["http://10.0.0.5:2379", "http://etcd:2379", "http://127.0.0.1.evil.example:1", "http://[fd00::1]:2379"]
)
def test_no_password_goes_over_plain_http_to_another_machine(endpoint: str, tmp_path: Path) -> None:
    settings = EtcdSettings(
        endpoints=("http://127.0.0.1:2379", endpoint), user="clerk", password_file=_password_file(tmp_path)
    )
    with pytest.raises(ConfigurationError, match="the password would be sent over plain http") as refused:
        etcd_tls.endpoints(settings)
    assert PASSWORD not in str(refused.value)
    assert etcd_tls.endpoints(replace(settings, allow_insecure=True))
    assert etcd_tls.endpoints(replace(settings, user=""))


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:2379", "http://[::1]:2379", "http://localhost:1", "https://e:1"]
)
def test_a_password_goes_to_loopback_and_over_tls(endpoint: str, tmp_path: Path) -> None:
    etcd_tls.endpoints(EtcdSettings(endpoints=(endpoint,), user="clerk", password_file=_password_file(tmp_path)))
