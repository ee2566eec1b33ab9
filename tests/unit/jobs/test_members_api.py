"""The members of a node: whose they are, what they use, and that the sums are the node's."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders.api_callers import FAR_AHEAD, LONG_AGO, a_token, by_token
from builders.billing_builders import DAY, a_metered_attempt
from builders.cast import Cast, a_cast
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import Company, a_company, a_grant
from jobs.reading.members import NodeMembers, Source
from quotas.models import NodeUse, UserCap
from tenants.access import actor_of
from tenants.models import Node, RoleGrant, User
from tenants.roles import PERMISSIONS, SENTENCES, Role

pytestmark = pytest.mark.django_db

NOW = DAY + timedelta(days=20)
HOUR_MGPU_S = 8_000 * 3_600


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def runs(company: Company, user: User, gpus: int, *, guaranteed: int, team: Node) -> None:
    job = a_job(company, user, team=team, state="running", mgpu_per_node=gpus * 1_000)
    an_attempt(job, cluster=company.cluster, guaranteed_mgpu=guaranteed * 1_000)


def members(cast: Cast, node: Node, by: User | None = None) -> NodeMembers:
    return NodeMembers(actor_of(by or cast.alice), node.pk, NOW)


def listed(cast: Cast, node: Node) -> dict[str, Any]:
    found = members(cast, node)
    described = found.described(list(found.users().order_by("login")))
    return {member.user.username: member for member in described}


def test_each_member_has_the_place_of_the_nearest_role(cast: Cast, company: Company) -> None:
    """Here, above or below; none with use only. Against: the platform's roles counted as above."""
    a_grant(cast.bob, Role.AUDITOR, cast.organization)
    runs(company, cast.dave, 1, guaranteed=1, team=cast.nlp)
    assert {name: member.source for name, member in listed(cast, cast.nlp).items()} == {
        "alice": Source.ABOVE,
        "auditor": Source.ABOVE,
        "bob": Source.HERE,
        "dave": Source.NONE,
        "finance": Source.ABOVE,
        "nlp-lead": Source.HERE,
        "research-admin": Source.ABOVE,
        "robot": Source.HERE,
    }
    of_research = {name: member.source for name, member in listed(cast, cast.research).items()}
    assert of_research["bob"] == Source.ABOVE
    assert of_research["research-admin"] == Source.HERE
    assert of_research["nlp-lead"] == Source.BELOW


def test_an_expired_role_makes_no_member(cast: Cast) -> None:
    """Against: grants without the condition."""
    RoleGrant.objects.filter(user=cast.bob).update(
        created_at=LONG_AGO, expires_at=LONG_AGO + timedelta(seconds=1)
    )
    assert "bob" not in listed(cast, cast.nlp)


def test_use_is_by_pool_with_its_borrowed_part_and_the_cap(cast: Cast, company: Company) -> None:
    """Ended attempts and other teams do not count. Against: both do."""
    runs(company, cast.bob, 4, guaranteed=4, team=cast.nlp)
    runs(company, cast.bob, 2, guaranteed=0, team=cast.nlp)
    runs(company, cast.bob, 8, guaranteed=8, team=cast.inference)
    ended = a_job(company, cast.bob, state="succeeded")
    over = NOW + timedelta(days=1)
    an_attempt(ended, cluster=company.cluster, state="ended", ended_at=over, released_at=over)
    UserCap.objects.create(team=cast.nlp, user=None, pool=company.pool, cap_mgpu=16_000)
    found = listed(cast, cast.nlp)
    (use,) = found["bob"].uses
    assert (use.pool, use.guaranteed_mgpu, use.borrowed_mgpu, use.cap_mgpu) == (
        "h100",
        4_000,
        2_000,
        16_000,
    )
    (idle,) = found["robot"].uses
    assert (idle.guaranteed_mgpu, idle.borrowed_mgpu, idle.cap_mgpu) == (0, 0, 16_000)


