"""Roles by groups where the identity provider does not send all groups of a person."""

from __future__ import annotations

from typing import Any

import pytest

from builders.cast import a_cast
from builders.identity_builders import a_group_mapping, an_identity_provider
from builders.portal_builders import NOW
from identity.models import ExternalIdentity
from identity.people import GROUPS_MAX, read_claims, sign_in_person
from tenants.models import RoleGrant

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("claims", "kept"),
    [
        ({"groups": ["gpu-nlp"]}, ["gpu-nlp"]),
        ({"groups": []}, []),
        ({}, []),
        ({"_claim_names": {"groups": "src1"}}, ["gpu-nlp"]),
        ({"groups": [f"g{number}" for number in range(GROUPS_MAX + 1)]}, ["gpu-nlp"]),
    ],
)
def test_groups_that_are_not_sent_take_no_role(claims: dict[str, Any], kept: list[str]) -> None:
    """Against: an absent claim, or one that is cut, that ends all roles by groups."""
    cast = a_cast()
    row = an_identity_provider(cast.organization)
    a_group_mapping(cast.nlp, "gpu-nlp")
    ExternalIdentity.objects.create(
        provider=row,
        issuer=row.issuer,
        subject="maria",
        user=cast.bob,
        created_at=NOW,
        used_at=NOW,
    )
    for sent in ({"groups": ["gpu-nlp"]}, claims):
        sign_in_person(row, read_claims({"sub": "maria", **sent}, groups_claim="groups"), now=NOW)
    grants = RoleGrant.objects.filter(user=cast.bob).exclude(group="")
    assert list(grants.values_list("group", flat=True)) == kept
