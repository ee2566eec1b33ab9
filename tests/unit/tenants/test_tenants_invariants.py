"""What the database refuses by itself, each rule broken once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from uuid_utils.compat import uuid7

from builders.api_callers import a_token
from builders.cast import Cast, a_cast
from builders.factor_builders import an_app
from builders.invitation_builders import an_invitation
from builders.portal_builders import NOW
from tenants.models import AccessToken, AuthenticatorApp, Invitation, Node, RoleGrant, User

pytestmark = pytest.mark.django_db


def refused(act: Callable[[], Any], *, by: str) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        act()
    assert refusal.value.__cause__.diag.constraint_name == by  # type: ignore[union-attr]


def a_node(cast: Cast, **changes: Any) -> Callable[[], Node]:
    fields: dict[str, Any] = {
        "kind": "team",
        "parent": cast.research,
        "organization": cast.organization,
        "slug": "x",
        "name": "x",
        "path": "ai-company/research/x/",
        "created_at": NOW,
        **changes,
    }
    return lambda: Node.objects.create(**fields)


def test_a_good_node_is_accepted() -> None:
    assert a_node(a_cast())().depth == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "ai-company/research/y/"},
        {"path": "ai-company/x/"},
        {"path": "rival-lab/research/x/"},
        {"path": "ai-company/research/x"},
    ],
)
def test_a_path_follows_from_the_parent(changes: dict[str, Any]) -> None:
    refused(a_node(a_cast(), **changes), by="tree_node_keeps_its_place")


def test_a_node_has_the_organization_of_its_parent() -> None:
    cast = a_cast()
    refused(a_node(cast, organization=cast.rival), by="tree_node_keeps_its_place")


def test_nothing_lies_below_a_team() -> None:
    cast = a_cast()
    refused(
        a_node(cast, parent=cast.nlp, path="ai-company/research/nlp/x/"),
        by="tree_node_keeps_its_place",
    )


def test_an_organization_lies_below_nothing_and_others_below_something() -> None:
    cast = a_cast()
    refused(a_node(cast, kind="organization"), by="tree_node_without_parent_is_an_organization")
    refused(a_node(cast, parent=None, path="x/"), by="tree_node_without_parent_is_an_organization")


def test_an_organization_is_its_own_and_has_its_own_path() -> None:
    cast = a_cast()
    refused(
        a_node(cast, kind="organization", parent=None, path="x/"), by="tree_organization_is_its_own"
    )
    refused(
        a_node(cast, kind="organization", parent=None, path="y/"), by="tree_node_keeps_its_place"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"slug": "other"},
        {"path": "ai-company/other/"},
        {"kind": "department"},
        {"parent_id": "production"},
        {"organization_id": "rival"},
    ],
)
def test_a_node_does_not_move(changes: dict[str, Any]) -> None:
    cast = a_cast()
    nodes = {"production": cast.production.pk, "rival": cast.rival.pk}
    values = {name: nodes.get(value, value) for name, value in changes.items()}
    refused(
        lambda: Node.objects.filter(pk=cast.nlp.pk).update(**values),
        by="tree_node_keeps_its_place",
    )
    Node.objects.filter(pk=cast.nlp.pk).update(name="a new name")


@pytest.mark.parametrize("slug", ["", "A", "-a", "a-", "a\n", "a b", "é", "ａ"])
def test_slugs_are_plain(slug: str) -> None:
    cast = a_cast()
    refused(
        a_node(cast, slug=slug, path=f"ai-company/research/{slug}/"), by="tree_node_slug_is_plain"
    )


def test_kinds_are_known() -> None:
    refused(a_node(a_cast(), kind="division"), by="tree_node_kind_is_known")


def test_a_path_is_there_once() -> None:
    cast = a_cast()
    refused(a_node(cast, slug="nlp", path="ai-company/research/nlp/"), by="tenants_node_path_key")


def a_grant_of(user: User, role: str, node: Node | None) -> Callable[[], RoleGrant]:
    return lambda: RoleGrant.objects.create(user=user, role=role, node=node, created_at=NOW)


def test_a_role_stays_in_the_organization_of_its_user() -> None:
    cast = a_cast()
    refused(
        a_grant_of(cast.bob, "researcher", cast.rival_team), by="role_stays_in_its_organization"
    )
    refused(a_grant_of(cast.bob, "platform_admin", None), by="role_stays_in_its_organization")
    refused(
        lambda: RoleGrant.objects.filter(user=cast.bob).update(node=cast.rival_team),
        by="role_stays_in_its_organization",
    )
    a_grant_of(cast.root, "auditor", cast.rival_team)()


def test_only_platform_admins_have_a_role_without_a_node() -> None:
    cast = a_cast()
    refused(a_grant_of(cast.root, "auditor", None), by="role_without_node_is_platform_admin")
    refused(
        a_grant_of(cast.root, "platform_admin", cast.nlp), by="role_without_node_is_platform_admin"
    )


def test_a_role_is_granted_once_on_the_platform_too() -> None:
    cast = a_cast()
    refused(a_grant_of(cast.bob, "researcher", cast.nlp), by="role_granted_once")
    refused(a_grant_of(cast.root, "platform_admin", None), by="role_granted_once")


def test_a_role_expires_after_its_grant() -> None:
    cast = a_cast()
    refused(
        lambda: RoleGrant.objects.filter(user=cast.bob).update(expires_at=NOW),
        by="role_expires_after_its_grant",
    )


def test_an_invitation_is_open_once_and_accepted_with_an_account() -> None:
    cast = a_cast()
    made = an_invitation(cast.nlp, cast.nlp_lead)
    rows = Invitation.objects.filter(pk=made.pk)
    refused(lambda: rows.update(expires_at=made.created_at), by="invitation_expires_after_creation")
    refused(lambda: rows.update(accepted_at=NOW), by="invitation_accepted_has_a_user")
    refused(lambda: rows.update(user=cast.bob), by="invitation_accepted_has_a_user")

    def again() -> None:
        made.pk, made.digest = uuid7(), b"another"
        made.save(force_insert=True)

    refused(again, by="invitation_open_once_per_node")


def test_users_have_plain_names_known_kinds_and_one_login() -> None:
    cast = a_cast()

    def change(**fields: Any) -> Callable[[], int]:
        return lambda: User.objects.filter(pk=cast.bob.pk).update(**fields)

    refused(change(username="a b"), by="user_name_is_plain")
    refused(change(username="bob\n"), by="user_name_is_plain")
    refused(change(kind="robot"), by="user_kind_is_known")
    refused(change(username="alice"), by="user_name_once_per_organization")
    refused(change(login="alice@ai-company"), by="tenants_user_login_key")


def test_a_token_expires_after_its_creation_and_its_digest_is_there_once() -> None:
    cast = a_cast()
    token, _ = a_token(cast.bob)
    other, _ = a_token(cast.bob)
    refused(
        lambda: AccessToken.objects.filter(pk=token.pk).update(
            expires_at=token.created_at - timedelta(seconds=1)
        ),
        by="token_expires_after_creation",
    )
    refused(
        lambda: AccessToken.objects.filter(pk=token.pk).update(digest=other.digest),
        by="tenants_accesstoken_digest_key",
    )


def test_a_code_of_an_authenticator_app_is_used_once() -> None:
    """Against: two requests with one code, of which both find the app unchanged."""
    app = an_app(a_cast().bob, at=NOW)
    rows = AuthenticatorApp.objects.filter(pk=app.pk)
    assert rows.update(last_step=7) == 1
    refused(lambda: rows.update(last_step=7), by="authenticator_code_is_used_once")
    refused(lambda: rows.update(last_step=6), by="authenticator_code_is_used_once")
    assert rows.update(last_step=8) == 1
