"""Invitations: who invites whom, what the link does once, and when it does nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail

from audit.models import AuditEvent
from builders.api_callers import LONG_AGO, as_nobody, by_token
from builders.cast import Cast, a_cast
from tenants.models import Invitation, RoleGrant, User
from tenants.roles import Role
from tenants.signing_in import set_password_policy

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def invites(cast: Cast, by: User | None = None, **body: Any) -> Any:
    given = {"email": "Paul.Roy@example.org", "role": "researcher", **body}
    return by_token(by or cast.nlp_lead).post(f"tree/{cast.nlp.pk}/invitations", given)


def secret_of(answer: Any) -> str:
    return str(answer.json()["link"]).partition("#")[2]


def accepts(secret: str, password: str = PASSWORD) -> Any:
    return as_nobody().post("password-links/use", {"secret": secret, "password": password})


def test_a_lead_invites_a_person_who_gets_account_and_role(cast: Cast) -> None:
    """Once, with the username of the address. Against: a link that works twice."""
    made = invites(cast, role_expires_at="2199-01-01T00:00:00Z")
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    assert made.json()["username"] == "paul.roy"
    assert made.json()["invited_by"] == "nlp-lead@ai-company"
    accepted = accepts(secret_of(made))
    assert (accepted.status_code, accepted.json()) == (200, {"login": "paul.roy@ai-company"})
    user = User.objects.get(login="paul.roy@ai-company")
    assert (user.email, user.check_password(PASSWORD)) == ("Paul.Roy@example.org", True)
    grant = RoleGrant.objects.get(user=user)
    assert (grant.role, grant.node, grant.granted_by) == ("researcher", cast.nlp, cast.nlp_lead)
    assert grant.expires_at is not None
    assert accepts(secret_of(made)).status_code == 404
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "actor")) == [
        ("invitation_made", "nlp-lead@ai-company"),
        ("invitation_accepted", "paul.roy@ai-company"),
    ]


def test_it_is_mailed_where_mail_is_configured(cast: Cast, settings: Any) -> None:
    """Against: the link is in the answer, too."""
    settings.IS_MAIL_CONFIGURED = True
    settings.PUBLIC_URL = "https://tidegate.example.org"
    made = invites(cast).json()
    assert (made["is_mailed"], made["link"]) == (True, None)
    (message,) = mail.outbox
    assert message.to == ["Paul.Roy@example.org"]
    assert "https://tidegate.example.org/set-password#tdi_" in message.body
    assert "Your login will be paul.roy@ai-company." in message.body


def test_nobody_invites_with_more_than_they_have(cast: Cast) -> None:
    """Nor as a service account or for the platform. Against: no check of the role."""
    assert invites(cast, role="department_admin").status_code == 403
    assert invites(cast, role="platform_admin").status_code == 400
    assert invites(cast, role="service_account").status_code == 400
    assert invites(cast, cast.bob).status_code == 403
    assert invites(cast, cast.charlie).status_code == 404
    assert invites(cast, email="no address").status_code == 400
    assert Invitation.objects.count() == 0


def test_a_known_address_or_username_is_refused(cast: Cast) -> None:
    """The sentence says which login to use. Against: an address in other letters."""
    User.objects.filter(pk=cast.dave.pk).update(email="paul.roy@EXAMPLE.org")
    known = invites(cast)
    assert (known.status_code, known.json()["detail"]) == (
        409,
        "dave@ai-company has this address already. Give the role to that login.",
    )
    assert invites(cast, email="x@example.org", username="bob").status_code == 409
    assert invites(cast, email="y@example.org").status_code == 201
    assert invites(cast, email="y@example.org").status_code == 409


def test_the_link_ends_with_its_time_and_is_renewed(cast: Cast) -> None:
    """The earlier link ends. Against: both work."""
    made = invites(cast)
    Invitation.objects.update(created_at=LONG_AGO, expires_at=LONG_AGO + timedelta(days=7))
    assert accepts(secret_of(made)).status_code == 404
    again = by_token(cast.research_admin).post(f"invitations/{made.json()['id']}/resend", None)
    assert (again.status_code, again.json()["invited_by"]) == (200, "research-admin@ai-company")
    assert accepts(secret_of(made)).status_code == 404
    assert accepts(secret_of(again), "short").status_code == 400
    assert accepts(secret_of(again)).status_code == 200


def test_a_withdrawn_invitation_does_nothing(cast: Cast) -> None:
    """The invitation leaves the list. Against: the link still works."""
    made = invites(cast)
    address = f"tree/{cast.nlp.pk}/invitations"
    assert len(by_token(cast.alice).get(address).json()["items"]) == 1
    gone = by_token(cast.nlp_lead).delete(f"invitations/{made.json()['id']}")
    assert gone.status_code == 204
    assert accepts(secret_of(made)).status_code == 404
    assert by_token(cast.alice).get(address).json()["items"] == []


def test_a_sender_without_the_right_invites_nobody(cast: Cast) -> None:
    """The right counts when the link is used. Against: the right at its creation."""
    made = invites(cast)
    RoleGrant.objects.filter(user=cast.nlp_lead).update(role=Role.RESEARCHER)
    assert accepts(secret_of(made)).status_code == 404
    assert not User.objects.filter(username="paul.roy").exists()


def test_nobody_is_invited_to_choose_a_password_where_passwords_are_off(cast: Cast) -> None:
    """An earlier link ends, too. Planted: the policy read at the sign-in only (200)."""
    made = invites(cast)
    set_password_policy(cast.organization, allows_passwords=False)
    refusal = "ai-company has switched passwords off. People sign in with its identity provider."
    for answer in (
        accepts(secret_of(made)),
        invites(cast, email="z@example.org"),
        by_token(cast.nlp_lead).post(f"invitations/{made.json()['id']}/resend", None),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (409, refusal)
    assert not User.objects.filter(username="paul.roy").exists()
