"""Quotas are given and changed: values, percentages, rules, rights, history."""

from datetime import timedelta
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from audit.models import AuditEvent
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_department,
    a_pool,
    a_quota,
    a_team,
    an_actor,
    an_organization,
)
from primitives.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    PortalError,
    PreconditionFailed,
)
from quotas.administration import QuotaEdit, change_quota, create_quota, editable_fields
from quotas.envelope import EnvelopeBroken, LendsTooMuch
from quotas.models import Quota, QuotaChange
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(hours=1)


def quota_of(node: Node) -> Quota:
    return Quota.objects.get(node=node)


def guarantees(*nodes: Node) -> list[int]:
    """GPUs guaranteed to each node."""
    return [quota_of(node).guaranteed_mgpu // 1000 for node in nodes]


def change(actor: Actor, node: Node, **edit: Any) -> Quota:
    quota = quota_of(node)
    return change_quota(
        quota.pk,
        QuotaEdit(**edit),
        actor=actor,
        if_version=quota.version,
        reason="because",
        now=LATER,
    )


def platform_admin() -> Actor:
    return an_actor(None, Role.PLATFORM_ADMIN)


def a_worked_example() -> dict[str, Node]:
    """Research 40 %, production 40 % and exploration 20 % of 1,000 GPUs, with their teams."""
    root, pool = an_organization("ai-company"), a_pool()
    admin = platform_admin()
    a_quota(root, pool, 1_000)
    nodes = {"root": root}
    for department, percent, teams in (
        ("research", 4000, {"nlp": 5000, "vision": 3000, "speech": 2000}),
        ("production", 4000, {"inference": 7000, "training": 3000}),
        ("exploration", 2000, {"sandbox": 10000}),
    ):
        nodes[department] = a_department(root, department)
        give(admin, nodes[department], guaranteed_bp=percent)
        for team, share in teams.items():
            nodes[team] = a_team(nodes[department], team)
            give(admin, nodes[team], guaranteed_bp=share)
    return nodes


def give(actor: Actor, node: Node, **edit: Any) -> Quota:
    return create_quota(
        node.display_path, "h100", QuotaEdit(**edit), actor=actor, reason="first", now=NOW
    )


def test_the_worked_example_resolves_to_its_gpus() -> None:
    nodes = a_worked_example()

    assert guarantees(*nodes.values()) == [
        *(1_000, 400, 200, 120, 80),
        *(400, 280, 120),
        *(200, 200),
    ]


def test_three_equal_thirds_leave_the_missing_hundredth_in_reserve() -> None:
    root, pool, admin = an_organization(), a_pool(), platform_admin()
    a_quota(root, pool, 400)
    teams = [a_team(root, slug) for slug in ("a", "b", "c")]

    for team in teams:
        give(admin, team, guaranteed_bp=3333)

    # 3 x 133.32 = 399.96 GPUs: 399 whole ones are handed out.
    assert guarantees(*teams) == [133, 133, 133]


def test_the_largest_remainder_gets_the_gpu_and_ties_go_by_path() -> None:
    root, pool, admin = an_organization(), a_pool(), platform_admin()
    a_quota(root, pool, 10)
    teams = [a_team(root, slug) for slug in ("a", "b", "c", "d")]

    for team, percent in zip(teams, (3333, 3333, 3333, 1), strict=True):
        give(admin, team, guaranteed_bp=percent)

    # Exactly 3.333, 3.333, 3.333 and 0.001: the tenth GPU goes to the first by path.
    assert guarantees(*teams) == [4, 3, 3, 0]


def test_a_part_of_a_gpu_stays_with_the_parent() -> None:
    root, pool, admin = an_organization(), a_pool(), platform_admin()
    team = a_team(root)
    Quota.objects.create(node=root, pool=pool, guaranteed_mgpu=7_500)

    give(admin, team, guaranteed_bp=10_000)

    assert quota_of(team).guaranteed_mgpu == 7_000


def test_percentages_follow_their_parent_all_the_way_down() -> None:
    nodes = a_worked_example()
    admin = platform_admin()

    change(admin, nodes["root"], guaranteed_mgpu=500_000)

    assert guarantees(*nodes.values()) == [500, 200, 100, 60, 40, 200, 140, 60, 100, 100]
    assert quota_of(nodes["nlp"]).version == 2
    history = QuotaChange.objects.get(quota__node=nodes["nlp"], at=LATER)
    assert history.actor == admin.user
    assert history.before == {
        "guaranteed_mgpu": 200_000,
        "guaranteed_percent": "50.00",
        "borrow_limit_mgpu": None,
        "lend_limit_mgpu": None,
        "weight": 100,
    }
    assert history.after == {**history.before, "guaranteed_mgpu": 100_000}
    assert history.reason == "Follows ai-company: because"


def test_only_what_changed_gets_a_version_and_history() -> None:
    nodes = a_worked_example()
    admin = platform_admin()
    before = QuotaChange.objects.count()

    change(admin, nodes["nlp"], guaranteed_bp=4000)

    assert guarantees(nodes["nlp"], nodes["vision"], nodes["speech"]) == [160, 120, 80]
    assert QuotaChange.objects.count() == before + 1
    assert [quota_of(nodes[name]).version for name in ("nlp", "vision", "research")] == [2, 1, 1]


def test_a_changed_percentage_may_move_a_sibling_by_the_rounding() -> None:
    root, pool, admin = an_organization(), a_pool(), platform_admin()
    a_quota(root, pool, 10)
    first, second = a_team(root, "a"), a_team(root, "b")
    give(admin, first, guaranteed_bp=3500)
    give(admin, second, guaranteed_bp=6500)
    assert guarantees(first, second) == [4, 6]

    change(admin, first, guaranteed_bp=3400)

    # 3.4 + 6.5 = 9.9: nine whole GPUs, 3 and 6.
    assert guarantees(first, second) == [3, 6]
    change(admin, first, guaranteed_mgpu=3_000)
    assert (quota_of(first).guaranteed_bp, guarantees(first, second)) == (None, [3, 6])


def test_a_parent_cannot_have_less_than_its_children() -> None:
    root, pool, admin = an_organization(), a_pool(), platform_admin()
    research = a_department(root, "research")
    a_quota(root, pool, 1_000)
    a_quota(research, pool, 400)
    for slug, gpus in (("nlp", 200), ("vision", 120), ("speech", 80)):
        a_quota(a_team(research, slug), pool, gpus)

    with pytest.raises(EnvelopeBroken) as refusal:
        change(admin, research, guaranteed_mgpu=350_000)

    assert refusal.value.detail == (
        "research guarantees 400 GPUs to its teams but would have only 350. Lower nlp, vision "
        "or speech first."
    )
    assert refusal.value.data == {
        "node": research.display_path,
        "guaranteed_mgpu": 350_000,
        "children_mgpu": 400_000,
    }
    assert guarantees(research) == [400]


def test_a_fixed_grandchild_stops_a_percentage_above_it() -> None:
    nodes = a_worked_example()
    admin = platform_admin()
    change(admin, nodes["nlp"], guaranteed_mgpu=200_000)

    with pytest.raises(EnvelopeBroken) as refusal:
        change(admin, nodes["root"], guaranteed_mgpu=500_000)

    # Research would have 200 GPUs, of which vision and speech follow with 60 and 40.
    assert refusal.value.detail == (
        "research guarantees 300 GPUs to its teams but would have only 200. Lower nlp, vision "
        "or speech first."
    )
    assert guarantees(*nodes.values()) == [1_000, 400, 200, 120, 80, 400, 280, 120, 200, 200]


def test_a_child_cannot_have_more_than_is_left() -> None:
    company = a_company()

    with pytest.raises(EnvelopeBroken) as refusal:
        change(platform_admin(), company.nlp, guaranteed_mgpu=8_500)

    assert refusal.value.detail == (
        "nlp would be guaranteed 8.5 GPUs, but research has 16 and guarantees 8 of them to its "
        "other teams; 8 are left."
    )
    assert guarantees(company.nlp) == [8]


def test_percentages_above_a_hundred_do_not_fit() -> None:
    nodes = a_worked_example()

    with pytest.raises(EnvelopeBroken):
        change(platform_admin(), nodes["nlp"], guaranteed_bp=5100)

    assert guarantees(nodes["nlp"], nodes["vision"]) == [200, 120]


def test_percentages_above_a_hundred_do_not_fit_where_their_gpus_would() -> None:
    """Planted: 70 and 34 percent of ten GPUs are 7 and 3, and the ten are never to be more."""
    root, pool, admin = an_organization("lab"), a_pool(), platform_admin()
    a_quota(root, pool, 10)
    give(admin, a_team(root, "a"), guaranteed_bp=7_000)
    b = a_team(root, "b")
    with pytest.raises(EnvelopeBroken) as refusal:
        give(admin, b, guaranteed_bp=3_450)
    assert refusal.value.detail == (
        "b would be guaranteed 34.5 % of lab, which guarantees 70 % to its other teams; 30 % are "
        "left."
    )
    give(admin, b, guaranteed_bp=3_000)
    change(admin, root, guaranteed_mgpu=33_000)
    assert guarantees(b) == [10]


def test_more_names_than_five_are_counted() -> None:
    root, pool = an_organization("org"), a_pool()
    a_quota(root, pool, 7)
    for number in range(7):
        a_quota(a_team(root, f"t{number}"), pool, 1)

    with pytest.raises(EnvelopeBroken) as refusal:
        change(platform_admin(), root, guaranteed_mgpu=6_000)

    assert refusal.value.detail == (
        "org guarantees 7 GPUs to its teams but would have only 6. Lower t0, t1, t2, t3, t4 or "
        "one of 2 others first."
    )


def test_refusals_in_a_pool_of_cores_count_cores() -> None:
    """Mutants: any of the four says GPUs."""
    root, pool = an_organization("org"), a_pool("cpu", device="cpu")
    team = a_team(root, "nlp")
    a_quota(root, pool, 8)
    a_quota(team, pool, 4, lend_gpus=2, borrow_gpus=1)
    admin = platform_admin()

    def refusal(actor: Actor, node: Node, **edit: Any) -> str:
        with pytest.raises(PortalError) as refused:
            change(actor, node, **edit)
        return refused.value.detail

    assert refusal(admin, team, guaranteed_mgpu=9_000) == (
        "nlp would be guaranteed 9 cores, but org has 8 and guarantees 0 of them to its other "
        "departments and teams; 8 are left."
    )
    assert refusal(admin, root, guaranteed_mgpu=3_000) == (
        "org guarantees 4 cores to its teams but would have only 3. Lower nlp first."
    )
    assert refusal(admin, team, guaranteed_mgpu=1_000) == (
        "nlp lends up to 2 cores but would be guaranteed only 1. Lower its lend limit too, or "
        "clear it, which lends everything."
    )
    lead = an_actor(team, Role.TEAM_LEAD, "leo")
    assert "now 1 core, which you may only lower" in refusal(lead, team, borrow_limit_mgpu=2_000)


def test_nobody_lends_more_than_the_guarantee() -> None:
    company = a_company()
    admin = platform_admin()

    with pytest.raises(LendsTooMuch) as refusal:
        change(admin, company.nlp, lend_limit_mgpu=8_001)

    assert refusal.value.detail == (
        "nlp lends up to 8.001 GPUs but would be guaranteed only 8. Lower its lend limit too, or "
        "clear it, which lends everything."
    )
    change(admin, company.nlp, lend_limit_mgpu=8_000)
    with pytest.raises(LendsTooMuch):
        change(admin, company.nlp, guaranteed_mgpu=4_000)
    change(admin, company.nlp, guaranteed_mgpu=4_000, lend_limit_mgpu=4_000)
    assert guarantees(company.nlp) == [4]


def test_a_lend_limit_below_stops_a_percentage_from_falling() -> None:
    nodes = a_worked_example()
    admin = platform_admin()
    change(admin, nodes["sandbox"], lend_limit_mgpu=150_000)

    with pytest.raises(LendsTooMuch) as refusal:
        change(admin, nodes["exploration"], guaranteed_bp=1000)

    assert refusal.value.data["node"] == "ai-company/exploration/sandbox"
    assert guarantees(nodes["exploration"], nodes["sandbox"]) == [200, 200]


def test_a_change_is_kept_with_who_when_what_and_why() -> None:
    company = a_company()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN, "dora")

    changed = change(admin, company.nlp, guaranteed_mgpu=6_000, borrow_limit_mgpu=4_000, weight=50)

    assert (changed.version, changed.guaranteed_mgpu) == (2, 6_000)
    history = QuotaChange.objects.get()
    before = {
        "guaranteed_mgpu": 8_000,
        "guaranteed_percent": None,
        "borrow_limit_mgpu": None,
        "lend_limit_mgpu": None,
        "weight": 100,
    }
    after = {**before, "guaranteed_mgpu": 6_000, "borrow_limit_mgpu": 4_000, "weight": 50}
    assert (history.at, history.actor, history.reason) == (LATER, admin.user, "because")
    assert (history.before, history.after) == (before, after)
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.node_path) == (
        "quota.changed",
        "dora@ai-company",
        "ai-company/research/nlp/",
    )
    assert event.organization_id == company.organization.pk
    assert event.detail == {
        "pool": "h100",
        "before": before,
        "after": after,
        "reason": "because",
        "followers": 0,
    }


