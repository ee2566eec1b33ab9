"""People and service accounts over REST."""

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import a_token, by_session, by_token, with_secret
from builders.cast import a_cast
from builders.portal_builders import NOW, a_grant, a_user
from primitives.errors import Conflict
from tenants.access import actor_of
from tenants.membership import change_user
from tenants.models import AccessToken, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def a_person(**changes: Any) -> dict[str, Any]:
    return {
        "organization": "ai-company",
        "username": "erin",
        "name": "Erin",
        "kind": "person",
        **changes,
    }


def logins(answer: Any) -> list[str]:
    assert answer.status_code == 200
    return [item["login"] for item in answer.json()["items"]]


def test_an_organization_admin_makes_a_person() -> None:
    cast = a_cast()
    answer = by_token(cast.alice).post("users", a_person(password=PASSWORD))
    assert answer.status_code == 201
    user = User.objects.get(username="erin")
    body = answer.json()
    assert body.pop("created_at").endswith("Z")
    assert body == {
        "id": str(user.pk),
        "login": "erin@ai-company",
        "username": "erin",
        "name": "Erin",
        "kind": "person",
        "organization": "ai-company",
        "email": "",
        "is_active": True,
        "must_change_password": True,
    }
    assert user.check_password(PASSWORD)
    assert user.grants.count() == 0
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.node_path, event.request_id) == (
        "user_created",
        "alice@ai-company",
        "ai-company/",
        answer["X-Request-ID"],
    )
    assert event.detail == {"login": "erin@ai-company", "name": "Erin", "kind": "person"}


def test_a_service_account_has_no_password() -> None:
    cast = a_cast()
    caller = by_token(cast.alice)
    answer = caller.post("users", a_person(kind="service", password=PASSWORD))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/password"
    assert caller.post("users", a_person(kind="service")).status_code == 201
    assert not User.objects.get(username="erin").has_usable_password()


@pytest.mark.parametrize("password", ["", "short", "password1234567"[:8], "x" * 1025])
def test_a_weak_password_is_refused(password: str) -> None:
    cast = a_cast()
    answer = by_token(cast.alice).post("users", a_person(password=password))
    assert answer.status_code == 400
    assert not User.objects.filter(username="erin").exists()


def test_the_same_user_name_in_two_organizations_is_two_people() -> None:
    cast = a_cast()
    assert by_token(cast.alice).post("users", a_person()).status_code == 201
    answer = by_token(cast.charlie).post("users", a_person(organization="rival-lab"))
    assert answer.status_code == 201
    assert answer.json()["login"] == "erin@rival-lab"
    assert by_token(cast.alice).post("users", a_person()).status_code == 409


def test_only_who_manages_the_whole_organization_makes_users() -> None:
    cast = a_cast()
    for user in (cast.research_admin, cast.nlp_lead, cast.bob, cast.finance, cast.auditor):
        assert by_token(user).post("users", a_person()).status_code == 403
    for organization in ("ai-company", "absent"):
        answer = by_token(cast.charlie).post("users", a_person(organization=organization))
        assert answer.status_code == 404
    assert by_token(cast.alice, ["read", "jobs"]).post("users", a_person()).status_code == 403
    assert not User.objects.filter(username="erin").exists()


def test_users_of_the_platform_are_for_platform_admins() -> None:
    cast = a_cast()
    assert by_token(cast.alice).post("users", a_person(organization=None)).status_code == 403
    answer = by_token(cast.root).post("users", a_person(organization=None))
    assert answer.status_code == 201
    assert (answer.json()["login"], answer.json()["organization"]) == ("erin", None)
    user_id = answer.json()["id"]
    for user in (cast.alice, cast.bob, cast.charlie):
        assert by_token(user).get(f"users/{user_id}").status_code == 404
        assert by_token(user).patch(f"users/{user_id}", {"is_active": False}).status_code == 404


def test_an_organization_is_named_by_slug_not_by_path() -> None:
    cast = a_cast()
    for organization in ("ai-company/research", "ai-company/", "", "../ai-company"):
        answer = by_token(cast.alice).post("users", a_person(organization=organization))
        assert answer.status_code == 400


