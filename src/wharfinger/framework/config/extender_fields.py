"""`extenders` of a KubeSchedulerConfiguration: how they are written, their rules, and what they come to.

Rules and paths are those of kube-scheduler 1.36 (`apis/config/validation`, validateExtenders), and what it finds only
when it makes an extender (a client certificate without its key) is found here too. Three more rules are wharfinger's:
a URL that could never be called is refused, one that holds a password is, and a time-out below 0.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, PlainSerializer, PlainValidator, field_validator

from wharfinger.framework.config.validation import Boolean, ConfigPart, Duration, Integer, Problem
from wharfinger.objects.model.extenders import DEFAULT_TIMEOUT, Extender, ExtenderTls
from wharfinger.objects.model.names import is_qualified_name

_SECOND = 10**9
_INT64 = 2**63 - 1
_REQUESTS = "requests."
_SECRETS = {"tls_config"}
"""What says how an extender is reached, and nothing of decisions."""


def _bytes(written: object) -> bytes:
    if isinstance(written, bytes):
        return written
    try:
        return base64.b64decode(written, validate=True) if isinstance(written, str) else _refuse()
    except binascii.Error:
        return _refuse()


def _refuse() -> bytes:
    raise ValueError("is not base64")


Base64 = Annotated[
    bytes,
    PlainValidator(_bytes, json_schema_input_type=str),
    PlainSerializer(lambda data: base64.b64encode(data).decode(), return_type=str),
    Field(repr=False),
]
"""Bytes, written as base64. No error repeats what was written: it may be a key."""


class ManagedResource(ConfigPart):
    """An extended resource that an extender manages."""

    name: str
    """Of the resource, such as `example.com/gpu`."""
    ignored_by_scheduler: Boolean = False
    """Whether NodeResourcesFit leaves it to the extender."""


class ExtenderTLSConfig(ConfigPart):
    """TLS between kube-scheduler and an extender; data go before files."""

    insecure: Boolean = False
    """The extender's certificate is not verified."""
    server_name: str = ""
    """Name that the certificate must have. Empty: the host of the URL."""
    cert_file: str = ""
    """Our certificate, where the extender asks for one."""
    key_file: str = ""
    """Its key."""
    ca_file: str = Field(default="", alias="caFile")
    """Authorities that may have signed the extender's certificate."""
    cert_data: Base64 = b""
    """The certificate itself, PEM in base64."""
    key_data: Base64 = b""
    """The key itself. Better in a file: a configuration is printed and stored."""
    ca_data: Base64 = Field(default=b"", alias="caData")
    """The authorities themselves."""

    def made(self) -> ExtenderTls:
        """The same as a fact."""
        return ExtenderTls(**dict(self))


class ExtenderConfiguration(ConfigPart):
    """One extender."""

    url_prefix: str = ""
    """Where it is; verbs are appended."""
    filter_verb: str = ""
    """Empty: it filters no nodes."""
    preempt_verb: str = ""
    """Empty: preemption does not ask it."""
    prioritize_verb: str = ""
    """Empty: it scores no nodes."""
    weight: Integer = Field(default=0, ge=-_INT64 - 1, le=_INT64)
    """By which its scores are multiplied."""
    bind_verb: str = ""
    """Empty: it binds no pods. At most one extender binds."""
    enable_https: Boolean = Field(default=False, alias="enableHTTPS")
    """Whether it is called by TLS."""
    tls_config: ExtenderTLSConfig | None = None
    """Which authorities are trusted, and our certificate. Absent: the system's authorities, and no certificate."""
    http_timeout: Duration = 0
    """For one call; 0 = 5s."""
    node_cache_capable: Boolean = False
    """Whether it is sent names of nodes, not the objects."""
    managed_resources: tuple[ManagedResource, ...] = ()
    """It is called for pods that ask for one of these; none = for all pods."""
    ignorable: Boolean = False
    """Whether pods are scheduled without it where it fails."""

    @field_validator("http_timeout")
    @classmethod
    def _completed(cls, timeout: int) -> int:
        if timeout < 0:
            raise ValueError("must not be less than zero")
        return timeout

    @property
    def verbs(self) -> tuple[str, ...]:
        """Those that are written."""
        return tuple(filter(None, (self.filter_verb, self.preempt_verb, self.prioritize_verb, self.bind_verb)))


