"""Answers of an identity provider that prove nothing: nobody is signed in by them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from audit.models import AuditEvent
from builders.api_callers import Caller
from builders.cast import a_cast
from builders.forging_provider import KEY, OTHER_KEY, ForgingProvider, a_forging_provider
from builders.identity_builders import PORTAL, a_stranger, an_identity_provider, begin, come_back
from builders.portal_builders import NOW
from identity.models import ExternalIdentity, IdentityProvider

pytestmark = pytest.mark.django_db


@pytest.fixture
def forger(settings: Any) -> Iterator[ForgingProvider]:
    """A lying provider of ai-company, where Bob is maria."""
    with a_forging_provider() as provider:
        settings.IDENTITY_ORIGINS = frozenset({provider.issuer})
        yield provider


@pytest.fixture
def row(forger: ForgingProvider) -> IdentityProvider:
    """Its row, with an identity of Bob."""
    cast = a_cast()
    row = an_identity_provider(cast.organization, forger.issuer)
    ExternalIdentity.objects.create(
        provider=row,
        issuer=row.issuer,
        subject="maria",
        user=cast.bob,
        created_at=NOW,
        used_at=NOW,
    )
    return row


def sign_in(forger: ForgingProvider, row: IdentityProvider) -> tuple[Caller, str]:
    """Begin and come back with the nonce that the portal gave, unless the test forges it."""
    browser = a_stranger()
    query = parse_qs(urlsplit(begin(browser)).query)
    forger.claims = {"nonce": query["nonce"][0], **forger.claims}
    address = f"{PORTAL}/api/v1/session/callback/ai-company?code=any&state={query['state'][0]}"
    return browser, come_back(browser, address)


def test_an_honest_answer_signs_in(forger: ForgingProvider, row: IdentityProvider) -> None:
    """Against: a forger whose answers are refused for some other reason."""
    browser, landed = sign_in(forger, row)
    assert landed == "/"
    assert browser.get("session").json()["user"]["login"] == "bob@ai-company"


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"nonce": 7},
        {"iss": "https://evil.example.org"},
        {"aud": "another client"},
        {"aud": ["tidegate", "another"], "azp": "another"},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": None},
        {"sub": None},
        {"nbf": 4_000_000_000},
    ],
)
def test_an_id_token_for_something_else_is_refused(
    forger: ForgingProvider, row: IdentityProvider, claims: dict[str, Any]
) -> None:
    """Planted: no comparison of the nonce."""
    forger.claims = claims
    assert_refused(*sign_in(forger, row))


def with_another_key(forger: ForgingProvider) -> None:
    forger.key = OTHER_KEY


def without_a_signature(forger: ForgingProvider) -> None:
    forger.key, forger.algorithm = None, "none"


def signed_with_the_public_key(forger: ForgingProvider) -> None:
    forger.key, forger.algorithm = "a-secret-of-tests-that-is-long-enough", "HS256"


def without_an_id_token(forger: ForgingProvider) -> None:
    forger.token_answer = b'{"access_token": "any"}'


def with_a_list(forger: ForgingProvider) -> None:
    forger.token_answer = b'["access_token"]'


def with_text(forger: ForgingProvider) -> None:
    forger.token_answer = b"not JSON"


def with_a_malformed_token(forger: ForgingProvider) -> None:
    forger.id_token = "a.b.c"


def with_userinfo_of_another(forger: ForgingProvider) -> None:
    forger.userinfo = {"sub": "root"}


def with_userinfo_as_list(forger: ForgingProvider) -> None:
    forger.userinfo = ["maria"]


def with_a_strange_lifetime(forger: ForgingProvider) -> None:
    forger.token_answer = b'{"access_token": "any", "expires_in": "soon"}'


@pytest.mark.parametrize(
    "forge",
    [
        with_another_key,
        without_a_signature,
        signed_with_the_public_key,
        without_an_id_token,
        with_a_list,
        with_text,
        with_a_malformed_token,
        with_userinfo_of_another,
        with_userinfo_as_list,
        with_a_strange_lifetime,
    ],
)
def test_an_answer_without_proof_is_refused(
    forger: ForgingProvider, row: IdentityProvider, forge: Callable[[ForgingProvider], None]
) -> None:
    """Planted: no comparison of the userinfo's subject. Against: an unchecked signature."""
    forge(forger)
    assert_refused(*sign_in(forger, row))