def test_a_change_to_the_same_values_changes_nothing() -> None:
    company = a_company()

    assert change(platform_admin(), company.nlp, guaranteed_mgpu=8_000, weight=100).version == 1

    assert not QuotaChange.objects.exists()
    assert not AuditEvent.objects.exists()


def test_a_stale_version_changes_nothing() -> None:
    company = a_company()
    admin = platform_admin()
    change(admin, company.nlp, guaranteed_mgpu=6_000)

    with pytest.raises(PreconditionFailed):
        change_quota(
            quota_of(company.nlp).pk,
            QuotaEdit(guaranteed_mgpu=5_000),
            actor=admin,
            if_version=1,
            reason="because",
            now=LATER,
        )

    assert guarantees(company.nlp) == [6]


def test_an_organization_has_no_percentage() -> None:
    company = a_company()

    with pytest.raises(InvalidRequest, match="no parent for a percentage"):
        change(platform_admin(), company.organization, guaranteed_bp=5000)


def test_gpus_and_percent_exclude_each_other() -> None:
    company = a_company()

    with pytest.raises(InvalidRequest, match="not both"):
        change(platform_admin(), company.nlp, guaranteed_bp=5000, guaranteed_mgpu=8_000)


LIMITS = ("borrow_limit_mgpu", "lend_limit_mgpu")
ALL = ("guaranteed_mgpu", "guaranteed_percent", *LIMITS, "weight")


