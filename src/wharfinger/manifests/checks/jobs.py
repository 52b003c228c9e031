"""Jobs and CronJobs."""

from __future__ import annotations

from wharfinger.manifests.checks import words
from wharfinger.manifests.checks.metadata import check_label_selector, check_metadata
from wharfinger.manifests.checks.place import FieldPlace
from wharfinger.manifests.checks.pods import check_template
from wharfinger.manifests.checks.workloads import matches

_COUNTS = (
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
    check_metadata(job["metadata"])
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
        if words.dns_label(last):
            name.invalid(f"will not able to create pod with invalid DNS label: {last}")


def check_cron_job(cron_job: FieldPlace) -> None:
    """A CronJob."""
    name, spec = cron_job["metadata"]["name"], cron_job["spec"]
    check_metadata(cron_job["metadata"])
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
    for field in _COUNTS:
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
