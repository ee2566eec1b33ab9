"""Sign-in with a real OpenID Connect provider, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_session, by_token
from builders.cast import Cast, a_cast
from builders.identity_builders import (
    PORTAL,
    a_group_mapping,
    a_stranger,
    an_identity_provider,
    begin,
    come_back,
)
from builders.oidc_provider import OidcProvider, an_oidc_provider
from builders.portal_builders import a_grant
from identity.models import ExternalIdentity, IdentityProvider
from tenants.models import PasswordLink, RoleGrant, User
from tenants.roles import Role
from tenants.sealing import seal

pytestmark = pytest.mark.django_db

CALLBACK = f"{PORTAL}/api/v1/session/callback/ai-company"


@pytest.fixture(scope="module")
def oidc() -> Iterator[OidcProvider]:
    """A real provider for the module."""
    with an_oidc_provider(CALLBACK) as running:
        yield running


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab."""
    return a_cast()


@pytest.fixture(autouse=True)
def allowed(settings: Any, oidc: OidcProvider) -> None:
    """The operator allows the provider on this machine."""
    settings.IDENTITY_ORIGINS = frozenset({oidc.issuer})


def a_provider(cast: Cast, oidc: OidcProvider, **values: Any) -> IdentityProvider:
    return an_identity_provider(cast.organization, oidc.issuer, **values)


def sign_in(oidc: OidcProvider, login: str, next_path: str = "/") -> tuple[Any, str]:
    """A browser after the sign-in of `login`, and where it was led."""
    browser = a_stranger()
    address = oidc.sign_in(begin(browser, next_path=next_path), login, until=CALLBACK)
    return browser, come_back(browser, address)


def grants_of(login: str) -> set[tuple[str, str, str]]:
    """Role, path and group of the person's grants."""
    return {
        (grant.role, grant.node.path, grant.group)
        for grant in RoleGrant.objects.select_related("node").filter(user__login=login)
    }


def maria(**claims: Any) -> dict[str, Any]:
    return {
        "maria": {
            "name": "Maria Silva",
            "email": "maria@example.org",
            "email_verified": True,
            **claims,
        }
    }


def test_a_new_person_lands_in_the_team_of_their_group(cast: Cast, oidc: OidcProvider) -> None:
    """Against: groups of the ID token only, which has none here."""
    a_provider(cast, oidc, creates_people=True)
    a_group_mapping(cast.nlp, "gpu-nlp")
    a_group_mapping(cast.inference, "gpu-inference")
    oidc.set_people(maria(groups=["gpu-nlp", "other"]))
    browser, landed = sign_in(oidc, "maria", "/quotas?node=ai-company")
    assert landed == "/quotas?node=ai-company"
    body = browser.get("session").json()
    assert body["user"]["login"] == "maria@ai-company"
    assert body["user"]["name"] == "Maria Silva"
    assert body["grants"] == [{"role": "researcher", "node_path": "ai-company/research/nlp"}]
    assert grants_of("maria@ai-company") == {("researcher", "ai-company/research/nlp/", "gpu-nlp")}
    user = User.objects.get(login="maria@ai-company")
    assert (user.email, user.has_usable_password()) == ("maria@example.org", False)
    assert [(event.action, event.actor) for event in AuditEvent.objects.order_by("pk")] == [
        ("user_created", "maria@ai-company"),
        ("identity_linked", "maria@ai-company"),
        ("role_granted", "maria@ai-company"),
        ("signed_in", "maria@ai-company"),
    ]


def test_a_role_of_a_group_follows_the_group_and_a_granted_one_stays(
    cast: Cast, oidc: OidcProvider
) -> None:
    """Planted: a renewal that also deletes grants by hand."""
    a_provider(cast, oidc, creates_people=True)
    a_group_mapping(cast.nlp, "gpu-nlp")
    a_group_mapping(cast.inference, "gpu-inference", Role.TEAM_LEAD)
    oidc.set_people(maria(groups=["gpu-nlp"]))
    sign_in(oidc, "maria")
    a_grant(User.objects.get(login="maria@ai-company"), Role.RESEARCHER, cast.nlp)
    oidc.set_people(maria(groups=["gpu-inference"]))
    sign_in(oidc, "maria")
    assert grants_of("maria@ai-company") == {
        ("researcher", "ai-company/research/nlp/", ""),
        ("team_lead", "ai-company/production/inference/", "gpu-inference"),
    }
    oidc.set_people(maria())
    sign_in(oidc, "maria")
    assert grants_of("maria@ai-company") == {("researcher", "ai-company/research/nlp/", "")}