@pytest.mark.parametrize(
    ("role", "where", "expected"),
    [
        (Role.PLATFORM_ADMIN, None, [ALL, ALL, ALL, ALL]),
        (Role.ORGANIZATION_ADMIN, "organization", [LIMITS, ALL, ALL, ALL]),
        (Role.DEPARTMENT_ADMIN, "research", [(), LIMITS, ALL, ()]),
        (Role.TEAM_LEAD, "nlp", [(), (), LIMITS, ()]),
        (Role.RESEARCHER, "nlp", [(), (), (), ()]),
        (Role.FINANCE, "organization", [(), (), (), ()]),
        (Role.AUDITOR, "organization", [(), (), (), ()]),
        (Role.SERVICE_ACCOUNT, "nlp", [(), (), (), ()]),
    ],
    ids=lambda value: value.value if isinstance(value, Role) else None,
)
def test_each_role_may_edit_exactly_this(
    role: Role, where: str | None, expected: list[tuple[str, ...]]
) -> None:
    """`can_edit` on organization, research, nlp and production/inference, and that the
    change itself is allowed or refused accordingly."""
    company = a_company()
    actor = an_actor(None if where is None else getattr(company, where), role)
    nodes = [company.organization, company.research, company.nlp, company.inference]
    harmless = {"weight": 50, "borrow_limit_mgpu": 1_000, "lend_limit_mgpu": 1_000}

    assert [editable_fields(actor, node) for node in nodes] == expected

    for node, allowed in zip(nodes, expected, strict=True):
        for field, value in harmless.items():
            version = quota_of(node).version
            if field in allowed:
                assert change(actor, node, **{field: value}).version == version + 1
            else:
                with pytest.raises(Forbidden):
                    change(actor, node, **{field: value})
                assert quota_of(node).version == version


