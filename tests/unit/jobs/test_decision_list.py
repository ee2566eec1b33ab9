"""Lines of what was decided: what they say, to whom, and for how long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, transaction

from arbiter.api.plan import Plan, Start
from arbiter.api.policy import Policy
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.loop_builders import a_job
from builders.portal_builders import NOW, Company, a_company, a_priority_class, a_quota
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.recording import Recorder, forget_old_cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Attempt, Cycle, Decision, Job, JobState, Reclaim
from tenants.models import User

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(minutes=7)


@pytest.fixture
def company() -> Company:
    return a_company("ai-company")


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def preempt(
    company: Company, cast: Cast, cycles: Cycles, *, borrows: User | None = None
) -> tuple[Job, Job]:
    """A job of inference (or the rival's) has 32 GPUs; bob's of 8 gets them back 7 minutes on."""
    team = company.inference if borrows is None else cast.rival_team
    user = borrows or cast.alice
    borrower = a_job(team, user, company.pool, gpus=8, nodes=4, name="serve", now=NOW)
    cycles.run(NOW)
    Attempt.objects.update(state="running", started_at=NOW)
    Job.objects.update(state=JobState.RUNNING)
    company.cluster.seen_at = LATER
    company.cluster.save()
    lender = a_job(company.nlp, cast.bob, company.pool, gpus=8, name="train", now=LATER)
    assert cycles.run(LATER).victims == 1
    return borrower, lender


def listed(user: User, query: str = "") -> list[dict[str, Any]]:
    answer = by_token(user).get(f"decisions{query}")
    assert answer.status_code == 200
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def kinds(user: User, query: str = "") -> list[tuple[str, str]]:
    return [(one["decision"], one["job"]["name"]) for one in listed(user, query)]


def test_who_was_started_and_who_was_stopped_for_whom_is_told_with_the_numbers(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: the work at risk counted from the submission; what was guaranteed as of after."""
    borrower, lender = preempt(company, cast, cycles)
    serve = {
        "id": str(borrower.id),
        "name": "serve",
        "user": "alice",
        "team": "ai-company/production/inference",
    }
    train = {
        "id": str(lender.id),
        "name": "train",
        "user": "bob",
        "team": "ai-company/research/nlp",
    }
    newer, older = Cycle.objects.order_by("-decided_at")
    nothing = {
        "beneficiary": None,
        "right": None,
        "unsaved_s": None,
        "at_risk_mgpu_s": None,
        "victims": 0,
        "victims_mgpu": 0,
    }
    found = {(one.pop("decision"), one["job"]["name"]): one for one in listed(cast.alice)}
    ids = [one.pop("id") for one in found.values()]
    assert ids == sorted(ids, reverse=True)
    assert found == {
        ("stopped", "serve"): {
            **nothing,
            "cycle": str(newer.pk),
            "decided_at": "2026-11-21T12:07:00Z",
            "job": serve,
            "pool": "h100",
            "device": "gpu",
            "mgpu": 32_000,
            "guaranteed_mgpu": 16_000,
            "beneficiary": train,
            "right": "borrowed",
            "unsaved_s": 420,
            "at_risk_mgpu_s": 420 * 32_000,
            "grace_until": "2026-11-21T12:12:00Z",
        },
        ("claimed", "train"): {
            **nothing,
            "cycle": str(newer.pk),
            "decided_at": "2026-11-21T12:07:00Z",
            "job": train,
            "pool": "h100",
            "device": "gpu",
            "mgpu": 8_000,
            "guaranteed_mgpu": None,
            "grace_until": "2026-11-21T12:12:00Z",
            "victims": 1,
            "victims_mgpu": 32_000,
        },
        ("started", "serve"): {
            **nothing,
            "cycle": str(older.pk),
            "decided_at": "2026-11-21T12:00:00Z",
            "job": serve,
            "pool": "h100",
            "device": "gpu",
            "mgpu": 32_000,
            "guaranteed_mgpu": 16_000,
            "grace_until": None,
        },
    }


def test_each_is_told_of_the_jobs_that_they_may_see(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """A lead sees the jobs of the team, a researcher their own, finance and auditors all of the
    organization. Planted: everybody of the organization was told of all."""
    preempt(company, cast, cycles)
    all_lines = {("stopped", "serve"), ("claimed", "train"), ("started", "serve")}
    for user in (cast.alice, cast.root, cast.finance, cast.auditor):
        assert set(kinds(user)) == all_lines
    assert set(kinds(cast.production_admin)) == {("stopped", "serve"), ("started", "serve")}
    for user in (cast.nlp_lead, cast.bob, cast.research_admin):
        assert kinds(user) == [("claimed", "train")]
    for user in (cast.charlie, cast.dave, cast.service):
        assert kinds(user) == []
    assert by_token(cast.alice, ("quotas",)).get("decisions").json()["items"] == []


def test_the_other_job_is_told_as_far_as_it_may_be_seen(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: the name of the beneficiary to who sees the victim alone."""
    preempt(company, cast, cycles)
    (stopped,) = listed(cast.production_admin, "?decision=stopped")
    assert stopped["beneficiary"] == {
        "id": None,
        "name": None,
        "user": None,
        "team": "ai-company/research/nlp",
    }


def test_another_organization_is_never_named(company: Company, cast: Cast, cycles: Cycles) -> None:
    """Planted: the path of the beneficiary's team to everybody."""
    a_quota(cast.rival, company.pool, 0)
    a_priority_class(cast.rival)
    preempt(company, cast, cycles, borrows=cast.charlie)
    answer = by_token(cast.charlie).get("decisions")
    stopped, started = answer.json()["items"]
    assert (stopped["decision"], started["decision"]) == ("stopped", "started")
    assert stopped["beneficiary"] == {"id": None, "name": None, "user": None, "team": None}
    assert stopped["at_risk_mgpu_s"] == 420 * 32_000
    assert b"ai-company" not in answer.content
    assert b"train" not in answer.content
    (claimed,) = listed(cast.alice)
    assert (claimed["victims"], claimed["victims_mgpu"]) == (1, 32_000)
    assert "serve" not in str(claimed)
    assert "rival" not in str(claimed)


def test_the_list_is_narrowed_and_read_page_by_page(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    preempt(company, cast, cycles)
    alice = cast.alice
    assert kinds(alice, "?team=ai-company/research") == [("claimed", "train")]
    assert set(kinds(alice, "?decision=stopped,claimed")) == {
        ("stopped", "serve"),
        ("claimed", "train"),
    }
    assert kinds(alice, "?decided_at__lt=2026-11-21T12:07:00Z") == [("started", "serve")]
    assert len(kinds(alice, "?decided_at__gte=2026-11-21T12:07:00Z&pool=h100")) == 2
    first = by_token(alice).get("decisions?limit=2").json()
    second = by_token(alice).get(first["next"].removeprefix("/api/v1/")).json()
    assert [len(first["items"]), len(second["items"]), second["next"]] == [2, 1, None]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?decision=waits", 400),
        ("?decision=", 400),
        ("?pool=none", 400),
        ("?team=rival-lab", 404),
        ("?team=ai-company/none", 404),
        ("?decided_at__lt=now", 400),
        ("?user=bob", 400),
    ],
)
def test_a_filter_that_means_nothing_is_refused(cast: Cast, query: str, status: int) -> None:
    assert by_token(cast.alice).get(f"decisions{query}").status_code == status


def test_a_claim_that_was_given_up_is_told(company: Company, cast: Cast, cycles: Cycles) -> None:
    _, lender = preempt(company, cast, cycles)
    gone = LATER + timedelta(hours=1)
    Reclaim.objects.update(closed_at=gone)
    a_record(company, Plan(int(gone.timestamp()), dropped_claims=(str(lender.id),)), gone)
    assert kinds(cast.bob)[0] == ("claim_dropped", "train")
    assert listed(cast.bob)[0]["mgpu"] == 8_000


def test_what_was_planned_and_not_done_has_no_line(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: lines were made of the plan alone; an earlier attempt passed for this start."""
    job = a_job(company.nlp, cast.bob, company.pool, gpus=8, now=NOW)
    cycles.run(NOW)
    again = Start(str(job.id), str(company.cluster.pk), (), 8_000)
    a_record(company, Plan(int(LATER.timestamp()), starts=(again,)), LATER)
    assert Cycle.objects.count() == 2
    assert [line.at for line in Decision.objects.all()] == [NOW]


def a_record(company: Company, plan: Plan, at: datetime) -> None:
    Recorder().record(load_snapshot(at), Policy(), plan, epoch=1, now=at)


def test_lines_go_with_the_record_of_their_cycle(
    company: Company, cast: Cast, cycles: Cycles, settings: LazySettings
) -> None:
    preempt(company, cast, cycles)
    settings.CYCLES_KEPT_DAYS = 1
    assert forget_old_cycles(now=NOW + timedelta(days=1, minutes=1)) == 1
    assert set(kinds(cast.alice)) == {("stopped", "serve"), ("claimed", "train")}
    assert forget_old_cycles(now=NOW + timedelta(days=2)) == 1
    assert not Decision.objects.exists()


def test_the_database_refuses_a_stop_for_nobody(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    preempt(company, cast, cycles)
    with pytest.raises(IntegrityError, match="decision_stops_a_job"), transaction.atomic():
        Decision.objects.filter(kind="stopped").update(beneficiary=None)
    with pytest.raises(IntegrityError, match="decision_is_known"), transaction.atomic():
        Decision.objects.filter(kind="started").update(kind="waits")
