"""An organization's policy and priority classes over REST, and as the arbiter sees them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import TreeNode
from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.hints import hints_told
from builders.portal_builders import a_company, a_priority_class, an_actor, an_organization
from quotas.models import OrganizationPolicy, PriorityClass
from quotas.queries import quota_snapshot
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db


def admin_of(node: Node) -> Caller:
    return by_token(an_actor(node, Role.ORGANIZATION_ADMIN).user)


def test_a_policy_is_read_and_changed_field_by_field() -> None:
    company = a_company()
    admin = admin_of(company.organization)
    path = f"organizations/{company.organization.pk}/policy"

    read = admin.get(path)
    assert (read.status_code, read.headers["ETag"]) == (200, '"v1"')
    assert read.json() == {
        "organization": "ai-company",
        "rank": ["ai-company/production", "ai-company/research"],
        "grace_period_s": 300,
        "fair_share_half_life_s": 604_800,
        "spare_order": "credits_then_fair_share",
        "min_run_s": Policy().min_run_s,
        "preemptions_max": Policy().preemptions_max,
        "skips_blocked_within_team": True,
        "time_zone": "UTC",
        "version": 1,
    }
    values: dict[str, Any] = {
        "rank": ["ai-company/research"],
        "grace_period_s": 120,
        "fair_share_half_life_s": 3_600,
        "spare_order": "fair_share",
        "min_run_s": 60,
        "preemptions_max": 3,
        "skips_blocked_within_team": False,
        "time_zone": "Asia/Kolkata",
    }
    for number, (name, value) in enumerate(values.items(), 1):
        changed = admin.patch(path, {name: value}, If_Match=f'"v{number}"')
        assert (changed.status_code, changed.json()[name]) == (200, value)
        assert changed.json()["version"] == number + 1
        event = AuditEvent.objects.latest("id")
        assert (event.action, event.detail) == ("policy.changed", {name: value})
    assert admin.patch(path, {"min_run_s": 60}, If_Match='"v9"').json()["version"] == 9
    (top,) = [node for node in quota_snapshot().nodes if node.parent is None]
    assert top == TreeNode(
        str(company.organization.pk), None, 0, 3_600, SpareOrder.FAIR_SHARE, 60, 3, False
    )


def test_open_pages_of_the_organization_are_told_of_a_change_and_of_nothing_else() -> None:
    """Planted: told by nobody; told to other organizations; told though nothing changed."""
    company = a_company()
    admin = admin_of(company.organization)
    path = f"organizations/{company.organization.pk}/policy"
    told = {"topic": "quotas", "ids": [], "to": str(company.organization.pk)}
    with hints_told() as hints:
        admin.patch(path, {"min_run_s": 60}, If_Match='"v1"')
    assert hints == [told]
    with hints_told() as hints:
        admin.patch(path, {"min_run_s": 60}, If_Match='"v2"')
    assert hints == []
    found = PriorityClass.objects.filter(organization=company.organization).first()
    assert found is not None
    with hints_told() as hints:
        changed = admin.patch(f"priority-classes/{found.pk}", {"description": "x"}, If_Match='"v1"')
    assert (changed.status_code, hints) == (200, [told])


@pytest.mark.parametrize(
    "body",
    [
        {"rank": ["ai-company/none"]},
        {"rank": ["ai-company/research", "ai-company/production", "ai-company/research"]},
        {"grace_period_s": 86_401},
        {"spare_order": "luck"},
        {"min_run_s": -1},
        {"min_run_s": 86_401},
        {"min_run_s": "60"},
        {"preemptions_max": 0},
        {"preemptions_max": 1_001},
        {"skips_blocked_within_team": 0},
        {"time_zone": "Moon/Base"},
        {"immune": True},
    ],
)
def test_a_policy_that_means_nothing_is_refused(body: dict[str, Any]) -> None:
    company = a_company()
    path = f"organizations/{company.organization.pk}/policy"
    answer = admin_of(company.organization).patch(path, body, If_Match='"v1"')
    assert answer.status_code == 400
    assert not OrganizationPolicy.objects.exclude(version=1).exists()


def test_a_change_names_what_it_is_based_on() -> None:
    company = a_company()
    admin = admin_of(company.organization)
    path = f"organizations/{company.organization.pk}/policy"
    assert admin.patch(path, {"min_run_s": 1}).status_code == 428
    assert admin.patch(path, {"min_run_s": 1}, If_Match='"v1"').status_code == 200
    stale = admin.patch(path, {"min_run_s": 2}, If_Match='"v1"')
    assert (stale.status_code, stale.json()["current"]) == (412, admin.get(path).json())
    assert stale.json()["current"]["min_run_s"] == 1


def test_a_class_is_changed_and_preempts_across_teams_only_with_a_cap() -> None:
    company = a_company()
    found = a_priority_class(company.organization, "critical")
    admin = admin_of(company.organization)
    path = f"priority-classes/{found.pk}"

    refused = admin.patch(path, {"preempts_across_teams": True}, If_Match='"v1"')
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (
        400,
        "/team_cap_mgpu",
    )
    both = {"preempts_across_teams": True, "team_cap_mgpu": 8_000}
    changed = admin.patch(path, both, If_Match='"v1"')
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"v2"')
    assert changed.json() == admin.get(path).json()
    assert (changed.json()["preempts_across_teams"], changed.json()["team_cap_mgpu"]) == (
        True,
        8_000,
    )
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.detail) == (
        "priority_class.changed",
        {"name": "critical", **both},
    )
    (seen,) = [cls for cls in quota_snapshot().priority_classes if cls.id == str(found.pk)]
    assert (seen.preempts_across_teams, seen.team_cap_mgpu) == (True, 8_000)
    assert admin.patch(path, {"team_cap_mgpu": None}, If_Match='"v2"').status_code == 400
    off = {"preempts_across_teams": False, "team_cap_mgpu": None}
    assert admin.patch(path, off, If_Match='"v2"').status_code == 200


def test_a_stranger_sees_nothing_and_changes_nothing() -> None:
    company = a_company()
    found = a_priority_class(company.organization, "critical")
    stranger = admin_of(an_organization("rival"))
    for path, body in (
        (f"organizations/{company.organization.pk}/policy", {"min_run_s": 1}),
        (f"priority-classes/{found.pk}", {"order": 1}),
    ):
        assert stranger.get(path).status_code == 404
        assert stranger.patch(path, body, If_Match='"v1"').status_code == 404
    assert PriorityClass.objects.get(pk=found.pk).order == found.order


def test_the_database_refuses_what_means_nothing() -> None:
    organization = a_company().organization
    OrganizationPolicy.objects.get_or_create(organization=organization)
    for change, name in (
        ({"spare_order": "luck"}, "policy_spare_order_is_known"),
        ({"min_run_s": 86_401}, "policy_spares_for_a_day_at_most"),
        ({"preemptions_max": 0}, "policy_spares_after_one_preemption_at_least"),
        ({"preemptions_max": 1_001}, "policy_spares_after_one_preemption_at_least"),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            OrganizationPolicy.objects.update(**change)
    a_priority_class(organization)
    with pytest.raises(IntegrityError, match="up_to_a_cap"), transaction.atomic():
        PriorityClass.objects.update(preempts_across_teams=True)