def test_a_lead_lowers_the_borrow_limit_but_does_not_raise_or_clear_it() -> None:
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)

    change(lead, company.nlp, borrow_limit_mgpu=8_000)
    change(lead, company.nlp, borrow_limit_mgpu=4_000)
    with pytest.raises(Forbidden) as refusal:
        change(lead, company.nlp, borrow_limit_mgpu=4_001)
    with pytest.raises(Forbidden):
        change(lead, company.nlp, borrow_limit_mgpu=None)

    assert quota_of(company.nlp).borrow_limit_mgpu == 4_000
    assert refusal.value.data["node"] == "ai-company/research"
    assert "now 4 GPUs, which you may only lower" in refusal.value.detail
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    change(admin, company.nlp, borrow_limit_mgpu=None)
    assert quota_of(company.nlp).borrow_limit_mgpu is None


def test_a_lead_sets_and_clears_the_own_lend_limit() -> None:
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)

    change(lead, company.nlp, lend_limit_mgpu=0)
    change(lead, company.nlp, lend_limit_mgpu=8_000)
    change(lead, company.nlp, lend_limit_mgpu=None)

    assert quota_of(company.nlp).lend_limit_mgpu is None


def test_values_that_stay_need_no_right() -> None:
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)

    change(lead, company.nlp, guaranteed_mgpu=8_000, weight=100, lend_limit_mgpu=0)

    assert quota_of(company.nlp).lend_limit_mgpu == 0


