"""`wharfinger kubernetes manifests`: what it prints, what it refuses, and that the files are whole without it."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from tests.cli.shell import Shell
from wharfinger.apiserver.access_checks import LeaseName, cluster_role_rules, needed_access, role_rules
from wharfinger.dev import etcd
from wharfinger.errors import UsageError
from wharfinger.kubernetes.cli.install_choices import InstallChoices
from wharfinger.kubernetes.cli.install_files import set_at
from wharfinger.kubernetes.cli.manifests import objects_of
from wharfinger.kubernetes.loops.connecting import OPTIONAL_KINDS
from wharfinger.serving.certificates import self_signed, signed_by

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "deploy" / "kubernetes"
SECOND = ("--temporal", "temporal.example:7233")

STATIC = ("--only", "static-pods", "--scheduler-name", "default-scheduler", *SECOND)

Json = dict[str, Any]


def printed(outside: Shell, *arguments: str) -> list[Json]:
    """The objects that the command prints."""
    answer = outside("kubernetes", "manifests", *arguments)
    assert answer.code == 0, answer.err
    return list(yaml.safe_load_all(answer.out))


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    return [one for one in objects if one["kind"] == kind]


def pods(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """The pods' specifications, by the name of what makes them."""
    for one in objects:
        if one["kind"] in ("Deployment", "StatefulSet"):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]
        elif one["kind"] == "CronJob":
            yield one["metadata"]["name"], one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        elif one["kind"] == "Pod":
            yield one["metadata"]["name"], one["spec"]


def in_files(*files: str) -> list[Json]:
    return [obj for file in files for obj in yaml.safe_load_all((FILES / file).read_text())]


def test_files_are_an_installation_without_the_command(outside: Shell) -> None:
    """What kustomize reads is what the command prints where it is given nothing."""
    rbac = [f"rbac/{name}.yaml" for name in ("rbac", "authentication", "lease", "flow-schemas")]
    base = [f"base/{name}.yaml" for name in ("etcd", "backups")]
    printed_files = ["base/namespace.yaml", *rbac, *base, "temporal/temporal.yaml", "base/scheduler.yaml"]

    assert printed(outside, "--with-temporal") == in_files(*printed_files)
    more = [
        "hub/hub.yaml",
        "member/member.yaml",
        "monitoring/monitors.yaml",
        "monitoring/rules.yaml",
        "cert-manager/certificates.yaml",
    ]
    everything = ("--with-temporal", "--with-hub", "--with-member", "--monitoring", "--cert-manager")
    assert printed(outside, *everything) == in_files(*printed_files, *more)


@pytest.mark.parametrize("component", ["", "temporal", "static-pods", "hub", "member", "monitoring", "cert-manager"])
def test_kustomize_builds_the_base_and_its_components(tmp_path: Path, component: str) -> None:
    if (kubectl := shutil.which("kubectl")) is None:
        pytest.skip("there is no kubectl, which has kustomize built in")
    up = "/".join([".."] * (len(tmp_path.parts) - 1))
    folder = f"{up}{FILES}"
    own = {"resources": [f"{folder}/base"], "components": [f"{folder}/{component}"] if component else []}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))

    built = subprocess.run([kubectl, "kustomize", str(tmp_path)], capture_output=True, text=True, check=True).stdout

    wanted = [file for file in FILES.glob("base/*.yaml") if file.name != "kustomization.yaml"]
    wanted += [FILES / "rbac" / f"{name}.yaml" for name in ("rbac", "authentication", "lease", "flow-schemas")]
    if component:
        listed = yaml.safe_load((FILES / component / "kustomization.yaml").read_text())["resources"]
        wanted += [FILES / component / name for name in listed]
    assert by_name(yaml.safe_load_all(built)) == by_name(
        obj for file in wanted for obj in yaml.safe_load_all(file.read_text())
    )


def by_name(objects: Iterable[Json]) -> dict[tuple[str, ...], Json]:
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects}


