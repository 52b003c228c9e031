"""Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.checks import metadata
from wharfinger.objects.documents.checks.metadata import check_label_selector, is_empty
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.pods import check_template
from wharfinger.objects.documents.checks.volumes import check_claim_spec
from wharfinger.objects.documents.selectors import label_selector

_NO_MATCH = "`selector` does not match template `labels`"
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit")


def check_deployment(deployment: FieldPlace) -> None:
    """A Deployment."""
    spec = deployment["spec"]
    _check_selecting(spec, "deployment", "ReplicaSet")
    _check_counts(spec)
    strategy = spec["strategy"]
    rolling = strategy["rollingUpdate"]
    if strategy["type"].text == "Recreate":
        if rolling.given:
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'")
    elif strategy["type"].text in ("", "RollingUpdate"):
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        check_share(unavailable)
        check_share(surge)
        if rolling.given and _is_zero(unavailable) and _is_zero(surge):
            unavailable.invalid("may not be 0 when `maxSurge` is 0")
    else:
        strategy.unsupported(("Recreate", "RollingUpdate"))
    deadline = spec["progressDeadlineSeconds"]
    deadline.no_less_than(0)
    if deadline.given and deadline.value <= (spec["minReadySeconds"].value or 0):
        deadline.invalid("must be greater than minReadySeconds")


def check_replica_set(replica_set: FieldPlace) -> None:
    """A ReplicaSet."""
    _check_selecting(replica_set["spec"], "deployment", "ReplicaSet")
    _check_counts(replica_set["spec"])


def check_stateful_set(stateful_set: FieldPlace) -> None:
    """A StatefulSet."""
    spec = stateful_set["spec"]
    claims = [claim["metadata"]["name"].text for claim in spec["volumeClaimTemplates"].entries()]
    _check_selecting(spec, "statefulset", "StatefulSet", claims)
    _check_counts(spec)
    for claim in spec["volumeClaimTemplates"].entries():
        check_claim_spec(claim["spec"])
    spec["ordinals"]["start"].no_less_than(0)
    management, update = spec["podManagementPolicy"], spec["updateStrategy"]
    if management.given and management.value not in ("OrderedReady", "Parallel"):
        management.invalid("must be 'OrderedReady' or 'Parallel'")
    if update["type"].given and update["type"].value not in ("RollingUpdate", "OnDelete"):
        update.invalid("must be 'RollingUpdate' or 'OnDelete'")
    update["rollingUpdate"]["partition"].no_less_than(0)
    service = spec["serviceName"]
    if service.text:
        service.each(metadata.dns_label(service.text))


def check_daemon_set(daemon_set: FieldPlace) -> None:
    """A DaemonSet."""
    spec = daemon_set["spec"]
    _check_selecting(spec, "daemonset", "DaemonSet")
    _check_counts(spec)
    update = spec["updateStrategy"]
    rolling = update["rollingUpdate"]
    if update["type"].text not in ("", "RollingUpdate", "OnDelete"):
        update.unsupported(("RollingUpdate", "OnDelete"))
    elif rolling.given and update["type"].text != "OnDelete":
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        check_share(unavailable)
        check_share(surge)
        if surge.given and not _is_zero(surge):
            if not _is_zero(unavailable):
                surge.invalid("may not be set when maxUnavailable is non-zero")
        elif unavailable.given and _is_zero(unavailable):
            unavailable.required("cannot be 0 when maxSurge is 0")


def check_replication_controller(controller: FieldPlace) -> None:
    """A ReplicationController. Without a selector it has the labels of its template."""
    spec = controller["spec"]
    template = spec["template"]
    labels = template["metadata"]["labels"]
    selector = spec["selector"].map or labels.map
    if not selector:
        spec["selector"].required()
    _check_counts(spec)
    if not template.given:
        template.required()
        return
    if not selector.items() <= labels.map.items():
        labels.invalid(_NO_MATCH, labels.value)
    check_template(template)
    _check_endless(template, "ReplicationController")


def check_share(share: FieldPlace) -> None:
    """A number that is not negative, or a percentage of at most 100."""
    if isinstance(share.value, str):
        wrong = metadata.percent(share.value)
        share.each(wrong)
        if not wrong and int(share.value[:-1]) > 100 and not share.path.endswith("maxSurge"):
            share.invalid("must not be greater than 100%")
    else:
        share.no_less_than(0)


def _is_zero(share: FieldPlace) -> bool:
    return share.value == 0 or (isinstance(share.value, str) and share.value.rstrip("%").strip("0") == "")


def _check_counts(spec: FieldPlace) -> None:
    for field in _COUNTS:
        spec[field].no_less_than(0)


def _check_selecting(spec: FieldPlace, shown: str, title: str, claims: list[str] | None = None) -> None:
    """The selector, the template, and that the one matches the other."""
    selector, template = spec["selector"], spec["template"]
    labels = template["metadata"]["labels"]
    if not selector.given:
        selector.required()
    else:
        before = len(selector.problems)
        check_label_selector(selector)
        if is_empty(selector):
            selector.invalid(f"empty selector is invalid for {shown}")
        elif len(selector.problems) == before and not matches(selector, labels.map):
            labels.invalid(_NO_MATCH, labels.value)
    own = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims or ()]
    check_template(template, own)
    _check_endless(template, title)


def matches(selector: FieldPlace, labels: Mapping[str, str]) -> bool:
    """Whether a selector without mistakes matches these labels."""
    try:
        found = label_selector({"selector": selector.value}, "selector")
    except InvalidObject:
        return True  # what is wrong with it is told already
    return found is not None and found.matches(labels)


def _check_endless(template: FieldPlace, title: str) -> None:
    """Pods that run for ever."""
    restart, deadline = template["spec"]["restartPolicy"], template["spec"]["activeDeadlineSeconds"]
    restart.one_of("Always")
    if deadline.given:
        deadline.forbidden(f"activeDeadlineSeconds in {title} is not Supported")


_COUNTS_OF_JOBS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MOST_INDEXED = 100_000
_LONGEST_CRON_JOB = 52
"""Characters of a CronJob's name: its Jobs' names have 11 more."""
_FIELDS_OF_SCHEDULE = 5


def check_job(job: FieldPlace) -> None:
    """A Job. Its selector is made by the API server, unless that is asked for otherwise."""
    spec = job["spec"]
    _check_spec(spec)
    selector, labels = spec["selector"], spec["template"]["metadata"]["labels"]
    if spec["manualSelector"].value is not True:
        if selector.given and "controller-uid" not in str(selector.value):
            selector.invalid("`selector` not auto-generated")
    elif not selector.given:
        selector.required()
    else:
        check_label_selector(selector)
        if not matches(selector, labels.map):
            labels.invalid("`selector` does not match template `labels`", labels.value)
    name, completions = job["metadata"]["name"], spec["completions"].value or 0
    if spec["completionMode"].text == "Indexed" and completions > 0 and name.text:
        last = f"{name.text}-{completions - 1}"
        if metadata.dns_label(last):
            name.invalid(f"will not able to create pod with invalid DNS label: {last}")


def check_cron_job(cron_job: FieldPlace) -> None:
    """A CronJob."""
    name, spec = cron_job["metadata"]["name"], cron_job["spec"]
    if len(name.text) > _LONGEST_CRON_JOB:
        name.invalid(f"must be no more than {_LONGEST_CRON_JOB} characters")
    schedule = spec["schedule"]
    if not schedule.text:
        schedule.required()
    elif "TZ" in schedule.text:
        schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif not schedule.text.startswith("@") and len(schedule.text.split()) != _FIELDS_OF_SCHEDULE:
        fields = schedule.text.split()
        schedule.invalid(f"expected exactly {_FIELDS_OF_SCHEDULE} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        spec[field].no_less_than(0)
    spec["concurrencyPolicy"].one_of("Allow", "Forbid", "Replace")
    of_job = spec["jobTemplate"]["spec"]
    _check_spec(of_job)
    if of_job["selector"].given:
        of_job["selector"].invalid("`selector` will be auto-generated")
    if of_job["manualSelector"].value is True:
        of_job["manualSelector"].unsupported(("nil", "false"))


def _check_spec(spec: FieldPlace) -> None:
    for field in _COUNTS_OF_JOBS:
        spec[field].no_less_than(0)
    mode = spec["completionMode"]
    mode.one_of("NonIndexed", "Indexed")
    if mode.text == "Indexed":
        if spec["parallelism"].given and not spec["completions"].given:
            spec["completions"].required("when completion mode is Indexed")
        if (spec["parallelism"].value or 0) > _MOST_INDEXED:
            spec["parallelism"].invalid(
                f"must be less than or equal to {_MOST_INDEXED} when completion mode is Indexed"
            )
    else:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec[field].given:
                spec[field].invalid("requires indexed completion mode")
    if spec["maxFailedIndexes"].given and not spec["backoffLimitPerIndex"].given:
        spec["backoffLimitPerIndex"].required("when maxFailedIndexes is specified")
    check_template(spec["template"])
    _check_restart(spec)


def _check_restart(spec: FieldPlace) -> None:
    """Pods that end."""
    restart = spec["template"]["spec"]["restartPolicy"]
    if restart.text in ("", "Always"):
        restart.required('valid values: "OnFailure", "Never"')
    elif restart.text not in ("OnFailure", "Never"):
        restart.unsupported(("OnFailure", "Never"))
    elif spec["podFailurePolicy"].given and restart.text != "Never":
        restart.invalid('only "Never" is supported when podFailurePolicy is specified')
