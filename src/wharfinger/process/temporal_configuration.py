"""How a process connects to Temporal: the SDK's environment configuration, and our settings above it."""

from __future__ import annotations

from temporalio.envconfig import ClientConfig, ClientConnectConfig

from wharfinger.errors import ConfigurationError
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.settings import TemporalSettings

DEFAULT_ADDRESS = "127.0.0.1:7233"
DEFAULT_NAMESPACE = "default"


def temporal_configuration(settings: TemporalSettings) -> ClientConnectConfig:
    """Return the arguments of `Client.connect`.

    Raises `ConfigurationError` when the SDK's file or variables are malformed, or have an API key sent in the clear.
    """
    try:
        configuration = ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(f"Temporal's environment configuration cannot be read: {error}") from error
    if settings.address is not None:
        configuration["target_host"] = settings.address
    if settings.namespace is not None:
        configuration["namespace"] = settings.namespace
    configuration.setdefault("target_host", DEFAULT_ADDRESS)
    configuration.setdefault("namespace", DEFAULT_NAMESPACE)
    host = configuration["target_host"].rpartition(":")[0].strip("[]")
    if configuration.get("api_key") and configuration.get("tls") is False and not is_loopback(host):
        raise ConfigurationError(
            f"Temporal at {configuration['target_host']}: the API key would be sent in the clear: TLS is turned off"
        )
    return configuration