def test_the_person_is_known_by_subject_whatever_the_name(cast: Cast, oidc: OidcProvider) -> None:
    """Against: a search by preferred_username, which a person can change."""
    a_provider(cast, oidc, creates_people=True)
    oidc.set_people(maria())
    sign_in(oidc, "maria")
    oidc.set_people(maria(preferred_username="alice", email="alice@example.org"))
    browser, _ = sign_in(oidc, "maria")
    assert browser.get("session").json()["user"]["login"] == "maria@ai-company"
    assert ExternalIdentity.objects.count() == 1


def test_a_taken_username_gets_a_number(cast: Cast, oidc: OidcProvider) -> None:
    """Against: the account alice, which belongs to somebody else."""
    a_provider(cast, oidc, creates_people=True)
    oidc.set_people(maria(preferred_username="Alice"))
    browser, _ = sign_in(oidc, "maria")
    assert browser.get("session").json()["user"]["login"] == "alice-2@ai-company"


def test_nobody_is_created_or_linked_unless_the_organization_says_so(
    cast: Cast, oidc: OidcProvider
) -> None:
    """Against: creates_people without a look at the row."""
    a_provider(cast, oidc)
    User.objects.filter(pk=cast.bob.pk).update(email="maria@example.org")
    oidc.set_people(maria())
    before = User.objects.count()
    browser, landed = sign_in(oidc, "maria")
    assert landed == "/login?refused=no_account"
    assert browser.get("session").status_code == 401
    assert (User.objects.count(), ExternalIdentity.objects.count()) == (before, 0)
    event = AuditEvent.objects.get(action="sign_in_failed")
    assert event.detail == {
        "provider": "Company login",
        "reason": "no_account",
        "why": "subject maria",
    }


def test_an_account_is_linked_by_verified_email_once(cast: Cast, oidc: OidcProvider) -> None:
    """Planted: the search without the exclusion of linked people: joe became bob, too."""
    a_provider(cast, oidc, links_by_email=True)
    User.objects.filter(pk=cast.bob.pk).update(email="Maria@Example.org")
    oidc.set_people({**maria(), "joe": maria()["maria"]})
    browser, _ = sign_in(oidc, "maria")
    assert browser.get("session").json()["user"]["login"] == "bob@ai-company"
    _, landed = sign_in(oidc, "joe")
    assert landed == "/login?refused=no_account"


@pytest.mark.parametrize("claims", [{"email_verified": False}, {"email_verified": "true"}])
def test_an_unverified_email_links_nobody(
    cast: Cast, oidc: OidcProvider, claims: dict[str, Any]
) -> None:
    """Planted: bool(email_verified), for which the text "true" is true."""
    a_provider(cast, oidc, links_by_email=True)
    User.objects.filter(pk=cast.bob.pk).update(email="maria@example.org")
    oidc.set_people(maria(**claims))
    assert sign_in(oidc, "maria")[1] == "/login?refused=no_account"


def test_the_email_of_another_organization_or_of_two_people_links_nobody(
    cast: Cast, oidc: OidcProvider
) -> None:
    """Against: a search over all organizations."""
    a_provider(cast, oidc, links_by_email=True)
    oidc.set_people(maria())
    User.objects.filter(pk=cast.charlie.pk).update(email="maria@example.org")
    assert sign_in(oidc, "maria")[1] == "/login?refused=no_account"
    User.objects.filter(pk__in=[cast.bob.pk, cast.dave.pk]).update(email="maria@example.org")
    assert sign_in(oidc, "maria")[1] == "/login?refused=no_account"


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_deactivated_person_stays_out(cast: Cast, oidc: OidcProvider, is_linked: bool) -> None:
    """Planted: a deactivated, unlinked person got a second account."""
    a_provider(cast, oidc, creates_people=True, links_by_email=is_linked)
    User.objects.filter(pk=cast.bob.pk).update(email="maria@example.org")
    oidc.set_people(maria())
    if is_linked:
        assert sign_in(oidc, "maria")[1] == "/"
    User.objects.filter(pk=cast.bob.pk).update(is_active=False)
    before = User.objects.count()
    browser, landed = sign_in(oidc, "maria")
    assert landed == "/login?refused=deactivated"
    assert browser.get("session").status_code == 401
    assert User.objects.count() == before


