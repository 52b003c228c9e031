"""Which gateway a setting means; that of gRPC is imported only when it is wanted, because it is an extra."""

from __future__ import annotations

from wharfinger.errors import ConfigurationError
from wharfinger.registry.etcd_connection import OpenGateway
from wharfinger.settings import EtcdSettings


def opener(settings: EtcdSettings) -> OpenGateway:
    """What makes the gateway of the protocol; raises `ConfigurationError` when its packages are not installed."""
    if settings.protocol == "grpc":
        try:
            from wharfinger.registry.etcd_grpc import GrpcGateway
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "google"}:
                raise
            raise ConfigurationError(
                "etcd's gRPC protocol needs packages that are not installed: pip install 'wharfinger[grpc]', "
                "or use --etcd-protocol json"
            ) from None
        return GrpcGateway
    from wharfinger.registry.etcd_json import JsonGateway

    return JsonGateway
