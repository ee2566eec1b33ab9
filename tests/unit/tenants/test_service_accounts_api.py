"""Service accounts: those who manage a node's members create and deactivate them."""

from __future__ import annotations

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.portal_builders import a_grant
from tenants import service_accounts
from tenants.models import RoleGrant, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def creates(cast: Cast, by: User | None = None, **body: Any) -> Any:
    address = f"tree/{cast.nlp.pk}/service-accounts"
    return by_token(by or cast.nlp_lead).post(address, {"username": "ci", **body})


def test_a_lead_creates_a_service_account_with_its_role(cast: Cast) -> None:
    """And without a password. Against: an account of the kind person."""
    made = creates(cast, name="CI of NLP", role_expires_at="2199-01-01T00:00:00Z")
    assert made.status_code == 201
    body = made.json()
    assert (body["user"], body["role"], body["node"], body["expires_at"]) == (
        "ci@ai-company",
        "service_account",
        "ai-company/research/nlp",
        "2199-01-01T00:00:00Z",
    )
    user = User.objects.get(login="ci@ai-company")
    assert (user.kind, user.name, user.has_usable_password()) == ("service", "CI of NLP", False)
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "actor", "node_path")) == [
        ("user_created", "nlp-lead@ai-company", "ai-company/research/nlp/"),
        ("role_granted", "nlp-lead@ai-company", "ai-company/research/nlp/"),
    ]
    token = {"name": "ci", "scopes": ["jobs"], "expires_in_days": 30, "user": "ci@ai-company"}
    assert by_token(cast.nlp_lead).post("tokens", token).status_code == 201


def test_refusals_leave_nothing(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: no limit; an account that stays although its role is refused."""
    assert creates(cast, cast.bob).status_code == 403
    assert creates(cast, cast.charlie).status_code == 404
    assert creates(cast, username="bob").json()["errors"][0]["pointer"] == "/username"
    assert creates(cast, role_expires_at="2001-01-01T00:00:00Z").status_code == 400
    monkeypatch.setattr(service_accounts, "ACCOUNTS_MAX", 1)
    assert creates(cast).status_code == 409
    assert not User.objects.filter(username="ci").exists()


def test_those_who_manage_it_deactivate_it(cast: Cast) -> None:
    """Against: a lead who deactivates an account with roles elsewhere."""
    address = f"users/{cast.service.pk}/deactivate"
    assert by_token(cast.bob).post(address, {}).status_code == 404
    grant = a_grant(cast.service, Role.SERVICE_ACCOUNT, cast.inference)
    assert by_token(cast.nlp_lead).post(address, {}).status_code == 403
    RoleGrant.objects.filter(pk=grant.pk).delete()
    assert by_token(cast.nlp_lead).post(address, {}).status_code == 200
    assert not User.objects.get(pk=cast.service.pk).is_active
    person = f"users/{cast.bob.pk}/deactivate"
    assert by_token(cast.nlp_lead).post(person, {}).status_code == 403
