"""Priority classes over REST: made, priced, retired and removed; and what jobs may be of them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.cast import Cast, a_cast
from builders.hints import hints_told
from builders.job_builders import a_body, a_job
from builders.portal_builders import Company, a_company, a_priority_class
from jobs.natives.natives import _default_classes
from quotas.models import PriorityClass
from quotas.policies import CLASSES_MAX
from quotas.queries import quota_snapshot

pytestmark = pytest.mark.django_db

DEADLINE: dict[str, Any] = {
    "organization": "ai-company",
    "name": "deadline",
    "order": 500,
    "preempts_within_team": True,
    "preempts_across_teams": True,
    "grace_period_s": 60,
    "team_cap_mgpu": 8_000,
    "price_multiplier_ppm": 1_500_000,
    "use_factor_percent": 50,
    "description": "papers",
}


@pytest.fixture
def company() -> Company:
    company = a_company("ai-company")
    a_priority_class(company.organization, "normal")
    return company


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


@pytest.fixture
def alice(cast: Cast) -> Caller:
    return by_token(cast.alice)


def names() -> set[str]:
    return set(PriorityClass.objects.values_list("name", flat=True))


def path_of(name: str) -> str:
    return f"priority-classes/{PriorityClass.objects.get(name=name).pk}"


def test_a_class_is_made_and_jobs_are_of_it_at_once(
    company: Company, cast: Cast, alice: Caller
) -> None:
    with hints_told() as hints:
        made = alice.post("priority-classes", DEADLINE)
    assert (made.status_code, made.headers["ETag"]) == (201, '"v1"')
    shown = made.json()
    assert shown == {"id": shown["id"], **DEADLINE, "is_retired": False, "version": 1}
    assert shown in alice.get("priority-classes").json()["items"]
    assert hints == [{"topic": "quotas", "ids": [], "to": str(company.organization.pk)}]
    event = AuditEvent.objects.latest("id")
    told = {name: value for name, value in DEADLINE.items() if name != "organization"}
    assert (event.action, event.actor, event.detail) == (
        "priority_class.created",
        "alice@ai-company",
        told,
    )
    (seen,) = [one for one in quota_snapshot().priority_classes if one.id == shown["id"]]
    assert (seen.order, seen.grace_period_s, seen.team_cap_mgpu) == (500, 60, 8_000)
    assert (seen.preempts_within_team, seen.preempts_across_teams) == (True, True)
    job = by_token(cast.bob).post("jobs", a_body(pool="h100", priority_class="deadline"))
    assert (job.status_code, job.json()["priority_class"]) == (201, "deadline")


def test_what_is_left_out_stops_nobody_and_costs_the_price(alice: Caller) -> None:
    body = {"organization": "ai-company", "name": "plain", "order": 5}
    made = alice.post("priority-classes", body).json()
    assert made == {
        "id": made["id"],
        **body,
        "preempts_within_team": False,
        "preempts_across_teams": False,
        "grace_period_s": 300,
        "team_cap_mgpu": None,
        "price_multiplier_ppm": 1_000_000,
        "use_factor_percent": 100,
        "description": "",
        "is_retired": False,
        "version": 1,
    }


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": "Dead Line"}, "/name"),
        ({"name": "deadline-"}, "/name"),
        ({"name": "x" * 64}, "/name"),
        ({"name": ""}, "/name"),
        ({"order": -1}, "/order"),
        ({"order": 1_000_001}, "/order"),
        ({"order": None}, "/order"),
        ({"grace_period_s": 86_401}, "/grace_period_s"),
        ({"team_cap_mgpu": None}, "/team_cap_mgpu"),
        ({"price_multiplier_ppm": 100_000_001}, "/price_multiplier_ppm"),
        ({"price_multiplier_ppm": 1.5}, "/price_multiplier_ppm"),
        ({"use_factor_percent": 1_001}, "/use_factor_percent"),
        ({"description": "x" * 201}, "/description"),
        ({"is_retired": True}, "/is_retired"),
        ({"organization": "ai-company/research"}, "/organization"),
    ],
)
def test_a_class_that_means_nothing_is_refused_at_its_field(
    alice: Caller, change: dict[str, Any], pointer: str
) -> None:
    before = names()
    answer = alice.post("priority-classes", {**DEADLINE, **change})
    assert (answer.status_code, [one["pointer"] for one in answer.json()["errors"]]) == (
        400,
        [pointer],
    )
    assert names() == before


def test_a_name_stands_once_in_an_organization(company: Company, cast: Cast, alice: Caller) -> None:
    """Planted: unique over all organizations."""
    a_priority_class(cast.rival, "deadline")
    assert alice.post("priority-classes", DEADLINE).status_code == 201
    again = alice.post("priority-classes", DEADLINE)
    assert (again.status_code, again.json()["detail"]) == (
        409,
        "ai-company has a priority class deadline already. Change that one.",
    )
    PriorityClass.objects.filter(name="deadline").update(is_retired=True)
    told = alice.post("priority-classes", DEADLINE).json()["detail"]
    assert told.endswith("already. It is retired: change is_retired.")


def test_an_answer_that_was_lost_makes_no_second_class(alice: Caller) -> None:
    first, second = (
        alice.post("priority-classes", DEADLINE, Idempotency_Key="once") for _ in range(2)
    )
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()


def test_an_organization_has_so_many_classes_at_most(company: Company, alice: Caller) -> None:
    """Planted: classes of all organizations were counted."""
    kept = PriorityClass.objects.filter(organization=company.organization).count()
    for number in range(kept, CLASSES_MAX - 1):
        a_priority_class(company.organization, f"class-{number}")
    assert alice.post("priority-classes", DEADLINE).status_code == 201
    refused = alice.post("priority-classes", {**DEADLINE, "name": "one-too-many"})
    assert (refused.status_code, "50 priority classes" in refused.json()["detail"]) == (409, True)


def test_prices_are_of_who_manages_prices_and_all_else_of_who_manages_quota(
    company: Company, cast: Cast, alice: Caller
) -> None:
    """Planted: a right to quota set prices, the right to prices set the order."""
    path = path_of("normal")
    finance, lead = by_token(cast.finance), by_token(cast.research_admin)
    priced = finance.patch(path, {"price_multiplier_ppm": 2_000_000}, If_Match='"v1"')
    assert (priced.status_code, priced.json()["price_multiplier_ppm"]) == (200, 2_000_000)
    for body in ({"order": 7}, {"order": 7, "price_multiplier_ppm": 1}, {"is_retired": True}):
        assert finance.patch(path, body, If_Match='"v2"').status_code == 403
    assert finance.patch(path, {}, If_Match='"v2"').status_code == 403
    assert finance.post("priority-classes", DEADLINE).status_code == 403
    assert finance.delete(path, If_Match='"v2"').status_code == 403
    assert lead.patch(path, {"price_multiplier_ppm": 1}, If_Match='"v2"').status_code == 403
    assert PriorityClass.objects.get(name="normal").version == 2
    event = AuditEvent.objects.latest("id")
    assert (event.actor, event.detail) == (
        "finance@ai-company",
        {"name": "normal", "price_multiplier_ppm": 2_000_000},
    )
    quotas_only = by_token(cast.alice, ("quotas",))
    assert quotas_only.post("priority-classes", DEADLINE).status_code == 403
    at_price = {**DEADLINE, "price_multiplier_ppm": 1_000_000}
    assert quotas_only.post("priority-classes", at_price).status_code == 201


def test_a_retired_class_takes_no_new_jobs_and_keeps_those_it_has(
    company: Company, cast: Cast, alice: Caller
) -> None:
    """Planted: left out of the snapshot, so that its jobs had no class; offered to new jobs."""
    alice.post("priority-classes", DEADLINE)
    path, bob = path_of("deadline"), by_token(cast.bob)
    body = a_body(pool="h100", priority_class="deadline")
    waiting = bob.post("jobs", body).json()
    retired = alice.patch(path, {"is_retired": True}, If_Match='"v1"')
    assert (retired.status_code, retired.json()["is_retired"]) == (200, True)
    assert retired.json()["id"] in {one.id for one in quota_snapshot().priority_classes}
    assert bob.get(f"jobs/{waiting['id']}").json()["priority_class"] == "deadline"
    refused = bob.post("jobs", body)
    assert (refused.status_code, refused.json()["errors"][0]["detail"]) == (
        400,
        "there is no priority class 'deadline'; there are normal",
    )
    assert alice.patch(path, {"is_retired": False}, If_Match='"v2"').status_code == 200
    assert bob.post("jobs", body).status_code == 201


def test_jobs_that_name_no_class_keep_theirs(company: Company, alice: Caller) -> None:
    """Planted: the default class could be retired, and then no plain submission worked."""
    path = path_of("normal")
    for refused in (
        alice.patch(path, {"is_retired": True}, If_Match='"v1"'),
        alice.delete(path, If_Match='"v1"'),
    ):
        assert (refused.status_code, refused.json()["detail"]) == (
            409,
            "normal is the class of jobs that name none, so it must stay.",
        )


def test_the_last_class_that_takes_jobs_stays(company: Company, alice: Caller) -> None:
    PriorityClass.objects.update(name="only")
    path = path_of("only")
    refused = alice.patch(path, {"is_retired": True}, If_Match='"v1"')
    assert (refused.status_code, "only class that accepts jobs" in refused.json()["detail"]) == (
        409,
        True,
    )
    assert alice.delete(path, If_Match='"v1"').status_code == 409
    assert not PriorityClass.objects.get().is_retired


def test_jobs_given_to_a_cluster_itself_are_of_no_retired_class(company: Company) -> None:
    organization = company.organization
    PriorityClass.objects.update(name="old", is_retired=True)
    low = a_priority_class(organization, "spare")
    assert _default_classes([organization.pk]) == {organization.pk: low}


def test_a_class_that_no_job_was_of_is_removed(company: Company, cast: Cast, alice: Caller) -> None:
    alice.post("priority-classes", DEADLINE)
    path = path_of("deadline")
    assert alice.delete(path).status_code == 428
    stale = alice.delete(path, If_Match='"v2"')
    assert (stale.status_code, stale.json()["current"]["name"]) == (412, "deadline")
    assert by_token(cast.charlie).delete(path, If_Match='"v1"').status_code == 404
    assert by_token(cast.nlp_lead).delete(path, If_Match='"v1"').status_code == 403
    assert alice.delete(path, If_Match='"v1"').status_code == 204
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.detail) == ("priority_class.removed", {"name": "deadline"})
    assert alice.delete(path, If_Match='"v1"').status_code == 404
    assert alice.post("priority-classes", DEADLINE).status_code == 201


def test_a_class_that_jobs_were_of_stays_known(company: Company, cast: Cast, alice: Caller) -> None:
    """Planted: only jobs that have not ended were asked for."""
    used = a_priority_class(company.organization, "deadline")
    a_job(company, cast.bob, state="succeeded", priority_class=used)
    refused = alice.delete(path_of("deadline"), If_Match='"v1"')
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "Jobs use or used the class deadline, so it cannot be removed. Retire it instead "
        "(is_retired): it then accepts no new jobs, and its present jobs continue.",
    )
    assert alice.get(path_of("deadline")).status_code == 200
    assert not AuditEvent.objects.filter(action="priority_class.removed").exists()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"order": -1}, "order_is_sane"),
        ({"order": 1_000_001}, "order_is_sane"),
        ({"grace_period_s": 86_401}, "grace_is_at_most_a_day"),
        ({"price_multiplier_ppm": 100_000_001}, "price_is_at_most_hundredfold"),
        ({"use_factor_percent": 1_001}, "use_counts_at_most_tenfold"),
    ],
)
def test_the_database_refuses_what_means_nothing(
    company: Company, change: dict[str, int], name: str
) -> None:
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        PriorityClass.objects.update(**change)
