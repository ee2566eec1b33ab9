"""Caps for the users of a team, over REST and in the database."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.portal_builders import Company, a_company
from quotas.models import UserCap

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def a_new_cap(**changes: Any) -> dict[str, Any]:
    return {"team": "ai-company/research/nlp", "cap_mgpu": 8_000, **changes}


def test_a_lead_sets_changes_and_removes_a_cap(company: Company, cast: Cast) -> None:
    """Members see it, and the audit log has all three. Against: a change of an old version."""
    lead = by_token(cast.nlp_lead)
    made = lead.post("user-caps", a_new_cap(user="bob", pool="h100"))
    assert made.status_code == 201, made.content
    cap = made.json()
    identity = cap.pop("id")
    assert cap == {
        "team": "ai-company/research/nlp",
        "user": "bob",
        "pool": "h100",
        "cap_mgpu": 8_000,
        "can_edit": True,
        "version": 1,
    }
    path = f"user-caps/{identity}"
    changed = lead.patch(path, {"cap_mgpu": None}, if_match='"v1"')
    assert (changed.status_code, changed.json()["cap_mgpu"]) == (200, None)
    stale = lead.patch(path, {"cap_mgpu": 1}, if_match='"v1"')
    assert (stale.status_code, stale.json()["current"]["version"]) == (412, 2)
    seen = by_token(cast.bob).get("user-caps?team=ai-company/research/nlp").json()["items"]
    assert [(one["user"], one["can_edit"]) for one in seen] == [("bob", False)]
    assert lead.delete(path, if_match='"v2"').status_code == 204
    actions = AuditEvent.objects.filter(subject_kind="user_cap").order_by("id")
    assert list(actions.values_list("action", flat=True)) == [
        "user_cap.created",
        "user_cap.changed",
        "user_cap.removed",
    ]


@pytest.mark.parametrize(
    ("changes", "status", "sentence"),
    [
        ({"team": "ai-company/research"}, 403, None),
        ({"cap_mgpu": None}, 400, "The default for each user needs cap_mgpu; to have none, "),
        ({"user": "nobody"}, 400, "There is no user 'nobody' in ai-company."),
        ({"pool": "h1"}, 400, None),
        ({"cap_mgpu": -1}, 400, None),
    ],
)
def test_what_cannot_be_is_refused(
    company: Company, cast: Cast, changes: dict[str, Any], status: int, sentence: str | None
) -> None:
    """With a sentence, and nothing is stored. Against: a cap of a department."""
    answer = by_token(cast.nlp_lead).post("user-caps", a_new_cap(**changes))
    assert answer.status_code == status, answer.content
    if sentence is not None:
        assert answer.json()["detail"].startswith(sentence)
    assert not UserCap.objects.exists()


def test_a_second_cap_of_the_same_users_is_refused(company: Company, cast: Cast) -> None:
    """Nulls are equal here. Against: both are stored."""
    lead = by_token(cast.nlp_lead)
    assert lead.post("user-caps", a_new_cap()).status_code == 201
    second = lead.post("user-caps", a_new_cap())
    assert (second.status_code, second.json()["detail"]) == (
        409,
        "There is a cap for each user in all pools already. Change that one.",
    )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"cap_mgpu": -1, "pool": "pool"}, "user_cap_is_a_number_of_gpus"),
        ({"cap_mgpu": None, "pool": "pool"}, "user_cap_is_a_number_of_gpus"),
        ({"team": "research"}, "a cap is of a team and of a user"),
        ({"user": "charlie"}, "a cap is of a team and of a user"),
        ({}, "user_cap_once_for_user_and_pool"),
    ],
)
def test_the_database_keeps_the_rules(
    company: Company, cast: Cast, changes: dict[str, Any], name: str
) -> None:
    """Planted: a default without a number, which a comparison with NULL let pass."""
    UserCap.objects.create(team=company.nlp, cap_mgpu=1)
    values = {"team": "nlp", "cap_mgpu": 1, **changes}
    values["team"] = getattr(company, values["team"])
    if "pool" in values:
        values["pool"] = company.pool
    if "user" in values:
        values["user"] = getattr(cast, values["user"])
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        UserCap.objects.create(**values)