def test_an_initial_password_ends_when_its_owner_signs_in_without_it(
    cast: Cast, oidc: OidcProvider
) -> None:
    """Against: without it, the page asks for a password that the person never had."""
    a_provider(cast, oidc, links_by_email=True)
    cast.bob.set_password("chosen by an administrator")
    cast.bob.must_change_password = True
    cast.bob.email = "maria@example.org"
    cast.bob.save()
    oidc.set_people(maria())
    browser, _ = sign_in(oidc, "maria")
    assert browser.get("session").json()["user"]["must_change_password"] is False
    assert not User.objects.get(pk=cast.bob.pk).has_usable_password()


def test_what_others_prepared_ends_at_the_first_sign_in(cast: Cast, oidc: OidcProvider) -> None:
    """Password, link, token and session end, once. Planted: only a password to change ended."""
    a_provider(cast, oidc, links_by_email=True)
    cast.bob.set_password("known to somebody else")
    cast.bob.email = "maria@example.org"
    cast.bob.save()
    by_alice = by_token(cast.alice)
    assert by_alice.post(f"users/{cast.bob.pk}/password-link", None).status_code == 201
    prepared = (by_token(cast.bob), by_session(cast.bob))
    oidc.set_people(maria())
    browser, _ = sign_in(oidc, "maria")
    assert [caller.get("session").status_code for caller in (*prepared, browser)] == [401, 401, 200]
    assert not User.objects.get(pk=cast.bob.pk).has_usable_password()
    assert not PasswordLink.objects.exists()
    event = AuditEvent.objects.get(action="earlier_access_ended")
    assert event.detail == {"login": "bob@ai-company", "tokens": 1, "password_links": 1}
    own = by_token(cast.bob)
    sign_in(oidc, "maria")
    assert own.get("session").status_code == 200


def test_the_request_has_state_nonce_and_pkce(cast: Cast, oidc: OidcProvider) -> None:
    """Against: oauth_pkce_enabled left out; the provider refuses that, too."""
    a_provider(cast, oidc)
    query = parse_qs(urlsplit(begin(a_stranger())).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [CALLBACK]
    assert query["response_type"] == ["code"]
    assert sorted(query["scope"][0].split()) == ["email", "groups", "openid", "profile"]
    assert all(len(query[name][0]) >= 16 for name in ("state", "nonce", "code_challenge"))


def test_an_answer_counts_in_the_browser_that_asked_and_once(
    cast: Cast, oidc: OidcProvider
) -> None:
    """Against: a state that another browser may use, too: a sign-in as the attacker."""
    a_provider(cast, oidc, creates_people=True)
    oidc.set_people(maria())
    browser, another = a_stranger(), a_stranger()
    begin(another)
    address = oidc.sign_in(begin(browser), "maria", until=CALLBACK)
    assert come_back(another, address) == "/login?refused=expired"
    assert another.get("session").status_code == 401
    assert come_back(browser, address) == "/"
    assert come_back(browser, address) == "/login?refused=expired"


def test_a_cancelled_sign_in_says_so(cast: Cast, oidc: OidcProvider) -> None:
    """Against: a page of django-allauth, which is not there."""
    a_provider(cast, oidc)
    browser = a_stranger()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    landed = come_back(browser, f"{CALLBACK}?error=access_denied&state={state}")
    assert landed == "/login?refused=cancelled"


def test_a_wrong_client_secret_signs_nobody_in(cast: Cast, oidc: OidcProvider) -> None:
    """Against: an error of the token endpoint that became a page 500."""
    a_provider(cast, oidc, creates_people=True, sealed_secret=seal("wrong"))
    oidc.set_people(maria())
    assert sign_in(oidc, "maria")[1] == "/login?refused=not_proved"
    why = AuditEvent.objects.get(action="sign_in_failed").detail["why"]
    assert "invalid_client" in why


@pytest.mark.parametrize("next_path", ["//evil.example.org", "/\\evil.example.org", "https://a.b"])
def test_the_way_back_leads_to_the_portal_only(
    cast: Cast, oidc: OidcProvider, next_path: str
) -> None:
    """Planted: only `startswith("/")`, which `//evil.example.org` passes."""
    a_provider(cast, oidc, creates_people=True)
    oidc.set_people(maria())
    assert sign_in(oidc, "maria", next_path)[1] == "/"
