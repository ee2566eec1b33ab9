"""First sign-ins of people whom SCIM pushed."""

from __future__ import annotations

from typing import Any

import pytest

from builders.api_callers import a_token
from builders.cast import Cast, a_cast
from builders.identity_builders import an_identity_provider
from builders.portal_builders import NOW
from builders.scim_builders import ScimCaller, a_scim_caller
from identity.models import ExternalIdentity, IdentityProvider, ScimSettings
from identity.people import SignInRefused, read_claims, sign_in_person
from tenants.models import AccessToken, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab."""
    return a_cast()


@pytest.fixture
def scim(cast: Cast) -> ScimCaller:
    """The identity provider of ai-company."""
    return a_scim_caller(cast.organization, cast.alice)


@pytest.fixture
def provider(cast: Cast) -> IdentityProvider:
    """A provider that creates accounts for strangers."""
    return an_identity_provider(cast.organization, creates_people=True)


def sign_in(provider: IdentityProvider, **claims: Any) -> str:
    return str(sign_in_person(provider, read_claims(claims, groups_claim=""), now=NOW).pk)


def refusal(provider: IdentityProvider, **claims: Any) -> str:
    with pytest.raises(SignInRefused) as caught:
        sign_in(provider, **claims)
    return caught.value.code.value


@pytest.mark.parametrize("claim", ["sub", "oid", "uid"])
def test_a_pushed_person_signs_in_as_the_same_person(
    claim: str, scim: ScimCaller, provider: IdentityProvider
) -> None:
    """Against: a match of the subject although another claim is the external id."""
    ScimSettings.objects.update(external_id_claim=claim)
    pushed = scim.push("maria@example.org", externalId="00u1")
    other = "00u1" if claim != "sub" else "other"
    claims = {"sub": "subject", "oid": other, "uid": other, claim: "00u1"}
    assert sign_in(provider, **claims) == pushed["id"]
    identity = ExternalIdentity.objects.get()
    assert (str(identity.user_id), identity.subject) == (pushed["id"], claims["sub"])
    # Known by the subject from now on.
    assert sign_in(provider, sub=claims["sub"]) == pushed["id"]


def test_neither_name_nor_mail_makes_anybody_the_pushed_person(
    scim: ScimCaller, provider: IdentityProvider
) -> None:
    """Against: a match by preferred_username or mail, which people can change.

    A second account for the same person is refused as well.
    """
    scim.push("maria@example.org", externalId="00u1", emails=[{"value": "maria@example.org"}])
    for claims in (
        {"preferred_username": "maria@example.org"},
        {"preferred_username": "MARIA@example.org"},
        {"email": "maria@example.org", "email_verified": True},
    ):
        assert refusal(provider, sub="00u2", **claims) == "no_account"
    # An address that is not verified is no address, and the person another one.
    pushed = User.objects.get(username="maria")
    assert sign_in(provider, sub="00u3", email="maria@example.org") != str(pushed.pk)
    assert ExternalIdentity.objects.filter(user=pushed).count() == 0


def test_a_person_without_an_external_id_is_nobody_at_sign_in(
    scim: ScimCaller, provider: IdentityProvider
) -> None:
    """Against: an empty external id that equals an absent claim."""
    ScimSettings.objects.update(external_id_claim="oid")
    pushed = scim.push("maria@example.org")
    assert sign_in(provider, sub="00u9", preferred_username="zoe") != pushed["id"]


@pytest.mark.parametrize("end", ["PATCH", "DELETE"])
def test_a_deactivated_or_deleted_person_does_not_come_back_by_signing_in(
    end: str, scim: ScimCaller, provider: IdentityProvider
) -> None:
    """Against: a new account for somebody whom the provider deleted."""
    pushed = scim.push("maria@example.org", externalId="00u1")
    path = f"Users/{pushed['id']}"
    if end == "PATCH":
        scim.patch(path, {"op": "replace", "path": "active", "value": False})
    else:
        scim.send("DELETE", path)
    people = User.objects.count()
    assert refusal(provider, sub="00u1", preferred_username="maria@example.org") == "deactivated"
    assert refusal(provider, sub="00u2", preferred_username="maria@example.org") == "no_account"
    assert User.objects.count() == people


def test_what_others_prepared_in_an_account_ends_at_its_first_sign_in(
    cast: Cast, scim: ScimCaller, provider: IdentityProvider
) -> None:
    """Against: a token that an earlier owner of a taken-over account still has."""
    ScimSettings.objects.update(adopts_accounts=True)
    a_token(cast.bob)
    assert scim.push("bob@example.org", externalId="00u1")["id"] == str(cast.bob.pk)
    assert AccessToken.objects.get(user=cast.bob).revoked_at is None
    assert sign_in(provider, sub="00u1") == str(cast.bob.pk)
    assert AccessToken.objects.get(user=cast.bob).revoked_at == NOW


def test_an_external_id_counts_in_its_organization_only(
    cast: Cast, scim: ScimCaller, provider: IdentityProvider
) -> None:
    """Against: a search of external ids over all organizations."""
    pushed = scim.push("maria@example.org", externalId="00u1")
    rival = an_identity_provider(cast.rival, creates_people=True)
    a_scim_caller(cast.rival, cast.charlie)
    assert sign_in(rival, sub="00u1", preferred_username="maria") != pushed["id"]
    assert sign_in(provider, sub="00u1") == pushed["id"]