def test_a_path_that_is_not_in_a_file_is_a_fault() -> None:
    obj = {"spec": {"command": ["etcd", "--name=a"], "config": "a:\n  b: 1\n"}, "env": [{"name": "A", "value": "1"}]}

    set_at(obj, ["spec", "command", "--name"], "b")
    set_at(obj, ["spec", "config", "a", "b"], 2)
    set_at(obj, ["env", "A", "value"], None)

    assert obj == {"spec": {"command": ["etcd", "--name=b"], "config": "a:\n  b: 2\n"}, "env": [{"name": "A"}]}
    for path in ("spec/command/--other", "env/B/value", "spec/other"):
        with pytest.raises(KeyError):
            set_at(obj, path.split("/"), 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scheduler-name", "default-scheduler", *SECOND), "would have to place its own pods"),
        (("--bootstrap-scheduler", "wharfinger", *SECOND), "would have to place its own pods"),
        ((), "name a Temporal by --temporal HOST:PORT, or print one by --with-temporal"),
        (("--with-temporal", *SECOND), "excludes"),
        (("--etcd-replicas", "2", *SECOND), "odd number"),
        (("--user", "alice", *SECOND), "--only rbac"),
        (("--only", "rbac", "--with-hub"), "--only excludes"),
        (("--insecure", "--cert-manager", *SECOND), "--insecure excludes"),
        (("--insecure", *STATIC), "--insecure excludes"),
        (("--only", "static-pods", *SECOND), "run in kube-scheduler's place"),
        (("--scheduler-name", "No_Name", *SECOND), "is no name"),
        (("--control-plane", "a=10.0.0.1", *SECOND), "go with --only static-pods"),
        ((*STATIC, "--node", "a"), "go with --control-plane"),
        ((*STATIC, "--control-plane", "a=10.0.0.1", "--control-plane", "b=10.0.0.2"), "odd number"),
        ((*STATIC, "--control-plane", "a=host"), "is not NAME=ADDRESS"),
        ((*STATIC, "--control-plane", "a=10.0.0.1"), "--node: one of a"),
    ],
)
def test_what_could_not_start_again_is_refused(outside: Shell, arguments: tuple[str, ...], said: str) -> None:
    answer = outside("kubernetes", "manifests", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_each_of_its_pods_is_placed_by_the_scheduler_that_stays(outside: Shell) -> None:
    objects = printed(outside, "--with-temporal", "--bootstrap-scheduler", "stays")

    found = dict(pods(objects))

    placed = {"wharfinger-etcd", "wharfinger-etcd-backups", "wharfinger-postgres", "wharfinger-temporal", "wharfinger"}
    assert set(found) == placed
    assert {name: pod["schedulerName"] for name, pod in found.items()} == dict.fromkeys(found, "stays")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--with-temporal", "--with-hub", "--with-member"),
        ("--only", "static-pods", "--scheduler-name", "default-scheduler", *SECOND),
    ],
)
def test_pods_have_no_privileges_and_write_volumes_only(outside: Shell, arguments: tuple[str, ...]) -> None:
    for name, pod in pods(printed(outside, *arguments)):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] > 0, name
        for one in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, (name, one["name"])


def test_static_pods_need_no_scheduler(outside: Shell) -> None:
    objects = printed(outside, "--only", "static-pods", "--scheduler-name", "default-scheduler", *SECOND)

    assert {one["kind"] for one in objects} == {"Pod"}
    assert not any("schedulerName" in pod or "serviceAccountName" in pod for _, pod in pods(objects))


def test_static_pods_of_several_nodes_are_members_of_one_etcd(outside: Shell) -> None:
    planes = [f"--control-plane={name}=10.0.0.{number}" for number, name in enumerate("abc", 1)]
    by_node = {name: dict(pods(printed(outside, *STATIC, *planes, "--node", name))) for name in "abc"}
    etcds = {name: made["wharfinger-etcd"]["containers"][0]["command"] for name, made in by_node.items()}

    of_all = "--initial-cluster=" + ",".join(
        f"wharfinger-etcd-{name}=https://10.0.0.{number}:12380" for number, name in enumerate("abc", 1)
    )
    assert all(of_all in command and "--peer-client-cert-auth=true" in command for command in etcds.values())
    assert "--listen-peer-urls=https://10.0.0.2:12380" in etcds["b"]
    assert not any("0.0.0.0" in word or "client-urls=https" in word for command in etcds.values() for word in command)
    assert by_node["a"]["wharfinger-scheduler"] == by_node["b"]["wharfinger-scheduler"]
    (joined, _) = printed(outside, *STATIC, *planes, "--node", "c", "--joining")
    assert "--initial-cluster-state=existing" in joined["spec"]["containers"][0]["command"]


