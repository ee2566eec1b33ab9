"""The request of a stored job, which submits the same job again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job
from builders.portal_builders import NOW, Company, a_cluster_node, a_grant, a_pool, a_quota, a_user
from cli.submitting import body_of
from jobs.models import Dependency, Job, JobOrigin
from jobs.reading.stored_requests import request_of_job
from jobs.submission.job_members import FIELDS
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from manifests.writing import yaml_text
from tenants.access import Actor, actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

#: Columns of a job that are not of its request.
_OF_THE_JOB = {"id", "submitted_at", "notes", "explanation", "explained_at", "array"}
_LINES = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
_WORDS = st.one_of(
    st.sampled_from(["1e3", "2:00:00", "no", "~", "0o17", "0b1", "1_000", "2026-11-29", "a: b"]),
    st.sampled_from(['{"apiVersion": "v1"}', "#!x", " x", "x ", "---", "a\u2028b", "\u00e9"]),
)
_SCRIPTS = st.one_of(
    st.lists(st.one_of(_LINES, _WORDS), min_size=1, max_size=4).map(
        lambda lines: "#!/bin/bash\n" + "\n".join(lines) + "\n"
    ),
    st.just("#!/bin/bash\ncat <<EOF\napiVersion: v1\nEOF"),
    st.just('cat <<EOF\n{\n  "apiVersion": "v1"\n}\nEOF\n'),
)
#: Values of the members that every script may have.
_MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["train", "1e3", "no", "a b", "x" * 60]),
    "arguments": st.lists(st.one_of(_WORDS, st.just("--lr=1e-3")), max_size=3),
    "folder": st.sampled_from(["runs/1", "/data"]),
    "output_file": st.just("logs/%x-%j.out"),
    "error_file": st.just("logs/%x-%j.err"),
    "appends_output": st.booleans(),
    "time_limit": st.sampled_from(["90m", "1:30:00"]),
    "time_limit_s": st.integers(60, 90_000),
    "priority_class": st.just("normal"),
    "type": st.sampled_from(["training", "distributed", "interactive", "inference"]),
    "environment": st.dictionaries(
        st.sampled_from(["A", "LR", "ON"]), st.one_of(_WORDS, _LINES), max_size=3
    ),
    "is_preemptible": st.booleans(),
    "is_requeueable": st.booleans(),
    "requeue_on": st.lists(st.sampled_from(["time_limit", "1", "255"]), unique=True, max_size=3),
    "requeue_max": st.integers(1, 20),
    "checkpoint_path": st.just("/data/checkpoints"),
    "preferred_topology": st.sampled_from(["rack", "block"]),
    "memory_mib_per_node": st.integers(1, 65_536),
    "notice_signal": st.sampled_from(["TERM", "USR1"]),
    "signal_ahead_s": st.integers(0, 30),
    "signals_shell_only": st.booleans(),
    "held": st.booleans(),
    "begin_at": st.just((NOW + timedelta(days=1)).isoformat()),
    "is_singleton": st.booleans(),
    "array": st.sampled_from(["3", "7"]),
}
_SIZES = st.one_of(
    st.fixed_dictionaries({"gpus": st.sampled_from([1, 4, 8])}),
    st.fixed_dictionaries({"gpus": st.just(16), "gpus_min": st.sampled_from([8, 16])}),
    st.fixed_dictionaries(
        {
            "gpus_per_node": st.integers(1, 8),
            "nodes": st.integers(2, 4),
            "nodes_min": st.integers(1, 2),
            "cpus_per_node": st.integers(1, 32),
        }
    ),
    st.fixed_dictionaries(
        {
            "gpus_per_node": st.just(8),
            "nodes": st.integers(1, 4),
            "launch": st.just("batch"),
            "ntasks": st.integers(1, 4),
            "ntasks_per_node": st.integers(1, 4),
            "cpus_per_task": st.integers(1, 4),
            "gpus_per_task": st.integers(1, 4),
        }
    ),
    st.fixed_dictionaries(
        {"pool": st.just("cores"), "cpus_per_node": st.integers(1, 8), "nodes": st.integers(1, 2)}
    ),
)
#: Members that other tests of this file give, or that say a script in another way.
_ELSEWHERE = {
    *("team", "script", "script_file", "sbatch", "manifest", "pools", "cluster", "depends_on"),
    *("features", "image", "required_topology", "cost_cap_nano", "template"),
}


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    cores = a_pool("cores", device="cpu")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, cores, 64)
    for number in range(2):
        a_cluster_node(company.cluster, cores, name=f"core-{number}")
    return user


def columns(job: Job) -> dict[str, Any]:
    """Return what a job stores of its request."""
    fields = [field for field in Job._meta.fields if field.name not in _OF_THE_JOB]
    found = {field.name: getattr(job, field.attname) for field in fields}
    waits = Dependency.objects.filter(job=job).order_by("pk")
    return {**found, "waits": list(waits.values_list("predecessor", "array", "condition"))}


def submitted(body: dict[str, Any], actor: Actor) -> Job:
    return Job.objects.get(pk=submit_job_here(read_job_request(body), actor=actor, now=NOW).pk)


def again(job: Job, actor: Actor, folder: Path) -> Job:
    """Return the job of the exported file, as the command reads it."""
    file = folder / "job.yaml"
    exported = request_of_job(job.pk, actor=actor, now=NOW)
    file.write_text(yaml_text(exported), encoding="utf-8")
    read = body_of(str(file), None, {})
    assert read == exported
    return submitted(read, actor)


def test_every_member_is_drawn_or_given_elsewhere() -> None:
    """Against: a member of requests that no test here exports."""
    sized = {"gpus", "gpus_min", "gpus_per_node", "nodes", "nodes_min", "cpus_per_node", "launch"}
    tasks = {"ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_task", "pool"}
    assert _MEMBERS.keys() | sized | tasks | _ELSEWHERE == FIELDS


@settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    script=_SCRIPTS,
    size=_SIZES,
    names=st.sets(st.sampled_from(sorted(_MEMBERS)), max_size=12),
    data=st.data(),
)
def test_an_exported_request_submits_the_same_job(
    company: Company,
    bob: User,
    tmp_path: Path,
    script: str,
    size: dict[str, Any],
    names: set[str],
    data: st.DataObject,
) -> None:
    """Against: values with a default of another meaning left out; environment `1e3` unquoted;
    begin time left out; a script with JSON taken for a manifest."""
    left_out = {"time_limit"} if "time_limit_s" in names else set()
    if "array" in names:
        left_out |= {"type"}
    if size.get("pool") == "cores":
        left_out |= {"preferred_topology"}
    body = a_body(gpus=..., pool=company.pool.name, script=script) | size
    for name in sorted(names - left_out):
        body[name] = data.draw(_MEMBERS[name], label=name)
    actor = actor_of(bob)
    job = submitted(body, actor)
    assert columns(again(job, actor, tmp_path)) == columns(job)


def test_dependencies_pools_and_places_are_exported(company: Company, bob: User) -> None:
    """Against: a dependency on an array as one on a job; the first pool alone."""
    a_quota(company.organization, a_pool("a100"), 8)
    a_quota(company.research, a_pool("a100"), 8)
    a_quota(company.nlp, a_pool("a100"), 8)
    a_cluster_node(company.cluster, a_pool("a100"))
    actor = actor_of(bob)
    before = submitted(a_body(pool="h100"), actor)
    task = submitted(a_body(pool="h100", array="0-1"), actor)
    waits = [
        {"job": str(before.pk), "condition": "ended"},
        {"array": str(task.array_id), "condition": "succeeded"},
    ]
    given = {
        "team": "ai-company/research/nlp",
        "name": "train",
        "pools": ["a100", "h100"],
        "launch": "per_node",
        "gpus_per_node": 1,
        "nodes": 1,
        "priority_class": "normal",
        "cluster": "local",
        "script": "true\n",
        "depends_on": waits,
    }
    job = submitted(given, actor)
    assert request_of_job(job.pk, actor=actor, now=NOW) == given


def test_the_request_is_a_file_of_yaml_or_json(company: Company, bob: User) -> None:
    """Against: script on one line."""
    job = submitted(a_body(pool="h100", script="#!/bin/sh\necho 1\n", name="one"), actor_of(bob))
    found = by_token(bob).get(f"jobs/{job.pk}/request")
    assert found.json() == request_of_job(job.pk, actor=actor_of(bob), now=NOW)
    file = by_token(bob).get(f"jobs/{job.pk}/request?format=yaml")
    assert file["Content-Type"] == "application/yaml; charset=utf-8"
    assert file["Content-Disposition"] == f'attachment; filename="job-{job.pk}.yaml"'
    assert file.content.decode() == (
        "team: ai-company/research/nlp\nname: one\npool: h100\nlaunch: per_node\n"
        "gpus_per_node: 1\nnodes: 1\npriority_class: normal\n"
        "script: |\n  #!/bin/sh\n  echo 1\n"
    )
    assert by_token(bob).get(f"jobs/{job.pk}/request?format=xml").status_code == 400


def test_a_request_needs_the_right_to_read_the_script(company: Company, bob: User) -> None:
    """Against: the request without its script for a viewer."""
    viewer = a_user(company.organization, "eve")
    a_grant(viewer, Role.AUDITOR, company.nlp)
    job = submitted(a_body(pool="h100"), actor_of(bob))
    refused = by_token(viewer).get(f"jobs/{job.pk}/request")
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "You can see this job but not read its script; its owner can.",
    )
    stranger = a_user(company.organization, "mallory")
    assert by_token(stranger).get(f"jobs/{job.pk}/request").status_code == 404


def test_a_part_of_a_gpu_is_exported_as_a_decimal(company: Company, bob: User) -> None:
    job = a_job(company, bob, mgpu_per_node=333)
    assert request_of_job(job.pk, actor=actor_of(bob), now=NOW)["gpus_per_node"] == 0.333


def test_a_native_job_has_no_request(company: Company, bob: User) -> None:
    job = a_job(company, bob, state="running", origin=JobOrigin.NATIVE.value, script="")
    refused = by_token(bob).get(f"jobs/{job.pk}/request")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "This job was submitted directly to its cluster, so its request is not known here.",
    )