def test_the_sums_of_members_are_the_use_of_the_node(cast: Cast, company: Company) -> None:
    """People, service accounts and people without a role. Against: these are left out."""
    runs(company, cast.bob, 4, guaranteed=4, team=cast.nlp)
    runs(company, cast.service, 2, guaranteed=2, team=cast.nlp)
    for user in (cast.bob, cast.dave, cast.service):
        a_metered_attempt(cast.nlp, 0, 3_600, user=user, pool=company.pool)
    a_metered_attempt(cast.inference, 0, 3_600, user=cast.bob, pool=company.pool)
    NodeUse.objects.create(
        node=cast.nlp,
        pool=company.pool,
        in_use_mgpu=6_000,
        protected_mgpu=6_000,
        borrowed_mgpu=0,
        lent_mgpu=0,
        available_mgpu=0,
        waiting_mgpu=0,
        as_of=NOW,
    )
    totals = members(cast, cast.nlp).totals()
    (pool,) = totals.pools
    assert (pool.people_mgpu, pool.service_accounts_mgpu, pool.node_mgpu) == (4_000, 2_000, 6_000)
    assert totals.people_month_mgpu_s == 2 * HOUR_MGPU_S
    assert totals.service_accounts_month_mgpu_s == HOUR_MGPU_S
    assert totals.node_month_mgpu_s == 3 * HOUR_MGPU_S
    assert totals.month_start == datetime(2026, 11, 1, tzinfo=UTC)
    assert totals.is_equal
    found = listed(cast, cast.nlp)
    assert found["dave"].month_mgpu_s == HOUR_MGPU_S
    assert sum(member.month_mgpu_s for member in found.values()) == totals.node_month_mgpu_s
    NodeUse.objects.update(in_use_mgpu=7_000)
    assert not members(cast, cast.nlp).totals().is_equal


def test_last_active_is_the_last_sign_in_or_use_of_a_token(cast: Cast) -> None:
    """Against: only one of both."""
    User.objects.filter(pk=cast.bob.pk).update(last_login=NOW - timedelta(days=2))
    token, _ = a_token(cast.bob)
    assert listed(cast, cast.nlp)["bob"].last_active_at == NOW - timedelta(days=2)
    token.last_used_at = NOW - timedelta(days=1)
    token.save()
    found = listed(cast, cast.nlp)
    assert found["bob"].last_active_at == NOW - timedelta(days=1)
    assert found["robot"].last_active_at is None


def test_tokens_of_service_accounts_are_for_those_who_manage_them(cast: Cast) -> None:
    """Live ones only, and none of people. Against: the auditor reads them."""
    live, _ = a_token(cast.service)
    a_token(cast.service, revoked_at=NOW)
    a_token(cast.bob)
    for reader, tokens in ((cast.nlp_lead, [live]), (cast.auditor, [])):
        found = members(cast, cast.nlp, reader)
        (robot,) = found.described(list(User.objects.filter(pk=cast.service.pk)))
        assert list(robot.tokens) == tokens
        (bob,) = found.described(list(User.objects.filter(pk=cast.bob.pk)))
        assert list(bob.tokens) == []


def test_the_list_has_pages_and_says_what_the_caller_may_change(cast: Cast) -> None:
    """A lead changes roles of the team, not those above. Against: all of them."""
    caller = by_token(cast.nlp_lead)
    first = caller.get(f"tree/{cast.nlp.pk}/members?limit=5").json()
    assert len(first["items"]) == 5
    second = caller.get(first["next"].removeprefix("/api/v1/")).json()
    assert second["next"] is None
    may = {
        (item["user"]["username"], role["role"]): role["may_change"]
        for item in first["items"] + second["items"]
        for role in item["roles"]
    }
    assert may == {
        ("alice", "organization_admin"): False,
        ("auditor", "auditor"): False,
        ("bob", "researcher"): True,
        ("finance", "finance"): False,
        ("nlp-lead", "team_lead"): True,
        ("research-admin", "department_admin"): False,
        ("robot", "service_account"): True,
    }


def test_csv_has_all_members_and_their_use_once(cast: Cast, company: Company) -> None:
    """Two roles are two lines. Against: the use on both."""
    RoleGrant.objects.filter(user=cast.bob).update(created_at=LONG_AGO, expires_at=FAR_AHEAD)
    a_grant(cast.bob, Role.TEAM_LEAD, cast.nlp)
    User.objects.filter(pk=cast.bob.pk).update(name="=1+1")
    runs(company, cast.bob, 2, guaranteed=1, team=cast.nlp)
    answer = by_token(cast.nlp_lead).get(f"tree/{cast.nlp.pk}/members?format=csv")
    assert answer["Content-Disposition"].startswith('attachment; filename="members-nlp-')
    lines = list(csv.DictReader(answer.content.decode().splitlines()))
    of_bob = [line for line in lines if line["login"] == "bob@ai-company"]
    assert [
        (line["name"], line["role"], line["role_expires_at"][:4], line["borrowed_mgpu"])
        for line in of_bob
    ] == [("'=1+1", "researcher", "2199", "1000"), ("'=1+1", "team_lead", "", "0")]


def test_each_role_has_a_sentence(cast: Cast) -> None:
    """Against: a role without one."""
    assert set(SENTENCES) == set(Role)
    roles = by_token(cast.bob).get("roles").json()["items"]
    assert [role["role"] for role in roles] == [role.value for role in Role]
    researcher = next(role for role in roles if role["role"] == "researcher")
    assert researcher["sentence"] == "Submits jobs, and sees and manages the own ones."
    assert researcher["permissions"] == sorted(PERMISSIONS[Role.RESEARCHER])