def test_standby_of_kube_scheduler_shares_its_lease(outside: Shell) -> None:
    objects = printed(outside, "--only", "static-pods", "--scheduler-name", "default-scheduler", *SECOND)
    scheduler = dict(pods(objects))["wharfinger-scheduler"]["containers"][0]
    options = dict(word.removeprefix("--").split("=", 1) for word in scheduler["args"][1:])

    assert options["leader-elect-resource-namespace"] == "kube-system"
    assert options["leader-elect-resource-name"] == "kube-scheduler"
    assert options["secure-port"] != "10259"


def test_scheduler_serves_its_profile_and_holds_its_own_lease(outside: Shell) -> None:
    objects = printed(outside, "--scheduler-name", "mine", "--cluster", "east", *SECOND)
    (configured,) = of_kind(objects, "ConfigMap")
    (deployment,) = of_kind(objects, "Deployment")

    configuration = yaml.safe_load(configured["data"]["scheduler.yaml"])
    (scheduler,) = deployment["spec"]["template"]["spec"]["containers"]

    assert configuration["profiles"] == [{"schedulerName": "mine"}]
    assert configuration["leaderElection"]["resourceName"] == "east"
    assert scheduler["args"][:2] == ["kube-scheduler", "--config=/etc/wharfinger/scheduler.yaml"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert scheduler[probe]["httpGet"]["scheme"] == "HTTPS"
        assert scheduler[probe]["httpGet"]["port"] == 10259


@pytest.mark.parametrize(
    ("name", "lease"),
    [("wharfinger", ("wharfinger", "wharfinger")), ("default-scheduler", ("kube-system", "kube-scheduler"))],
)
def test_roles_have_the_rules_of_the_table_that_workers_check(name: str, lease: tuple[str, str]) -> None:
    roles = of_kind(objects := list(objects_of(InstallChoices(scheduler_name=name, only="rbac"))), "Role")
    needs = needed_access(lease=LeaseName(*lease), optional=OPTIONAL_KINDS)

    assert of_kind(objects, "ClusterRole")[0]["rules"] == cluster_role_rules(needs)
    assert {one["metadata"]["namespace"]: one["rules"] for one in roles} == role_rules(needs)


def test_flow_schemas_send_binds_and_lease_to_their_own_levels(outside: Shell) -> None:
    schemas = of_kind(printed(outside, *SECOND), "FlowSchema")
    levels = {one["metadata"]["name"]: one["spec"]["priorityLevelConfiguration"]["name"] for one in schemas}
    precedence = {one["metadata"]["name"]: one["spec"]["matchingPrecedence"] for one in schemas}

    assert levels == {"wharfinger": "workload-high", "wharfinger-leader-election": "leader-election"}
    assert precedence["wharfinger-leader-election"] < precedence["wharfinger"]


def test_bindings_are_for_the_user_that_is_named(outside: Shell) -> None:
    objects = printed(outside, "--only", "rbac", "--user", "system:kube-scheduler")

    subjects = [subject for one in objects for subject in one.get("subjects", ())]

    assert not of_kind(objects, "ServiceAccount")
    assert {(one["kind"], one["name"]) for one in subjects} == {("User", "system:kube-scheduler")}


def test_disruption_budgets_and_replicas(outside: Shell) -> None:
    objects = printed(outside, "--replicas", "3", "--etcd-replicas", "5", *SECOND)
    (deployment,), (members,) = of_kind(objects, "Deployment"), of_kind(objects, "StatefulSet")
    budgets = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "PodDisruptionBudget")}

    assert (deployment["spec"]["replicas"], members["spec"]["replicas"]) == (3, 5)
    assert {budget["maxUnavailable"] for budget in budgets.values()} == {1}
    for one in (deployment, members):
        selector = budgets[one["metadata"]["name"]]["selector"]["matchLabels"].items()
        assert selector <= one["spec"]["template"]["metadata"]["labels"].items()