def test_who_sees_whom() -> None:
    cast = a_cast()
    everybody = sorted(
        User.objects.filter(organization=cast.organization).values_list("login", flat=True)
    )
    assert len(everybody) == 9
    for user in (cast.alice, cast.research_admin, cast.nlp_lead, cast.auditor):
        assert sorted(logins(by_token(user).get("users"))) == everybody
    for user in (cast.bob, cast.finance, cast.service, cast.dave, cast.charlie):
        assert logins(by_token(user).get("users")) == [user.login]
        others = cast.alice.pk if user is not cast.alice else cast.bob.pk
        assert by_token(user).get(f"users/{others}").status_code == 404
        assert by_token(user).get(f"users/{user.pk}").json()["login"] == user.login
    assert len(logins(by_token(cast.root).get("users"))) == User.objects.count() == 11
    assert logins(by_token(cast.root).get("users?organization=rival-lab")) == ["charlie@rival-lab"]
    assert logins(by_token(cast.alice).get("users?organization=rival-lab")) == []


def test_charlie_touches_nobody_of_alices() -> None:
    cast = a_cast()
    before = list(User.objects.order_by("pk").values())
    for user in (cast.alice, cast.bob, cast.root):
        for body in ({"is_active": False}, {"name": "Mine"}):
            assert by_token(cast.charlie).patch(f"users/{user.pk}", body).status_code == 404
    assert list(User.objects.order_by("pk").values()) == before


def test_seeing_users_is_not_changing_them() -> None:
    cast = a_cast()
    for user in (cast.research_admin, cast.nlp_lead, cast.auditor):
        answer = by_token(user).patch(f"users/{cast.bob.pk}", {"is_active": False})
        assert answer.status_code == 403
    assert by_token(cast.bob).patch(f"users/{cast.bob.pk}", {"name": "B"}).status_code == 403
    bob = User.objects.get(pk=cast.bob.pk)
    assert (bob.name, bob.is_active) == ("Bob", True)


def test_deactivation_ends_tokens_and_sessions_for_good() -> None:
    cast = a_cast()
    session = by_session(cast.bob)
    token, secret = a_token(cast.bob)
    alice = by_token(cast.alice)
    assert alice.patch(f"users/{cast.bob.pk}", {"is_active": False}).json()["is_active"] is False
    assert session.get("session").status_code == 401
    assert with_secret(secret).get("session").status_code == 401
    assert AccessToken.objects.get(pk=token.pk).revoked_at is not None
    assert alice.patch(f"users/{cast.bob.pk}", {"is_active": True}).json()["is_active"] is True
    assert session.get("session").status_code == 401
    assert with_secret(secret).get("session").status_code == 401
    assert by_session(cast.bob).get("session").status_code == 200
    assert list(AuditEvent.objects.order_by("id").values_list("action", flat=True)) == [
        "user_deactivated",
        "user_reactivated",
    ]


def test_deactivating_again_changes_nothing() -> None:
    cast = a_cast()
    alice = by_token(cast.alice)
    for _ in range(2):
        assert alice.patch(f"users/{cast.bob.pk}", {"is_active": False}).status_code == 200
    assert AuditEvent.objects.count() == 1
    assert User.objects.get(pk=cast.bob.pk).session_generation == 1


def test_nobody_deactivates_themselves_and_the_last_platform_admin_stays() -> None:
    cast = a_cast()
    for user in (cast.alice, cast.root):
        answer = by_token(user).patch(f"users/{user.pk}", {"is_active": False})
        assert answer.status_code == 409
    second = a_user(None, "second")
    a_grant(second, Role.PLATFORM_ADMIN, None)
    # An actor whose own account was deactivated in the meantime leaves one active admin.
    actor = actor_of(second)
    User.objects.filter(pk=second.pk).update(is_active=False)
    with pytest.raises(Conflict):
        change_user(actor=actor, user_id=cast.root.pk, is_active=False, now=NOW)
    User.objects.filter(pk=second.pk).update(is_active=True)
    assert by_token(second).patch(f"users/{cast.root.pk}", {"is_active": False}).status_code == 200


