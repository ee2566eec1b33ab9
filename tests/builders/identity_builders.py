"""Rows and callers for tests of sign-in with an identity provider."""

from __future__ import annotations

from typing import Any

from builders.api_callers import Caller, as_nobody
from builders.portal_builders import NOW
from identity.models import GroupMapping, IdentityProvider
from tenants.models import Node
from tenants.roles import Role
from tenants.sealing import seal

#: The beginning of addresses of Django's test client.
PORTAL = "http://testserver"


def an_identity_provider(
    organization: Node, issuer: str = "https://login.example.org", **values: Any
) -> IdentityProvider:
    """The provider of an organization, which neither creates nor links anybody."""
    return IdentityProvider.objects.create(
        **{
            "organization": organization,
            "name": "Company login",
            "issuer": issuer,
            "client_id": "tidegate",
            "sealed_secret": seal("a-secret-of-tests"),
            "scopes": ["openid", "profile", "email", "groups"],
            "groups_claim": "groups",
            "changed_at": NOW,
            **values,
        }
    )


def a_group_mapping(node: Node, group: str, role: Role = Role.RESEARCHER) -> GroupMapping:
    """A group that gives `role` on `node`."""
    return GroupMapping.objects.create(
        organization_id=node.organization_id, group=group, role=role, node=node, created_at=NOW
    )


def a_stranger() -> Caller:
    """A browser on the sign-in page: it has a CSRF cookie."""
    caller = as_nobody()
    caller.get("session")
    return Caller({"X-CSRFToken": caller.client.cookies["csrftoken"].value}, caller.client)


def begin(browser: Caller, organization: str = "ai-company", next_path: str = "/") -> str:
    """The address of the provider to which the browser goes."""
    answer = browser.post("session/provider", {"organization": organization, "next": next_path})
    assert answer.status_code == 200, answer.content
    return str(answer.json()["authorization_url"])


def come_back(browser: Caller, address: str) -> str:
    """Where the portal leads after the provider led to `address`."""
    answer = browser.client.get(address.removeprefix(PORTAL))
    assert answer.status_code == 302, answer.content
    return str(answer.headers["Location"])
