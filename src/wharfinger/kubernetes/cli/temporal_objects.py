"""A Temporal of an installation's own in a Kubernetes cluster: PostgreSQL, the schema, the server, the namespace.

The same as in docker-compose.production.yml; a test compares settings and images. The password of the database is in
the Secret `wharfinger-postgres`, which the user makes: nothing starts without it.
"""

from __future__ import annotations

from pathlib import Path

from wharfinger.kubernetes.cli.install_choices import (
    TEMPORAL_NAMESPACE,
    InstallChoices,
    Manifest,
    claim,
    container,
    labels,
    variables,
)

NAME = "wharfinger-temporal"
DATABASE = "wharfinger-postgres"
SECRET = DATABASE
PORT, DATABASE_PORT = 7233, 5432
SERVER, TOOLS, POSTGRES = "temporalio/server:1.31.2", "temporalio/admin-tools:1.31.2", "postgres:16.11"
TEMPORAL_USER, POSTGRES_USER = 1000, 999
"""User ids of these images."""
SCRIPTS = ("dynamicconfig.yaml", "namespace.sh", "schema.sh")
FOLDER, PASSWORDS = "/deploy", "/run/secrets/postgres"
POSTGRES_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "wal_compression": "on",
    "autovacuum_vacuum_scale_factor": "0.02",
}
STORAGE = "32Gi"
ASKS_POSTGRES = ["pg_isready", "--username=temporal", "--dbname=temporal", "--host=127.0.0.1"]


def address(choices: InstallChoices) -> str:
    """Where its front end is."""
    return f"{NAME}.{choices.namespace}.svc:{PORT}"


def temporal_objects(choices: InstallChoices, scripts: Path) -> list[Manifest]:
    """Everything. `scripts`: the folder with `SCRIPTS`."""
    texts = {name: (scripts / name).read_text(encoding="utf-8") for name in SCRIPTS}
    return [
        choices.object("v1", "ConfigMap", NAME, "temporal", data=texts),
        _service(choices, DATABASE, "postgres", DATABASE_PORT),
        _postgres(choices),
        _service(choices, NAME, "temporal", PORT),
        _server(choices),
        # Only the installation's own pods come in: nothing asks for a password but PostgreSQL.
        choices.network_policy(DATABASE, "postgres", DATABASE_PORT),
        choices.network_policy(NAME, "temporal", PORT),
    ]


def _service(choices: InstallChoices, name: str, component: str, port: int) -> Manifest:
    ports = [{"port": port, "targetPort": port}]
    return choices.object("v1", "Service", name, component, spec={"selector": labels(component), "ports": ports})


def _postgres(choices: InstallChoices) -> Manifest:
    postgres = container(
        "postgres",
        POSTGRES,
        args=["postgres", *(word for name, value in POSTGRES_SETTINGS.items() for word in ("-c", f"{name}={value}"))],
        env=variables(
            {
                "POSTGRES_USER": "temporal",
                "POSTGRES_PASSWORD_FILE": f"{PASSWORDS}/password",
                "POSTGRES_INITDB_ARGS": "--data-checksums",
                "PGDATA": "/var/lib/postgresql/data/pgdata",
            }
        ),
        ports=[{"name": "postgres", "containerPort": DATABASE_PORT}],
        resources={"requests": {"cpu": "500m", "memory": "2Gi"}},
        **_probes({"exec": {"command": ASKS_POSTGRES}}),
        volumeMounts=[
            {"name": "data", "mountPath": "/var/lib/postgresql/data"},
            {"name": "password", "mountPath": PASSWORDS, "readOnly": True},
            {"name": "run", "mountPath": "/var/run/postgresql"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - likewise
        ],
    )
    pod = choices.pod_spec(
        {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 60,  # it writes a checkpoint
            "containers": [postgres],
            "volumes": [
                _password(),
                {"name": "run", "emptyDir": {}},
                {"name": "tmp", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
            ],
        },
        user=POSTGRES_USER,
    )
    spec = {
        "serviceName": DATABASE,
        "replicas": 1,
        "selector": {"matchLabels": labels("postgres")},
        "template": {"metadata": {"labels": labels("postgres")}, "spec": pod},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim(STORAGE)}],
    }
    return choices.object("apps/v1", "StatefulSet", DATABASE, "postgres", spec=spec)