def test_a_quota_of_another_organization_does_not_exist() -> None:
    company = a_company()
    charlie = an_actor(an_organization("other"), Role.ORGANIZATION_ADMIN, "charlie")

    with pytest.raises(NotFound):
        change(charlie, company.nlp, lend_limit_mgpu=0)
    with pytest.raises(NotFound):
        give(charlie, a_team(company.research, "speech"), guaranteed_mgpu=0)

    assert quota_of(company.nlp).version == 1
    assert Quota.objects.count() == 6


def a_new_team(company: Company) -> Node:
    """A team of research, which has 8 GPUs left for it."""
    Quota.objects.filter(node=company.vision).update(guaranteed_mgpu=0)
    return a_team(company.research, "speech")


def test_a_first_quota_needs_the_right_on_the_parent() -> None:
    company = a_company()
    team = a_new_team(company)

    with pytest.raises(Forbidden):
        give(an_actor(team, Role.TEAM_LEAD), team, guaranteed_mgpu=0)
    quota = give(
        an_actor(company.research, Role.DEPARTMENT_ADMIN),
        team,
        guaranteed_mgpu=8_000,
        lend_limit_mgpu=2_000,
    )

    assert (quota.version, quota.guaranteed_mgpu, quota.lend_limit_mgpu) == (1, 8_000, 2_000)
    history = QuotaChange.objects.get(quota=quota)
    assert (history.before, history.reason) == (None, "first")


def test_an_organizations_first_quota_is_the_platforms_to_give() -> None:
    organization = an_organization("new")
    a_pool()

    with pytest.raises(Forbidden):
        give(an_actor(organization, Role.ORGANIZATION_ADMIN), organization, guaranteed_mgpu=1_000)
    give(platform_admin(), organization, guaranteed_mgpu=1_000)

    assert guarantees(organization) == [1]


def refused(kind: type[PortalError], node: Node, **edit: Any) -> str:
    with pytest.raises(kind) as refusal:
        give(platform_admin(), node, **edit)
    return refusal.value.detail


def test_what_a_first_quota_needs() -> None:
    company = a_company()
    orphan = a_team(a_department(company.organization, "empty"), "orphan")
    team = a_new_team(company)

    assert refused(Conflict, company.nlp, guaranteed_mgpu=0) == (
        "ai-company/research/nlp has a quota in h100 already. Change that one."
    )
    assert refused(Conflict, orphan, guaranteed_mgpu=0) == (
        "ai-company/empty has no quota in h100. Give it one first."
    )
    assert refused(InvalidRequest, team, weight=5) == (
        "The guarantee is missing: give guaranteed_mgpu or guaranteed_percent."
    )
    assert refused(EnvelopeBroken, team, guaranteed_mgpu=9_000).startswith(
        "speech would be guaranteed 9 GPUs, but research has 16 and guarantees 8"
    )
    with pytest.raises(InvalidRequest, match=r"There is no pool 'b200'\. Pools: h100\."):
        create_quota(
            team.display_path,
            "b200",
            QuotaEdit(guaranteed_mgpu=0),
            actor=platform_admin(),
            reason="first",
            now=NOW,
        )


def test_a_first_percentage_moves_its_siblings_rounding() -> None:
    root, pool, admin = an_organization(), a_pool(), platform_admin()
    a_quota(root, pool, 10)
    first, second = a_team(root, "a"), a_team(root, "b")
    give(admin, first, guaranteed_bp=3400)
    assert guarantees(first) == [3]

    give(admin, second, guaranteed_bp=6600)

    assert guarantees(first, second) == [3, 7]
    third = a_team(root, "c")
    with pytest.raises(EnvelopeBroken):
        give(admin, third, guaranteed_bp=2000)
    assert not Quota.objects.filter(node=third).exists()


def test_an_unknown_quota_is_not_found() -> None:
    with pytest.raises(NotFound):
        change_quota(
            uuid7(),
            QuotaEdit(weight=1),
            actor=platform_admin(),
            if_version=1,
            reason="because",
            now=NOW,
        )