def test_etcd_has_the_settings_of_the_embedded_one() -> None:
    words = etcd.EtcdServer(Path("etcd"), Path("data"), 2379).command()[1:]
    embedded = dict(word.removeprefix("--").split("=", 1) for word in words)

    for file in ("base/etcd.yaml", "static-pods/etcd.yaml", "static-pods/etcd-of-several.yaml"):
        (etcd_pod,) = [pod for _, pod in pods(in_files(file))]
        given = dict(word.removeprefix("--").split("=", 1) for word in etcd_pod["containers"][0]["command"][1:])
        same = ("max-txn-ops", "auto-compaction-retention", "quota-backend-bytes", "cors")
        assert {name: given[name] for name in same} == {name: embedded[name] for name in same}
        assert given["watch-progress-notify-interval"] == embedded["watch-progress-notify-interval"]


def test_temporal_is_that_of_the_compose_file() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.production.yml").read_text())["services"]
    objects = in_files("temporal/temporal.yaml")
    (scripts,) = of_kind(objects, "ConfigMap")
    found = dict(pods(objects))
    (postgres,) = found["wharfinger-postgres"]["containers"]
    server, namespace = found["wharfinger-temporal"]["containers"]

    assert postgres["image"] == services["postgres"]["image"]
    assert server["image"] == services["temporal"]["image"]
    assert namespace["image"] == services["temporal-namespace"]["image"]
    assert [word for word in postgres["args"] if not word.startswith("--ssl")] == services["postgres"]["command"]
    given = settings_of(server)
    elsewhere = {"POSTGRES_SEEDS", "DYNAMIC_CONFIG_FILE_PATH", "PROMETHEUS_ENDPOINT"}
    wanted = {name: value for name, value in services["temporal"]["environment"].items() if name not in elsewhere}
    assert given.items() >= wanted.items()
    assert scripts["data"] == {file.name: file.read_text() for file in (ROOT / "deploy" / "temporal").iterdir()}
    assert settings_of(namespace)["RETENTION"] == services["temporal-namespace"]["environment"]["RETENTION"]


def test_namespace_of_temporal_is_the_one_that_is_made(outside: Shell) -> None:
    found = dict(pods(printed(outside, "--with-temporal", "--temporal-namespace", "other")))
    (scheduler,), (_, namespace) = (found[name]["containers"] for name in ("wharfinger", "wharfinger-temporal"))

    assert settings_of(namespace)["TEMPORAL_NAMESPACE"] == "other"
    assert settings_of(scheduler)["WHARFINGER_TEMPORAL_NAMESPACE"] == "other"