def test_a_rename_is_kept_with_before_and_after() -> None:
    cast = a_cast()
    answer = by_token(cast.alice).patch(f"users/{cast.bob.pk}", {"name": "Robert"})
    assert answer.json()["name"] == "Robert"
    assert AuditEvent.objects.get().detail == {
        "login": "bob@ai-company",
        "name": {"before": "Bob", "after": "Robert"},
    }


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"is_active": "false"},
        {"is_active": 0},
        {"is_active": None},
        {"name": None},
        {"name": ""},
        {"name": 5},
        {"login": "root"},
        {"organization": "rival-lab"},
        {"kind": "service"},
        {"password": PASSWORD},
    ],
)
def test_other_changes_are_refused(body: Any) -> None:
    cast = a_cast()
    before = User.objects.filter(pk=cast.bob.pk).values().get()
    assert by_token(cast.alice).patch(f"users/{cast.bob.pk}", body).status_code == 400
    assert User.objects.filter(pk=cast.bob.pk).values().get() == before


def test_the_last_administrator_of_an_organization_stays() -> None:
    """Planted: administrators elsewhere, or deactivated ones, counted as others."""
    cast = a_cast()
    other = a_user(cast.organization, "other")
    a_grant(other, Role.ORGANIZATION_ADMIN, cast.organization)
    root = by_token(cast.root)
    assert root.patch(f"users/{other.pk}", {"is_active": False}).status_code == 200
    for answer in (
        root.patch(f"users/{cast.alice.pk}", {"is_active": False}),
        root.post(f"users/{cast.alice.pk}/deactivate", {}),
        root.delete(f"users/{cast.alice.pk}"),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (
            409,
            "This is the last administrator of ai-company; make another one first.",
        )
    assert root.patch(f"users/{other.pk}", {"is_active": True}).status_code == 200
    assert root.post(f"users/{cast.alice.pk}/deactivate", {}).status_code == 200


def test_the_email_address_of_a_user_with_more_rights_is_not_changed() -> None:
    """The address leads to the account at a first sign-in. Planted: manage_members is enough."""
    cast = a_cast()
    lead = a_user(cast.organization, "people")
    a_grant(lead, Role.TEAM_LEAD, cast.organization)
    caller, path = by_token(lead), f"users/{cast.alice.pk}"
    answer = caller.patch(path, {"email": "attacker@example.org"})
    assert (answer.status_code, answer.json()["detail"]) == (
        403,
        "You do not manage alice@ai-company. You need the right manage_members on ai-company, and "
        "every right that the account has.",
    )
    assert User.objects.get(pk=cast.alice.pk).email == ""
    assert caller.patch(f"users/{lead.pk}", {"email": "own@example.org"}).status_code == 200
    assert caller.patch(f"users/{cast.bob.pk}", {"email": "bob@example.org"}).status_code == 200


def test_nobody_deactivates_or_deletes_themself() -> None:
    cast = a_cast()
    second = a_user(cast.organization, "second")
    a_grant(second, Role.ORGANIZATION_ADMIN, cast.organization)
    caller, path = by_session(second), f"users/{second.pk}"
    answer = caller.post(f"{path}/deactivate", {})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "You cannot deactivate yourself; ask another administrator.",
    )
    assert caller.delete(path).json()["detail"] == (
        "You cannot delete yourself; ask another administrator."
    )


def test_an_account_that_was_never_used_is_deleted_with_its_roles() -> None:
    """Planted: sign-ins not asked about; tokens left out of what counts as use."""
    cast = a_cast()
    erin = a_user(cast.organization, "erin")
    a_grant(erin, Role.RESEARCHER, cast.nlp)
    alice = by_session(cast.alice)
    assert alice.delete(f"users/{erin.pk}").status_code == 204
    assert not User.objects.filter(pk=erin.pk).exists()
    event = AuditEvent.objects.get(action="user_deleted")
    assert (event.actor, event.subject_id, event.node_path, event.detail) == (
        "alice@ai-company",
        str(erin.pk),
        "ai-company/",
        {"login": "erin@ai-company"},
    )

    a_token(cast.bob)
    answer = alice.delete(f"users/{cast.bob.pk}")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "bob@ai-company has access tokens, so deletion is not possible. Deactivate the "
        "account instead.",
    )
    assert cast.bob.grants.count() == 1
    User.objects.filter(pk=cast.dave.pk).update(last_login=NOW)
    assert alice.delete(f"users/{cast.dave.pk}").json()["detail"] == (
        "dave@ai-company has signed in, so deletion is not possible. Deactivate the "
        "account instead."
    )
