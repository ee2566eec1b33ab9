"""An array that really runs, a few tasks at once, and a job that waits for it: by REST, with real
processes that note themselves when they begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batch.variables import job_number
from builders.api_callers import by_token
from builders.connector_builders import eventually
from builders.job_builders import a_body
from builders.loop_builders import Loop
from builders.portal_builders import Company, a_company, a_grant, a_user
from jobs.models import Attempt, Dependency, Job, JobArray
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


@pytest.fixture
def loop(company: Company, tmp_path: Path) -> Iterator[Loop]:
    company.cluster.nodes.all().delete()
    loop = Loop(company.cluster, tmp_path / "local")
    yield loop
    for attempt in Attempt.objects.filter(released_at=None):
        loop.connector.stop(attempt.key)


def most_at_once(spans: list[tuple[int, int]]) -> int:
    """The most spans [begin, end) that have one moment in common."""
    moments = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def test_at_most_three_of_ten_run_at_once_and_what_waits_for_them_comes_last(
    loop: Loop, bob: User, tmp_path: Path
) -> None:
    """Mutants: `room` counts only what runs, not what starts; the environment lacks the index."""
    notes = tmp_path / "notes"
    notes.mkdir()
    script = (
        f"#!/bin/bash\n#SBATCH --array=0-18:2%3\n#SBATCH -J sweep\n#SBATCH --gpus=1\n"
        f"begin=$(date +%s%N)\nsleep 0.3\n"
        f'echo "$TIDEGATE_ARRAY_INDEX $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT '
        f"$SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX ${{SLURM_ARRAY_JOB_ID:-unset}} "
        f'$TIDEGATE_ARRAY_ID $begin $(date +%s%N)" > {notes}/$SLURM_ARRAY_TASK_ID\n'
    )
    caller = by_token(bob)
    answer = caller.post("jobs", a_body(script=..., gpus=..., sbatch=script))
    assert answer.status_code == 201, answer.content
    array = JobArray.objects.get()
    last_script = f"ls {notes} | wc -l; date +%s%N"
    wish = {"array": str(array.id), "condition": "succeeded"}
    answer = caller.post("jobs", a_body(name="collect", script=last_script, depends_on=[wish]))
    last = Job.objects.get(pk=answer.json()["id"])
    in_vain = caller.post(
        "jobs", a_body(depends_on=[{"array": str(array.id), "condition": "failed"}])
    ).json()["id"]

    reasons: set[str] = set()
    holding: set[int] = set()

    def look() -> bool | None:
        tasks = Job.objects.filter(array=array)
        loop.cycle()
        holding.add(Attempt.objects.filter(job__array=array, released_at=None).count())
        for task in tasks.filter(state="queued").exclude(explanation=None):
            assert task.explanation is not None
            reasons.add(task.explanation["code"])
        loop.deliver()
        loop.observe()
        last.refresh_from_db()
        if tasks.exclude(state="succeeded").exists():
            assert last.state == "queued"
        return last.state in {"succeeded", "failed", "cancelled"} or None

    eventually(look, deadline_s=120)
    assert last.state == "succeeded"
    assert max(holding) == 3
    assert reasons == {"array_limit_reached"}
    lines = [(notes / str(index)).read_text().split() for index in range(0, 20, 2)]
    # A number, as scripts compute with it.
    number = str(job_number(array.id))
    assert [line[:7] for line in lines] == [
        [str(index), str(index), "10", "0", "18", number, str(array.id)]
        for index in range(0, 20, 2)
    ]
    spans = [(int(line[7]), int(line[8])) for line in lines]
    assert most_at_once(spans) <= 3
    # They really ran side by side.
    assert most_at_once(spans) > 1
    log = loop.connector.read_log(
        last.attempts.get().key, rank=0, stream="stdout", offset=0, limit=100
    )
    count, began = log.data.split()
    assert int(count) == 10
    assert int(began) > max(end for _, end in spans)
    assert Dependency.objects.get(job=last).is_met is True
    shown = caller.get(f"jobs/{in_vain}").json()
    assert (shown["state"], shown["end_reason"]) == ("cancelled", "dependency_never_met")
    counted = caller.get(f"job-arrays/{array.id}").json()["counts"]
    assert counted["succeeded"] == 10