def settings_of(container: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"]}


EVERYTHING = ("--with-temporal", "--with-hub", "--with-member", "--monitoring")


def test_no_part_is_plain_and_each_has_a_certificate(outside: Shell) -> None:
    objects = printed(outside, *EVERYTHING)
    text = yaml.safe_dump_all(objects)
    made = {one["spec"]["secretName"] for one in of_kind(in_files("cert-manager/certificates.yaml"), "Certificate")}

    plain = {word for word in re.findall(r"http://[^\s'\",]+", text) if "0.0.0.0:2381" not in word}
    assert plain == set()
    for name, pod in pods(objects):
        named = {one["secret"]["secretName"] for one in pod["volumes"] if one["name"] == "tls"}
        assert len(named & made) == 1, name


def test_insecure_is_said_and_has_no_certificates(outside: Shell) -> None:
    answer = outside("kubernetes", "manifests", *EVERYTHING, "--insecure")

    assert "# For trials only: no TLS and no authentication between the parts (--insecure)." in answer.out
    assert not re.search(
        r"-tls|https://wharfinger(?!\.dev)|name: [A-Z_]*TLS|wharfinger kubernetes certificates", answer.out
    )


def test_a_temporal_that_exists_is_shown_no_certificate_of_ours(outside: Shell) -> None:
    for pod in dict(pods(printed(outside, "--with-hub", "--with-member", *SECOND))).values():
        for one in pod["containers"]:
            assert not any(variable["name"].startswith("TEMPORAL_TLS") for variable in one.get("env", ()))


@pytest.mark.parametrize("component", ["etcd", "scheduler", "temporal", "postgres", "hub", "member"])
def test_each_part_has_a_network_policy(outside: Shell, component: str) -> None:
    policies = of_kind(printed(outside, *EVERYTHING), "NetworkPolicy")

    selected = {one["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in policies}
    assert component in selected
    assert all(one["spec"]["policyTypes"] == ["Ingress"] for one in policies)


def test_commands_of_hub_and_member_take_their_options(outside: Shell) -> None:
    found = dict(pods(printed(outside, *EVERYTHING)))
    for part in ("hub", "member"):
        (container,) = found[f"wharfinger-{part}"]["containers"]
        known = outside(part, "--help").out
        options = [word.partition("=")[0] for word in container["args"] if word.startswith("--")]
        variables = [one["name"] for one in container["env"] if one["name"].startswith("WHARFINGER_")]
        options += ["--" + name.removeprefix("WHARFINGER_").lower().replace("_", "-") for name in variables]
        assert [option for option in options if option not in known] == []


def test_certificates_are_signed_by_one_authority_that_is_kept(outside: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    secrets = [
        list(yaml.safe_load_all(outside("kubernetes", "certificates", str(folder), "--namespace", "sched").out))
        for _ in range(2)
    ]

    wanted = {one["spec"]["secretName"] for one in of_kind(in_files("cert-manager/certificates.yaml"), "Certificate")}
    assert {one["metadata"]["name"] for one in secrets[0]} == wanted - {"wharfinger-ca"}
    assert (folder / "ca.key").stat().st_mode & 0o077 == 0
    assert all(base64.b64decode(one["data"]["ca.crt"]) == (folder / "ca.crt").read_bytes() for one in secrets[1])
    assert secrets[0][0]["data"]["tls.crt"] != secrets[1][0]["data"]["tls.crt"]
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    for secret in secrets[1]:
        assert secret["metadata"]["namespace"] == "sched"
        certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
        certificate.verify_directly_issued_by(authority)
        assert certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=366)
        if secret["metadata"]["name"] == "wharfinger-etcd-tls":
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert "*.wharfinger-etcd.sched.svc" in names.get_values_for_type(x509.DNSName)


def test_files_that_are_no_authority_sign_nothing(outside: Shell, tmp_path: Path) -> None:
    for name in ("ca.crt", "ca.key"):
        (tmp_path / name).write_text("no PEM")

    answer = outside("kubernetes", "certificates", str(tmp_path))

    assert (answer.code, answer.out) == (2, "")
    assert "ca.crt and ca.key are no certificate and its key" in answer.err


@pytest.mark.parametrize("lost", ["ca.key", "ca.crt"])
def test_half_an_authority_is_not_replaced(outside: Shell, tmp_path: Path, lost: str) -> None:
    first = outside("kubernetes", "certificates", str(tmp_path))
    assert f"a new authority is made in {tmp_path}" in first.err
    (tmp_path / lost).rename(tmp_path / "elsewhere")

    answer = outside("kubernetes", "certificates", str(tmp_path))

    assert (answer.code, answer.out) == (2, "")
    [left] = {"ca.key", "ca.crt"} - {lost}
    assert f"has {left} alone: put the other file of the authority beside it" in answer.err
    assert not (tmp_path / lost).exists()


@pytest.mark.parametrize(
    ("days", "others", "says"),
    [(9, False, "the authority's certificate ends on "), (9000, True, "the certificate is none of an authority")],
)
def test_an_authority_signs_nothing_that_outlives_it(
    outside: Shell, tmp_path: Path, days: int, others: bool, says: str
) -> None:
    now, life = datetime.now(UTC), timedelta(days=days)
    made = self_signed("an authority", (), now, life=life)
    if others:
        made = signed_by(made, "a part", (), now, life)
    (tmp_path / "ca.crt").write_bytes(made.cert)
    (tmp_path / "ca.key").write_bytes(made.key)

    answer = outside("kubernetes", "certificates", str(tmp_path))

    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_backups_are_saved_by_a_command_that_can_be_parsed(outside: Shell, tmp_path: Path) -> None:
    objects = printed(outside, *SECOND)
    (backup,) = dict(pods(objects))["wharfinger-etcd-backups"]["containers"]

    (command, folder, *options) = backup["args"]
    assert folder in [one["mountPath"] for one in backup["volumeMounts"]]
    away = [option if not option.startswith("--etcd=") else "--etcd=http://127.0.0.1:1" for option in options]
    assert "no snapshot from etcd" in outside(command, str(tmp_path), *away).err


def test_cluster_name_must_fit_into_names_of_workflows() -> None:
    with pytest.raises(UsageError, match="--cluster"):
        InstallChoices(cluster="a.b")