def assert_refused(browser: Caller, landed: str) -> None:
    assert landed in {"/login?refused=not_proved", "/login?refused=unreachable"}
    assert browser.get("session").status_code == 401
    assert AuditEvent.objects.filter(action="sign_in_failed").count() == 1
    assert not AuditEvent.objects.filter(action="signed_in").exists()


def test_a_provider_that_is_down_is_named(
    forger: ForgingProvider, row: IdentityProvider, settings: Any
) -> None:
    """Against: a page 500, and a browser that is sent to a dead address."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        issuer = f"http://127.0.0.1:{closed.getsockname()[1]}"
        settings.IDENTITY_ORIGINS = frozenset({issuer})
        IdentityProvider.objects.update(issuer=issuer)
        answer = a_stranger().post("session/provider", {"organization": "ai-company"})
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        "Company login does not answer, so that nobody can sign in with it now. Try again in a "
        "minute, or tell an administrator."
    )
    assert AuditEvent.objects.get().detail["reason"] == "unreachable"


def test_a_provider_that_goes_down_in_between_is_named(
    forger: ForgingProvider, row: IdentityProvider
) -> None:
    """Against: the same in the middle of a sign-in."""
    forger.discovery = {"jwks_uri": f"{forger.issuer.rpartition(':')[0]}:1/keys"}
    answer = a_stranger().post("session/provider", {"organization": "ai-company"})
    # The portal may not call that address at all.
    assert answer.status_code == 409
    assert KEY is not OTHER_KEY


def test_a_redirect_leads_to_no_other_server(
    forger: ForgingProvider, row: IdentityProvider
) -> None:
    """Planted: redirects that are followed, to an inner server."""
    forger.redirects_to = f"{forger.issuer}/inner"
    answer = a_stranger().post("session/provider", {"organization": "ai-company"})
    assert answer.status_code == 409
    assert forger.calls == ["/.well-known/openid-configuration"]


def test_an_endless_answer_is_cut(forger: ForgingProvider, row: IdentityProvider) -> None:
    """Against: an answer that fills the memory."""
    forger.discovery = {"filler": "x" * (1024 * 1024)}
    answer = a_stranger().post("session/provider", {"organization": "ai-company"})
    assert answer.status_code == 409
    assert "more than 1 MiB" in AuditEvent.objects.get().detail["why"]


def test_identities_of_a_former_issuer_are_nobody(
    forger: ForgingProvider, row: IdentityProvider
) -> None:
    """Planted: a search by subject alone."""
    ExternalIdentity.objects.update(issuer="https://former.example.org")
    assert sign_in(forger, row)[1] == "/login?refused=no_account"


def test_a_switched_off_provider_signs_nobody_in(
    forger: ForgingProvider, row: IdentityProvider
) -> None:
    """Against: a sign-in that began before."""
    browser = a_stranger()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    IdentityProvider.objects.update(is_enabled=False)
    address = f"{PORTAL}/api/v1/session/callback/ai-company?code=any&state={state}"
    assert come_back(browser, address) == "/login?refused=switched_off"
    answer = a_stranger().post("session/provider", {"organization": "ai-company"})
    assert answer.status_code == 404


def test_beginning_needs_a_csrf_token_and_is_throttled_by_source(
    forger: ForgingProvider, row: IdentityProvider
) -> None:
    """Against: a source that fills the table of sessions, and another site that begins sign-ins."""
    browser = a_stranger()
    bare = Caller({}, browser.client)
    assert bare.post("session/provider", {"organization": "ai-company"}).status_code == 403
    answers = [
        browser.post("session/provider", {"organization": "nowhere"}).status_code
        for _ in range(101)
    ]
    assert answers == [404] * 100 + [429]


def test_options_tell_a_stranger_nothing_about_organizations(
    forger: ForgingProvider, row: IdentityProvider
) -> None:
    """Planted: all enabled providers in the list."""
    browser = a_stranger()
    assert browser.get("sign-in-options").json() == {"providers": []}
    assert browser.get("sign-in-options?organization=rival-lab").json() == {"providers": []}
    assert browser.get("sign-in-options?organization=nowhere").json() == {"providers": []}
    named = {"providers": [{"organization": "ai-company", "name": "Company login"}]}
    assert browser.get("sign-in-options?organization=ai-company").json() == named
    IdentityProvider.objects.update(is_listed=True)
    assert browser.get("sign-in-options").json() == named
