"""The list of organizations for administrators of the platform."""

from __future__ import annotations

from typing import Any

import pytest

from billing.models import RateCard
from builders.api_callers import by_token
from builders.job_builders import a_job
from builders.portal_builders import (
    NOW,
    a_company,
    a_pool,
    a_quota,
    a_user,
    an_actor,
    an_organization,
)
from quotas.models import OrganizationPolicy
from tenants.models import Node, User, UserKind
from tenants.roles import Role

pytestmark = pytest.mark.django_db


def test_each_organization_has_its_settings_and_counts() -> None:
    """Planted: jobs of a sibling counted; deactivated people and archived teams counted."""
    company, second = a_company("blue"), an_organization("green")
    first = company.organization
    Node.objects.filter(pk=company.nlp.pk).update(archived_at=NOW)
    a_quota(first, a_pool("cpu", device="cpu"), 8)
    ana = a_user(first)
    User.objects.filter(pk=a_user(first).pk).update(is_active=False)
    User.objects.filter(pk=a_user(first).pk).update(kind=UserKind.SERVICE)
    a_job(company, ana, team=company.vision)
    a_job(company, ana, team=company.vision, state="succeeded")
    RateCard.objects.create(organization=first, currency="EUR")
    OrganizationPolicy.objects.update_or_create(
        organization=first, defaults={"time_zone": "Europe/Lisbon"}
    )
    admin = by_token(an_actor(None, Role.PLATFORM_ADMIN).user)

    found = {item["slug"]: item for item in admin.get("organizations/summaries").json()["items"]}

    blue = found["blue"]
    assert [blue[name] for name in ("time_zone", "currency", "people", "teams")] == [
        "Europe/Lisbon",
        "EUR",
        1,
        2,
    ]
    assert (blue["jobs_running"], blue["jobs_waiting"]) == (0, 1)
    assert blue["guarantees"] == [
        {"pool": "cpu", "device": "cpu", "guaranteed_mgpu": 8_000},
        {"pool": "h100", "device": "gpu", "guaranteed_mgpu": 32_000},
    ]
    assert (blue["path"], blue["archived_at"]) == ("blue", None)
    green = found["green"]
    assert green["slug"] == second.slug
    assert [green[name] for name in ("time_zone", "currency", "people", "teams")] == [
        "UTC",
        "",
        0,
        0,
    ]


def test_the_list_has_pages_and_takes_the_same_queries(django_assert_num_queries: Any) -> None:
    """Token with grants; the page; zones, currencies, people, teams, jobs and quotas."""
    for number in range(5):
        an_organization(f"org-{number}")
    admin = by_token(an_actor(None, Role.PLATFORM_ADMIN).user)
    admin.get("organizations/summaries")  # marks the token as used
    with django_assert_num_queries(8):
        first = admin.get("organizations/summaries?limit=2").json()
    rest = admin.get("organizations/summaries?" + first["next"].partition("?")[2]).json()
    slugs = [item["slug"] for item in (*first["items"], *rest["items"])]
    assert slugs == ["org-0", "org-1", "org-2", "org-3"]


def test_only_platform_administrators_list_them() -> None:
    organization = an_organization()
    someone = by_token(an_actor(organization, Role.ORGANIZATION_ADMIN).user)
    assert someone.get("organizations/summaries").status_code == 403