def _server(choices: InstallChoices) -> Manifest:
    """The server; its schema is brought up to date first, its namespace is made beside it."""
    settings = {
        "DB": "postgres12_pgx",
        "DB_PORT": str(DATABASE_PORT),
        "POSTGRES_SEEDS": f"{DATABASE}.{choices.namespace}.svc",
        "POSTGRES_USER": "temporal",
        "SQL_MAX_CONNS": "20",
        "SQL_VIS_MAX_CONNS": "10",
        "NUM_HISTORY_SHARDS": "128",
        "BIND_ON_IP": "0.0.0.0",  # noqa: S104 - inside the pod
        "DYNAMIC_CONFIG_FILE_PATH": f"{FOLDER}/dynamicconfig.yaml",
        "LOG_LEVEL": "warn",
    }
    start = f"POSTGRES_PWD=$(cat {PASSWORDS}/password) && export POSTGRES_PWD && exec /etc/temporal/entrypoint.sh"
    mounts = [
        {"name": "deploy", "mountPath": FOLDER, "readOnly": True},
        {"name": "password", "mountPath": PASSWORDS, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
    ]
    schema = container(
        "schema",
        TOOLS,
        command=["/bin/sh", f"{FOLDER}/schema.sh"],
        env=variables(
            {
                "SQL_HOST": f"{DATABASE}.{choices.namespace}.svc",
                "SQL_PORT": str(DATABASE_PORT),
                "SQL_USER": "temporal",
                "SQL_PASSWORD_FILE": f"{PASSWORDS}/password",
            }
        ),
        volumeMounts=mounts,
    )
    server = container(
        "temporal",
        SERVER,
        command=["/bin/sh", "-c", start],
        env=variables(settings),
        ports=[{"name": "grpc", "containerPort": PORT}],
        resources={"requests": {"cpu": "500m", "memory": "512Mi"}},
        **_probes({"tcpSocket": {"port": PORT}}),
        volumeMounts=mounts,
    )
    namespace = container(
        "namespace",
        TOOLS,
        # It is done when the namespace is there, and stays, because a pod has no containers that end.
        command=["/bin/sh", "-c", f"until /bin/sh {FOLDER}/namespace.sh; do sleep 2; done; exec sleep infinity"],
        env=variables(
            {
                "TEMPORAL_ADDRESS": f"127.0.0.1:{PORT}",
                "TEMPORAL_NAMESPACE": TEMPORAL_NAMESPACE,
                "RETENTION": "720h",
                "HOME": "/tmp",  # noqa: S108 - a volume of the pod's own
            }
        ),
        volumeMounts=mounts,
    )
    pod = choices.pod_spec(
        {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
            "initContainers": [schema],
            "containers": [server, namespace],
            "volumes": [{"name": "deploy", "configMap": {"name": NAME}}, _password(), {"name": "tmp", "emptyDir": {}}],
        },
        user=TEMPORAL_USER,
    )
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels("temporal")},
        "template": {"metadata": {"labels": labels("temporal")}, "spec": pod},
    }
    return choices.object("apps/v1", "Deployment", NAME, "temporal", spec=spec)


def _password() -> Manifest:
    return {"name": "password", "secret": {"secretName": SECRET, "defaultMode": 0o440}}


def _probes(asked: Manifest) -> Manifest:
    """Started, alive and ready, by one question."""
    times = {"startupProbe": (60, 5), "livenessProbe": (8, 10), "readinessProbe": (3, 5)}
    return {
        probe: {**asked, "timeoutSeconds": 5, "failureThreshold": tries, "periodSeconds": seconds}
        for probe, (tries, seconds) in times.items()
    }
