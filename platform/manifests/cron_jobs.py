"""A CronJob: its schedule, and the manifest of the Job that each of its runs is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manifests.documents import Document, Path, Unreadable, read_documents
from manifests.fields import Field
from manifests.findings import Finding, Findings, Verdict
from manifests.pods import read_metadata
from manifests.reading import Manifest, manifest_of
from manifests.writing import written

CRON_API = "batch/v1"
_KIND = "CronJob"
_TOP = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_TEMPLATE = ("spec", "jobTemplate")
_POLICIES = {"Allow": "allow", "Forbid": "forbid", "Replace": "replace"}
_HISTORY = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_SPEC = frozenset(
    {
        *("schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds"),
        *("jobTemplate", *_HISTORY),
    }
)


@dataclass(frozen=True, slots=True)
class CronJob:
    """The CronJob of a text. Values that are None are not given, or refused.

    `runs` is the manifest of its runs, with the lines of the text as it was given. `text` is that
    manifest as a text of its own. `findings` are those on the schedule, then those on the runs.
    """

    schedule: str | None
    time_zone: str | None
    concurrency_policy: str | None
    starting_deadline_s: int | None
    is_suspended: bool
    runs: Manifest
    text: str
    findings: tuple[Finding, ...]

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that keep it from running."""
        return tuple(one for one in self.findings if one.verdict is Verdict.REFUSED)


def read_cron_job(text: str) -> CronJob | None:
    """Return the CronJob in `text`; None for a text without one, or that cannot be read.

    Documents beside it stay in the manifest of its runs. Errors are findings.
    """
    try:
        documents = read_documents(text)
    except Unreadable:
        return None
    first = next((one for one in documents if _is_cron_job(one)), None)
    if first is None:
        return None
    findings = Findings()
    top = Field(first, findings, _KIND, (), first.value)
    _check_object(top)
    spec = top.at("spec")
    policy = spec.at("concurrencyPolicy").text()
    if policy is not None and policy not in _POLICIES:
        spec.at("concurrencyPolicy").refuse(f"must be one of {', '.join(_POLICIES)}")
    schedule = spec.at("schedule").text()
    if not schedule:
        spec.at("schedule").refuse("is required, such as 0 3 * * *")
    for name in _HISTORY:
        if spec.at(name).is_given:
            spec.at(name).ignore("the portal keeps every job of it")
    # A second CronJob is refused as a job beside the first.
    jobs = tuple(_job_of(one) if one is first else one for one in documents)
    runs = manifest_of(jobs)
    try:
        job_text = written(jobs)
    except Unreadable as problem:
        top.refuse(problem.detail)
        job_text = ""
    return CronJob(
        schedule=schedule or None,
        time_zone=spec.at("timeZone").text() or None,
        concurrency_policy=_POLICIES.get(policy or ""),
        starting_deadline_s=spec.at("startingDeadlineSeconds").whole(),
        is_suspended=spec.at("suspend").flag() or False,
        runs=runs,
        text=job_text,
        findings=(*findings.all(), *runs.findings),
    )


def _is_cron_job(document: Document) -> bool:
    value = document.value
    return isinstance(value, dict) and value.get("kind") == _KIND


def _check_object(top: Field) -> None:
    if top.at("apiVersion").value != CRON_API:
        top.at("apiVersion").refuse(f"must be {CRON_API}")
    for name, part in top.items():
        if name == "status":
            part.ignore("the cluster writes it")
        elif name not in _TOP:
            part.refuse("is no field of such an object; remove it")
    read_metadata(top.at("metadata"))
    for name, part in top.at("spec").items():
        if name not in _SPEC:
            part.refuse("is no field of a CronJob; remove it")
    template = top.at(*_TEMPLATE)
    if not template.is_given:
        template.refuse("is required: the Job of each run")
    for name, part in template.items():
        if name not in ("metadata", "spec"):
            part.refuse("is no field of a jobTemplate; remove it")


def _job_of(document: Document) -> Document:
    """Return the Job of each run, named after the CronJob, with the lines of its fields."""
    template = _part(_part(document.value, "spec"), "jobTemplate")
    own = _part(document.value, "metadata")
    names = {name: own[name] for name in ("name", "generateName") if name in own}
    value: dict[str, Any] = {"apiVersion": CRON_API, "kind": "Job"}
    value["metadata"] = {**_part(template, "metadata"), **names}
    if "spec" in template:
        value["spec"] = template["spec"]
    lines: dict[Path, int] = {}
    for path, line in document.lines.items():
        if path[:2] == _TEMPLATE:
            lines[path[2:]] = line
        elif len(path) < 2 and path[:1] != ("spec",):
            lines.setdefault(path, line)
    lines[()] = document.line_of(_TEMPLATE)
    return Document(document.number, value, lines)


def _part(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