def completed(extender: ExtenderConfiguration) -> ExtenderConfiguration:
    """The extender with nothing left to default."""
    timeout = extender.http_timeout or int(DEFAULT_TIMEOUT * _SECOND)
    return extender.model_copy(update={"http_timeout": timeout})


def of_decisions(extender: ExtenderConfiguration) -> dict[str, Any]:
    """The fields that decisions depend on: what is recorded with them holds no key and no certificate."""
    fields = extender.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_SECRETS)
    fields.pop("httpTimeout", None)  # how long a call takes decides nothing
    return fields


def made(extenders: Sequence[ExtenderConfiguration]) -> tuple[Extender, ...]:
    """The extenders as facts, in the order of the configuration."""
    seen: Counter[str] = Counter()
    return tuple(_made(extender, seen) for extender in extenders)


def _made(extender: ExtenderConfiguration, seen: Counter[str]) -> Extender:
    seen[extender.url_prefix] += 1
    number = seen[extender.url_prefix]
    managed = extender.managed_resources
    return Extender(
        name=extender.url_prefix if number == 1 else f"{extender.url_prefix}#{number}",
        url_prefix=extender.url_prefix,
        filter_verb=extender.filter_verb,
        prioritize_verb=extender.prioritize_verb,
        preempt_verb=extender.preempt_verb,
        bind_verb=extender.bind_verb,
        weight=extender.weight,
        https=extender.enable_https,
        tls=extender.tls_config.made() if extender.tls_config is not None else None,
        timeout=extender.http_timeout / _SECOND or DEFAULT_TIMEOUT,
        node_cache_capable=extender.node_cache_capable,
        managed=frozenset(resource.name for resource in managed),
        ignored=frozenset(resource.name for resource in managed if resource.ignored_by_scheduler),
        ignorable=extender.ignorable,
    )


def wrong(extenders: Sequence[ExtenderConfiguration]) -> Iterator[Problem]:
    """What is wrong with extenders that are well-formed."""
    managed: set[str] = set()
    for number, extender in enumerate(extenders):
        path = f"extenders[{number}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield f"{path}.weight", f"must have a positive weight applied to it, not {extender.weight}"
        yield from _wrong_url(extender, f"{path}.urlPrefix")
        if extender.tls_config is not None:
            yield from _wrong_tls(extender.tls_config, f"{path}.tlsConfig")
        for place, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{place}].name"
            if not is_qualified_name(resource.name):
                yield where, f"{resource.name!r} is no qualified name, such as example.com/gpu"
            elif not is_extended_resource(resource.name):
                yield where, f"{resource.name} is an invalid extended resource name"
            if resource.name in managed:
                yield where, f"duplicate extender managed resource name {resource.name}"
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        yield "extenders", f"only one extender can implement bind, found {binders}"


def binding(extenders: Sequence[ExtenderConfiguration]) -> Iterator[Problem]:
    """Why extenders that bind pods cannot be had where etcd itself is the store: they write to the Kubernetes API."""
    for number, extender in enumerate(extenders):
        if extender.bind_verb:
            why = "an extender can bind pods of a Kubernetes API only: remove it, or name the API with --kubeconfig"
            yield f"extenders[{number}].bindVerb", why


def is_extended_resource(name: str) -> bool:
    """Whether a qualified name is that of an extended resource: in a domain that is not Kubernetes' own."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_REQUESTS):
        return False
    return is_qualified_name(_REQUESTS + name)  # as a quota has to spell it


def _wrong_url(extender: ExtenderConfiguration, path: str) -> Iterator[Problem]:
    try:
        url = urlsplit(extender.url_prefix)
        callable_ = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        url, callable_ = None, False
    if url is not None and (url.username is not None or url.password is not None):
        yield path, "must not hold a user or password: write a client certificate under tlsConfig"
    elif extender.verbs and not callable_:
        yield path, "is no URL that can be called, such as http://extender.kube-system:8888/scheduler"


def _wrong_tls(tls: ExtenderTLSConfig, path: str) -> Iterator[Problem]:
    if tls.insecure and (tls.ca_file or tls.ca_data):
        yield f"{path}.insecure", "a root certificate and insecure exclude each other"
    certificate, key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if certificate and not key:
        yield f"{path}.keyFile", "is needed for the client certificate"
    if key and not certificate:
        yield f"{path}.certFile", "is needed for the key"
