"""The one scoped query: the SQL it makes, and the edges that would show everything."""

import pytest
from django.db import connection
from django.db.models import Q

from builders.portal_builders import a_department, a_team, a_user, an_actor, an_organization
from primitives.errors import Forbidden, NotFound
from tenants.access import (
    actor_of,
    get_visible,
    require_platform_admin,
    under,
    visible,
    visible_node,
)
from tenants.models import Node, User
from tenants.roles import Permission, Role

pytestmark = pytest.mark.django_db


def below(*prefixes: str) -> set[str]:
    return {node.path for node in Node.objects.filter(under(prefixes, "path"))}


def test_a_prefix_is_its_subtree_and_nothing_beside_it() -> None:
    one = an_organization("o1")
    an_organization("o10")
    an_organization("o1-b")
    nlp = a_department(one, "nlp")
    a_department(one, "nlp2")
    a_team(nlp, "t")
    assert below("o1/") == {"o1/", "o1/nlp/", "o1/nlp2/", "o1/nlp/t/"}
    assert below("o1/nlp/") == {"o1/nlp/", "o1/nlp/t/"}
    assert below("o1/nlp/", "o10/") == {"o1/nlp/", "o1/nlp/t/", "o10/"}


def test_no_prefix_matches_nothing_and_asks_nothing(django_assert_num_queries: object) -> None:
    an_organization()
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert list(Node.objects.filter(under([], "path"))) == []


def test_the_condition_is_a_range_that_uses_the_index() -> None:
    rows = Node.objects.filter(under(["o1/nlp/", "o2/"], "path"))
    where = str(rows.query).partition("WHERE ")[2]
    assert where == (
        '(("tenants_node"."path" >= o1/nlp/ AND "tenants_node"."path" < o1/nlp0) OR '
        '("tenants_node"."path" >= o2/ AND "tenants_node"."path" < o20))'
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = Node.objects.filter(under(["o1/nlp/"], "path")).explain()
    assert "Index" in plan
    assert "Index Cond: ((path >= 'o1/nlp/'::text) AND (path < 'o1/nlp0'::text))" in plan


def test_the_platform_prefix_adds_no_condition() -> None:
    assert "WHERE" not in str(Node.objects.filter(under([""], "path")).query)


def test_own_rows_are_added_to_what_a_platform_admin_sees_and_never_replace_it() -> None:
    admin = an_actor(None, Role.PLATFORM_ADMIN)
    an_organization("o1")
    found = visible(
        admin,
        Node.objects.all(),
        Permission.VIEW_TREE,
        path_field="path",
        own=Q(path="nothing/"),
    )
    assert [node.path for node in found] == ["o1/"]


@pytest.mark.parametrize("scopes", [[], ["everything"], ["ADMIN"], [""], ["read,admin"]])
def test_no_scope_or_an_unknown_one_gives_no_right_at_all(scopes: list[str]) -> None:
    organization = an_organization()
    user = an_actor(organization, Role.ORGANIZATION_ADMIN).user
    actor = actor_of(user, scopes)
    assert actor.scopes == frozenset()
    for permission in Permission:
        assert actor.prefixes(permission) == ()
        assert not actor.holds(permission, organization.path)
        assert not visible(
            actor,
            User.objects.all(),
            permission,
            path_field="organization__path",
            own=Q(pk=user.pk),
        ).exists()


def test_an_unknown_scope_takes_nothing_from_a_known_one() -> None:
    organization = an_organization()
    user = an_actor(organization, Role.ORGANIZATION_ADMIN).user
    actor = actor_of(user, ["read", "later"])
    assert actor.holds(Permission.VIEW_JOBS, organization.path)
    assert not actor.holds(Permission.MANAGE_JOBS, organization.path)


def test_a_role_that_this_version_does_not_know_gives_nothing() -> None:
    organization = an_organization()
    user = an_actor(organization, Role.ORGANIZATION_ADMIN).user
    user.grants.update(role="emperor")
    actor = actor_of(user)
    assert actor.grants == ()
    assert actor.holds(Permission.VIEW_TREE, organization.path)
    assert not actor.holds(Permission.MANAGE_MEMBERS, organization.path)


def test_a_deactivated_user_has_no_rights() -> None:
    organization = an_organization()
    user = an_actor(organization, Role.ORGANIZATION_ADMIN).user
    user.is_active = False
    actor = actor_of(user)
    assert actor.grants == ()
    assert all(actor.prefixes(permission) == () for permission in Permission)


def test_rights_of_this_moment_take_one_query(django_assert_num_queries: object) -> None:
    actor = an_actor(an_organization(), Role.TEAM_LEAD)
    user = User.objects.select_related("organization").get(pk=actor.user.pk)
    with django_assert_num_queries(1):  # type: ignore[operator]
        actor_of(user)


def test_nested_prefixes_are_folded_into_the_outer_one() -> None:
    organization = an_organization("o1")
    nlp = a_department(organization, "nlp")
    actor = an_actor(organization, Role.DEPARTMENT_ADMIN)
    actor.user.grants.create(role=Role.TEAM_LEAD, node=nlp, created_at=organization.created_at)
    assert actor_of(actor.user).prefixes(Permission.MANAGE_QUOTA) == ("o1/",)


def test_a_foreign_node_and_an_absent_one_are_refused_alike() -> None:
    mine, foreign = an_organization("mine"), an_organization("foreign")
    actor = an_actor(mine, Role.ORGANIZATION_ADMIN)
    texts = []
    for path in ("foreign", "absent"):
        with pytest.raises(NotFound) as refusal:
            visible_node(actor, path)
        texts.append(refusal.value.detail.replace(path, "?"))
    assert texts[0] == texts[1]
    with pytest.raises(NotFound):
        get_visible(
            actor, Node.objects.all(), Permission.VIEW_TREE, path_field="path", pk=foreign.pk
        )


def test_seeing_is_not_changing() -> None:
    organization = an_organization("mine")
    actor = an_actor(organization, Role.RESEARCHER)
    assert visible_node(actor, "mine/").pk == organization.pk
    with pytest.raises(Forbidden):
        visible_node(actor, "mine", Permission.MANAGE_STRUCTURE)


def test_a_platform_admins_narrow_token_is_no_platform_admin() -> None:
    user = an_actor(None, Role.PLATFORM_ADMIN).user
    require_platform_admin(actor_of(user))
    require_platform_admin(actor_of(user, ["admin"]))
    for scopes in ([], ["read"], ["read", "jobs", "quotas", "reports"]):
        with pytest.raises(Forbidden):
            require_platform_admin(actor_of(user, scopes))


def test_a_user_of_the_platform_without_a_role_sees_no_organization() -> None:
    an_organization("o1")
    actor = actor_of(a_user(None))
    assert not visible(actor, Node.objects.all(), Permission.VIEW_TREE, path_field="path").exists()
