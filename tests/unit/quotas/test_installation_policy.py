"""The policy of the installation over REST, in the database, and as the arbiter takes it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from arbiter.api.policy import Policy
from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.hints import hints_told
from builders.portal_builders import a_company, a_grant, a_user, an_actor
from quotas.installation import arbiter_policy
from quotas.models import INSTALLATION_RANGES, InstallationPolicy
from tenants.roles import Role

pytestmark = pytest.mark.django_db

STANDARD = {
    "grace_period_s_max": 3_600,
    "starts_max": 1_000,
    "reclaims_max": 100,
    "claim_overdue_s": 600,
    "credit_floor_s": 604_800,
    "reservations_max": 8,
    "reservation_horizon_s": 604_800,
    "min_run_s": 600,
    "preemptions_max": 100,
    "costly_loss_s": 14_400,
}


@pytest.fixture
def root() -> Caller:
    user = a_user(None, "root")
    a_grant(user, Role.PLATFORM_ADMIN, None)
    return by_token(user)


def test_everybodys_open_pages_are_told_of_a_change(root: Caller) -> None:
    """Planted: told by nobody, so that a page showed the policy before until it was loaded anew."""
    with hints_told() as hints:
        assert root.patch("policy", {"starts_max": 7}, If_Match='"v1"').status_code == 200
    assert hints == [{"topic": "quotas", "ids": [], "to": "everybody"}]


def test_it_is_read_and_changed_field_by_field(root: Caller) -> None:
    read = root.get("policy")
    assert (read.status_code, read.headers["ETag"]) == (200, '"v1"')
    assert read.json() == {**STANDARD, "version": 1}
    changes = {name: value + 1 for name, value in STANDARD.items()}
    for number, (name, value) in enumerate(changes.items(), 1):
        changed = root.patch("policy", {name: value}, If_Match=f'"v{number}"')
        assert (changed.status_code, changed.json()[name]) == (200, value)
        assert changed.headers["ETag"] == f'"v{number + 1}"'
        event = AuditEvent.objects.latest("id")
        assert (event.action, event.detail) == ("installation_policy.changed", {name: value})
        assert (event.organization_id, event.actor) == (None, "root")
    assert root.get("policy").json() == {**changes, "version": 11}
    # What is so already is no change.
    assert root.patch("policy", {"starts_max": 1_001}, If_Match='"v11"').json()["version"] == 11
    assert AuditEvent.objects.filter(action="installation_policy.changed").count() == 10


def test_the_arbiter_takes_every_number_of_it() -> None:
    """Mutant: `preemptions_max` was left out of `arbiter_policy`."""
    values = {name: low + 1 for name, (low, _) in INSTALLATION_RANGES.items()}
    InstallationPolicy.objects.create(pk=1, **values)
    assert arbiter_policy() == Policy(
        grace_period_s_default=1,
        starts_max=2,
        reclaims_max=2,
        claim_overdue_s=1,
        credit_floor_s=1,
        reservations_max=1,
        reservation_horizon_s=1,
        min_run_s=1,
        preemptions_max=2,
        costly_loss_s=1,
    )


def test_without_a_row_the_standard_holds() -> None:
    assert arbiter_policy() == Policy(grace_period_s_default=3_600)


@pytest.mark.parametrize("name", INSTALLATION_RANGES)
def test_what_is_out_of_range_is_refused_here_and_by_the_database(root: Caller, name: str) -> None:
    low, high = INSTALLATION_RANGES[name]
    values: tuple[Any, ...] = (low - 1, high + 1, str(low), None, True, 1.5)
    for value in values:
        refused = root.patch("policy", {name: value}, If_Match='"v1"')
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, f"/{name}")
    assert root.patch("policy", {name: low}, If_Match='"v1"').json()[name] == low
    assert root.patch("policy", {name: high}, If_Match='"v2"').json()[name] == high
    with pytest.raises(IntegrityError, match="is_in_range"), transaction.atomic():
        InstallationPolicy.objects.update(**{name: high + 1})


def test_there_is_one_row() -> None:
    with pytest.raises(IntegrityError, match="installation_has_one_policy"), transaction.atomic():
        InstallationPolicy.objects.create(pk=2)


def test_a_change_names_what_it_is_based_on(root: Caller) -> None:
    assert root.patch("policy", {"min_run_s": 1}).status_code == 428
    assert root.patch("policy", {"min_run_s": 1}, If_Match='"v1"').status_code == 200
    stale = root.patch("policy", {"min_run_s": 2}, If_Match='"v1"')
    assert (stale.status_code, stale.json()["current"]) == (412, root.get("policy").json())
    assert stale.json()["current"]["min_run_s"] == 1


def test_an_administrator_of_an_organization_reads_it_only() -> None:
    organization = a_company().organization
    admin = by_token(an_actor(organization, Role.ORGANIZATION_ADMIN).user)
    assert admin.get("policy").json() == {**STANDARD, "version": 1}
    assert admin.patch("policy", {"min_run_s": 1}, If_Match='"v1"').status_code == 403
    assert not InstallationPolicy.objects.exists()
