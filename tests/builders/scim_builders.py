"""Tokens, callers and pushed rows for tests of SCIM."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.test import Client

from builders.api_callers import FAR_AHEAD
from builders.portal_builders import NOW
from identity.models import ScimSettings, ScimToken
from identity.scim.tokens import MARK
from tenants.models import Node, User
from tenants.tokens import PREFIX_LENGTH, digest_of, new_secret

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


def a_scim_token(organization: Node, made_by: User, **values: Any) -> tuple[ScimToken, str]:
    """A live token of the organization and its secret."""
    ScimSettings.objects.get_or_create(organization=organization, defaults={"changed_at": NOW})
    secret = new_secret(MARK)
    token = ScimToken.objects.create(
        **{
            "organization": organization,
            "name": "Okta",
            "prefix": secret[:PREFIX_LENGTH],
            "digest": digest_of(secret),
            "created_by": made_by,
            "created_at": FAR_AHEAD - timedelta(days=365),
            "expires_at": FAR_AHEAD,
            **values,
        }
    )
    return token, secret


@dataclass(frozen=True)
class ScimCaller:
    """Sends SCIM as an identity provider does; answers have `.status_code` and `.json()`."""

    secret: str
    client: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True))

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """`path` is below /scim/v2/; `body` is JSON unless it is bytes already."""
        return self.client.generic(
            method,
            f"/scim/v2/{path}",
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body),
            content_type="application/scim+json",
            headers={
                "Authorization": f"Bearer {self.secret}",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
        )

    def push(self, user_name: str, **attributes: Any) -> dict[str, Any]:
        """Create a user, and return it as it was answered."""
        body = {"schemas": [USER], "userName": user_name, **attributes}
        answer = self.send("POST", "Users", body)
        assert answer.status_code == 201, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def push_group(self, display_name: str, *members: str, **attributes: Any) -> dict[str, Any]:
        """Create a group with these members, and return it as it was answered."""
        body = {
            "schemas": [GROUP],
            "displayName": display_name,
            "members": [{"value": member} for member in members],
            **attributes,
        }
        answer = self.send("POST", "Groups", body)
        assert answer.status_code == 201, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def patch(self, path: str, *operations: dict[str, Any], **headers: str) -> Any:
        """Send the operations of a PATCH."""
        return self.send("PATCH", path, {"schemas": [PATCH], "Operations": operations}, **headers)


def a_scim_caller(organization: Node, made_by: User, **values: Any) -> ScimCaller:
    """A caller with a fresh token of the organization."""
    return ScimCaller(a_scim_token(organization, made_by, **values)[1])
