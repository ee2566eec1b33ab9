"""A team, or a department with all below it, is moved: history stays where it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from audit.models import AuditEvent
from billing.amounts import Amounts
from billing.models import UsageClass
from billing.periods import Period
from builders.api_callers import by_token
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at
from builders.cast import Cast, a_cast
from builders.chargeback_builders import all_jobs, report_of
from builders.clocks import ClockAt
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster,
    a_company,
    a_department,
    a_grant,
    a_quota,
    a_team,
    a_user,
    an_actor,
)
from chargeback.dimensions import Dimension
from chargeback.jobs import JobKey, jobs_behind
from chargeback.reports import Narrowed
from clusters.models import Cluster
from jobs.actions.moving import move, preview_move
from jobs.arbitration.memory import Memory
from jobs.execution.workloads import workload_of
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound, PortalError
from quotas.administration import QuotaEdit, change_quota
from quotas.envelope import EnvelopeBroken
from quotas.models import OrganizationPolicy, PlannedChange, Quota, QuotaChange
from quotas.planned_changes import draft_change
from tenants.access import Actor, actor_of
from tenants.models import FormerPlace, Node, User
from tenants.places import nodes_by_path, path_at
from tenants.roles import Role
from tenants.structure import create_below

pytestmark = pytest.mark.django_db

HOUR = 3_600
MOVED = at(1_200)


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def cast(company: Company) -> Cast:
    """Production guarantees inference only 8 of its 16 GPUs, so that nlp's 8 fit."""
    Quota.objects.filter(node=company.inference).update(guaranteed_mgpu=8_000)
    return a_cast(company)


@pytest.fixture
def alice(cast: Cast) -> Actor:
    return actor_of(cast.alice)


def to_production(company: Company, actor: Actor, now: datetime = MOVED) -> Node:
    return move(company.nlp.pk, "ai-company/production", actor=actor, clock=ClockAt(now))


def amounts(actor: Actor, path: str | None = None) -> dict[str, tuple[int, int]]:
    """Milli-GPU-seconds and nano of each department and team in the first hour's reports."""
    found: dict[str, tuple[int, int]] = {}
    for by in (Dimension.DEPARTMENT, Dimension.TEAM):
        report = report_of(actor, Period(at(0), at(HOUR), LATER), by, node=path)
        assert report.segments_mgpu_s == report.totals.mgpu_s
        assert sum((row.amounts for row in report.rows), Amounts()).cost_nano == (
            report.totals.cost_nano
        )
        found |= {row.keys[0]: (row.amounts.mgpu_s, row.amounts.cost_nano) for row in report.rows}
    return found


def refused(by: str, act: Any) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        act()
    assert refusal.value.__cause__.diag.constraint_name == by  # type: ignore[union-attr]


def test_what_was_used_before_stays_with_the_former_department(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """An attempt of nlp runs through the first hour on 7 mGPU at 3.6 EUR less 1 nano: 2,333 1/3
    nano a second and more, so that either part is rounded on its own and both sum to the whole.

    Planted: usage by the present place; costs cut at the move without what was used before."""
    a_rate_card(company.organization, {"guaranteed": 1_199_999_999})
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=7, user=cast.bob)
    a_metered_attempt(company.vision, 0, 10, mgpu=1_000, user=cast.bob)
    whole = amounts(alice)
    assert whole == {
        "ai-company/research": (35_200, 11_733_333),
        "ai-company/research/nlp": (25_200, 8_400_000),
        "ai-company/research/vision": (10_000, 3_333_333),
    }
    to_production(company, alice)
    assert amounts(alice) == {
        "ai-company/production": (16_800, 5_600_000),
        "ai-company/production/nlp": (16_800, 5_600_000),
        "ai-company/research": (18_400, 6_133_333),
        "ai-company/research/nlp": (8_400, 2_800_000),
        "ai-company/research/vision": (10_000, 3_333_333),
    }


def test_who_sees_the_bills_of_either_side(company: Company, cast: Cast, alice: Actor) -> None:
    """Research's admin keeps what nlp cost research, production's has what it costs since, and
    nlp's lead has both. A path names one place: of nlp's two, each has its own.

    Planted: the former paths of nodes with roles left out; what lies elsewhere counted in a
    report's check."""
    a_rate_card(company.organization, {"guaranteed": 1_200_000_000})
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=6, user=cast.bob)
    to_production(company, alice)
    research, production, lead = (
        actor_of(user) for user in (cast.research_admin, cast.production_admin, cast.nlp_lead)
    )
    before, after = (7_200, 2_400_000), (14_400, 4_800_000)
    assert amounts(research) == {
        "ai-company/research": before,
        "ai-company/research/nlp": before,
    }
    assert amounts(production) == {
        "ai-company/production": after,
        "ai-company/production/nlp": after,
    }
    # Of a department above the visible node, only a part is in the row.
    assert amounts(lead) == {
        "ai-company/production (part)": after,
        "ai-company/production/nlp": after,
        "ai-company/research (part)": before,
        "ai-company/research/nlp": before,
    }
    assert amounts(research, "ai-company/research/nlp") == {
        "ai-company/research (part)": before,
        "ai-company/research/nlp": before,
    }
    assert amounts(alice, "ai-company/production/nlp") == {
        "ai-company/production (part)": after,
        "ai-company/production/nlp": after,
    }
    for actor, path in ((production, "research"), (research, "production")):
        with pytest.raises(Forbidden):
            amounts(actor, f"ai-company/{path}/nlp")
    with pytest.raises(NotFound):
        amounts(actor_of(cast.charlie), "ai-company/research/nlp")


def test_the_jobs_behind_a_number_are_cut_at_the_move(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """Every page has its part, and of the whole organization both parts of one job are listed.

    Planted: pages that end by usage, job and class alone, with two parts of the same length."""
    attempt = a_metered_attempt(company.nlp, 0, 2_400, mgpu=6, user=cast.bob)
    to_production(company, alice)
    jobs = all_jobs(alice, Period(at(0), at(HOUR), LATER), Narrowed(node_path="ai-company"), page=1)
    assert {job.job_id for job in jobs} == {attempt.job_id}
    found = [(job.team, job.mgpu_s) for job in jobs]
    assert found == [("ai-company/production/nlp", 7_200), ("ai-company/research/nlp", 7_200)]
    (job,), more = jobs_behind(
        actor=actor_of(cast.research_admin),
        period=Period(at(0), at(HOUR), LATER),
        narrowed=Narrowed(node_path="ai-company/research/nlp"),
        limit=1,
    )
    assert (job.team, job.mgpu_s, more) == ("ai-company/research/nlp", 7_200, False)


def test_a_page_after_a_team_that_is_gone_is_refused(company: Company, cast: Cast) -> None:
    """Planted: the page began before all of the same usage, and listed the last job again."""
    attempt = a_metered_attempt(company.nlp, 0, HOUR, mgpu=6, user=cast.bob)
    with pytest.raises(InvalidRequest) as refusal:
        jobs_behind(
            actor=actor_of(cast.alice),
            period=Period(at(0), at(HOUR), LATER),
            narrowed=Narrowed(node_path="ai-company"),
            after=JobKey(
                6 * HOUR, attempt.job_id, UsageClass.GUARANTEED, "ai-company/gone", "h100"
            ),
            limit=1,
        )
    assert refusal.value.detail == (
        "The last page ended with ai-company/gone in h100, which is no longer in this list. "
        "Start again without the cursor."
    )


def test_a_department_takes_along_all_below_it_and_may_come_back(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """Planted: only the department's own path changed (the database refuses that)."""
    parts = a_department(company.organization, "parts")
    Quota.objects.filter(node=company.organization).update(guaranteed_mgpu=48_000)
    a_quota(parts, company.pool, 16)
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=1, user=cast.bob)
    move(company.research.pk, "ai-company/parts", actor=alice, clock=ClockAt(at(100)))
    moved = Node.objects.filter(path__startswith="ai-company/parts/r").order_by("path")
    assert [node.display_path.removeprefix("ai-company/parts/") for node in moved] == [
        "research",
        "research/nlp",
        "research/vision",
    ]
    move(company.research.pk, "ai-company", actor=alice, clock=ClockAt(at(300)))
    used = {path: mgpu_s for path, (mgpu_s, _) in amounts(alice).items()}
    assert used == {
        "ai-company/parts": 200,
        "ai-company/parts/research/nlp": 200,
        "ai-company/research": 3_400,
        "ai-company/research/nlp": 3_400,
    }
    nlp = Node.objects.get(pk=company.nlp.pk)
    assert [path_at(nlp, at(second)) for second in (0, 99, 100, 299, 300)] == [
        *["ai-company/research/nlp"] * 2,
        *["ai-company/parts/research/nlp"] * 2,
        "ai-company/research/nlp",
    ]


def test_rights_follow_from_the_new_place_at_once(
    company: Company, cast: Cast, alice: Actor
) -> None:
    job = a_job(company, cast.bob)

    def sees(user: User) -> int:
        return int(by_token(user).get(f"jobs/{job.pk}").status_code)

    assert (sees(cast.research_admin), sees(cast.production_admin)) == (200, 404)
    to_production(company, alice)
    assert (sees(cast.research_admin), sees(cast.production_admin)) == (404, 200)
    assert (sees(cast.nlp_lead), sees(cast.bob)) == (200, 200)


def test_the_next_cycle_has_it_at_its_new_place_and_its_jobs_run_on(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """The rank names it by its new path. An attempt that was granted before is sent again as it
    was: to the same account, namespace and name.

    Planted: rank left as it was; a repeat of a submission with the present path."""
    policy = OrganizationPolicy.objects.filter(organization=company.organization)
    policy.update(rank=["ai-company/research/nlp", "ai-company/research"])
    running = a_job(company, cast.bob, state="running")
    attempt = an_attempt(running, cluster=company.cluster)
    memory = Memory()
    before = memory.read(NOW).snapshot
    now = NOW + timedelta(minutes=1)
    to_production(company, alice, now)
    after = memory.read(now + timedelta(seconds=1)).snapshot

    def place(snapshot: Any) -> tuple[str | None, int]:
        (node,) = [each for each in snapshot.nodes if each.id == str(company.nlp.pk)]
        return node.parent, node.rank

    (old_parent, old_rank), (new_parent, new_rank) = place(before), place(after)
    assert (old_parent, new_parent) == (str(company.research.pk), str(company.production.pk))
    assert old_rank == new_rank
    assert policy.get().rank == ["ai-company/production/nlp", "ai-company/research"]
    assert [run.job for run in after.running] == [str(running.pk)]
    attempt.job.team.refresh_from_db()
    again = workload_of(attempt)
    assert (again.team, again.environment["TIDEGATE_TEAM"]) == ("ai-company/research/nlp",) * 2
    attempt.granted_at = now
    assert workload_of(attempt).team == "ai-company/production/nlp"


def test_guarantees_must_fit_below_the_new_parent(company: Company, cast: Cast) -> None:
    """Planted: guarantees not compared."""
    Quota.objects.filter(node=company.inference).update(guaranteed_mgpu=9_000)
    alice = actor_of(cast.alice)
    told = (
        "nlp would be guaranteed 8 GPUs, but production has 16 and guarantees 9 of them to its "
        "other teams; 7 are left. Lower inference or nlp first."
    )
    assert preview_move(company.nlp.pk, "ai-company/production", actor=alice).problem == told
    with pytest.raises(EnvelopeBroken) as refusal:
        to_production(company, alice)
    assert refusal.value.detail == told
    other = a_department(company.organization, "other")
    with pytest.raises(Conflict) as missing:
        move(company.nlp.pk, other.path, actor=alice, clock=ClockAt(MOVED))
    assert missing.value.detail == (
        "ai-company/other has no quota in h100. Give it one first, of at least the 8 GPUs that "
        "nlp is guaranteed."
    )
    assert not FormerPlace.objects.exists()


def test_a_percentage_becomes_what_it_came_to(company: Company, alice: Actor) -> None:
    """Half of research's 16 GPUs stay 8 in production. Planted: half of production's."""
    quota = Quota.objects.get(node=company.nlp)
    change_quota(
        quota.pk,
        QuotaEdit(guaranteed_bp=5_000),
        actor=alice,
        if_version=1,
        reason="half",
        now=NOW,
    )
    (moved,) = preview_move(company.nlp.pk, "ai-company/production", actor=alice).guarantees
    assert moved.leaves is not None
    assert moved.joins is not None
    assert (moved.leaves.reserve_before_mgpu, moved.leaves.reserve_after_mgpu) == (0, 8_000)
    assert (moved.joins.reserve_before_mgpu, moved.joins.reserve_after_mgpu) == (8_000, 0)
    to_production(company, alice, NOW)
    quota.refresh_from_db()
    assert (quota.guaranteed_mgpu, quota.guaranteed_bp, quota.version) == (8_000, None, 3)
    change = QuotaChange.objects.filter(quota=quota).latest("pk")
    assert change.reason == "Moved away from ai-company/research"


def test_a_draft_of_quotas_follows(company: Company, cast: Cast, alice: Actor) -> None:
    """It is of the lowest node above all that it sets, and what was previewed is another state.

    Planted: drafts left as they were: nlp's quota was not among those that are locked."""
    lab = a_department(company.research, "lab")
    a_quota(lab, company.pool, 0)
    inner = a_team(lab, "inner")
    a_quota(inner, company.pool, 0)
    edits = [(Quota.objects.get(node=inner).pk, QuotaEdit(weight=5))]
    draft = draft_change(
        edits, reason="more", apply_at=None, revert_after_s=None, actor=alice, now=NOW
    )
    both = draft_change(
        [*edits, (Quota.objects.get(node=lab).pk, QuotaEdit(weight=7))],
        reason="both",
        apply_at=None,
        revert_after_s=None,
        actor=alice,
        now=NOW,
    )
    assert (draft.node_id, both.node_id) == (inner.pk, lab.pk)
    move(inner.pk, "ai-company/production", actor=alice, clock=ClockAt(NOW))
    rows = {each.pk: (each.node.display_path, each.version) for each in PlannedChange.objects.all()}
    assert rows == {draft.pk: ("ai-company/production/inner", 2), both.pk: ("ai-company", 2)}


def test_who_may_move_it(company: Company, cast: Cast, alice: Actor) -> None:
    """An administrator of both parents. Planted: only the new parent's rights asked."""
    for user in (cast.research_admin, cast.production_admin, cast.nlp_lead, cast.finance):
        with pytest.raises(Forbidden):
            to_production(company, actor_of(user))
    with pytest.raises(NotFound):
        to_production(company, actor_of(cast.charlie))
    to_production(company, actor_of(cast.root))


@pytest.mark.parametrize(
    ("parent", "told"),
    [
        ("ai-company/research", "ai-company/research/nlp is below ai-company/research already."),
        (
            "ai-company/production/inference",
            "ai-company/production/inference is a team, and a team cannot have children.",
        ),
        (
            "rival-lab",
            "ai-company/research/nlp must stay in its organization. Give a parent in it.",
        ),
    ],
)
def test_where_it_cannot_be_moved_to(company: Company, cast: Cast, parent: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        move(company.nlp.pk, parent, actor=actor_of(cast.root), clock=ClockAt(MOVED))
    assert refusal.value.detail == told


def test_what_else_is_refused(company: Company, cast: Cast, alice: Actor) -> None:
    lab = a_department(company.research, "lab")
    a_quota(lab, company.pool, 0)

    def told(node: Node, parent: Node, now: datetime = MOVED) -> str:
        with pytest.raises(PortalError) as refusal:
            move(node.pk, parent.path, actor=alice, clock=ClockAt(now))
        return str(refusal.value.detail)

    assert told(company.research, lab) == (
        "ai-company/research/lab is ai-company/research itself, or below it."
    )
    assert told(company.organization, lab) == (
        "ai-company is an organization. Only teams and departments can be moved."
    )
    double = a_team(company.production, "nlp")
    assert told(double, company.research) == "There is already a ai-company/research/nlp."
    Node.objects.filter(pk=double.pk).update(archived_at=NOW)
    assert told(double, lab) == "ai-company/production/nlp is archived. Restore it first."
    move(lab.pk, "ai-company", actor=alice, clock=ClockAt(MOVED))
    assert (
        told(lab, company.research) == "ai-company/lab was moved just now. Try again in a second."
    )


def test_a_path_stays_its_nodes(company: Company, cast: Cast, alice: Actor) -> None:
    """So bills, accounts and namespaces that bear it are never taken for another team's; what a
    cluster has on its account is the team's still.

    Planted: the trigger left out, for a row that is inserted past the portal."""
    to_production(company, alice)
    with pytest.raises(Conflict) as refusal:
        create_below(
            actor=alice,
            kind=company.nlp.kind,
            parent_path="ai-company/research",
            slug="nlp",
            name="New",
            now=LATER,
        )
    assert refusal.value.detail == (
        "ai-company/research/nlp is the former path of ai-company/production/nlp, and bills still "
        "use it. Choose another slug."
    )
    refused("tree_path_stays_its_nodes", lambda: a_team(company.research, "nlp"))
    found = nodes_by_path(["ai-company/research/nlp", "ai-company/production/nlp"], "team")
    assert {path: node.pk for path, node in found.items()} == {
        "ai-company/research/nlp": company.nlp.pk,
        "ai-company/production/nlp": company.nlp.pk,
    }


def test_a_path_that_something_below_would_get_is_named(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """Inner was research/lab/inner before it left lab, so lab, which was moved since and has
    another inner, cannot come back with that one.

    Planted: the path of the moved node alone compared."""
    lab = a_department(company.research, "lab")
    a_quota(lab, company.pool, 0)
    inner = a_team(lab, "inner")
    a_quota(inner, company.pool, 0)
    move(inner.pk, "ai-company/production", actor=alice, clock=ClockAt(at(100)))
    move(lab.pk, "ai-company/production", actor=alice, clock=ClockAt(at(200)))
    a_team(Node.objects.get(pk=lab.pk), "inner")
    with pytest.raises(Conflict) as refusal:
        preview_move(lab.pk, "ai-company/research", actor=alice)
    assert refusal.value.detail == (
        "ai-company/research/lab/inner is the former path of ai-company/production/inner, and "
        "bills still use it. Choose another slug."
    )
    with pytest.raises(Conflict) as same:
        move(lab.pk, "ai-company/research", actor=alice, clock=ClockAt(at(300)))
    assert same.value.detail == refusal.value.detail


def test_where_a_former_team_lies_is_told_only_to_those_who_see_it(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """Planted: the new path told to all."""
    to_production(company, alice)
    guest = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    outside = replace(guest, organization_path=None)
    for actor, told in (
        (guest, "the former path of ai-company/production/nlp"),
        (outside, "the former path of another node"),
    ):
        with pytest.raises(Conflict) as refusal:
            create_below(
                actor=actor,
                kind=company.nlp.kind,
                parent_path="ai-company/research",
                slug="nlp",
                name="New",
                now=LATER,
            )
        assert refusal.value.detail == (
            f"ai-company/research/nlp is {told}, and bills still use it. Choose another slug."
        )


def test_people_above_are_named_to_those_who_see_their_roles(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """Somebody who administers only the two parents learns how many roles come and go, not whose.

    Planted: everybody named."""
    old, new = (a_department(each, "part") for each in (company.research, company.production))
    inner = a_team(old, "inner")
    mover = a_user(company.organization)
    for node in (old, new):
        a_grant(mover, Role.DEPARTMENT_ADMIN, node)
    named = {}
    for actor in (actor_of(mover), alice):
        roles = preview_move(inner.pk, new.path, actor=actor).roles
        named[actor.user.username] = (
            (roles.gained_count, [each.user.username for each in roles.gained]),
            (roles.lost_count, [each.user.username for each in roles.lost]),
        )
    assert named == {
        mover.username: ((1, []), (1, [])),
        "alice": ((1, ["production-admin"]), (1, ["research-admin"])),
    }


def test_the_database_keeps_the_tree_and_the_past(
    company: Company, cast: Cast, alice: Actor
) -> None:
    """Planted: children not looked at; times not compared; rows of the past changed and deleted;
    the guarantees of a moved node not compared; an archived parent not looked at."""
    nodes = Node.objects.filter
    law = "tree_node_keeps_its_place"
    path = {"path": "ai-company/production/nlp/", "moved_at": MOVED}
    refused(law, lambda: nodes(pk=company.nlp.pk).update(**path))
    refused(law, lambda: nodes(pk=company.nlp.pk).update(parent=company.production))
    refused(law, lambda: nodes(pk=company.nlp.pk).update(moved_at=MOVED))
    refused(
        law,
        lambda: nodes(pk=company.research.pk).update(
            parent=company.production, path="ai-company/production/research/", moved_at=MOVED
        ),
    )
    path["parent"] = company.production
    refused(
        "tree_node_leaves_its_place",
        lambda: nodes(pk=company.nlp.pk).update(**path | {"moved_at": None}),
    )
    to_production(company, alice)
    past = FormerPlace.objects.get()
    assert (past.path, past.start, past.end) == ("ai-company/research/nlp/", None, MOVED)
    refused("former_place_is_kept", lambda: FormerPlace.objects.update(end=LATER))
    refused("former_place_is_kept", past.delete)
    back = {"parent": company.research, "path": "ai-company/research/nlp/"}
    refused(
        "tree_node_leaves_its_place",
        lambda: nodes(pk=company.nlp.pk).update(**back, moved_at=MOVED),
    )


def test_the_database_compares_guarantees_and_archiving_after_a_move(company: Company) -> None:
    """Planted: both triggers as they were before nodes moved."""
    with connection.cursor() as cursor:
        # Quotas that are new are compared now, so that only the move is left to look at.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")

    def past_the_portal() -> None:
        Node.objects.filter(pk=company.nlp.pk).update(
            parent=company.production, path="ai-company/production/nlp/", moved_at=MOVED
        )
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    refused("quota_children_fit_in_their_parent", past_the_portal)
    Quota.objects.filter(node=company.inference).update(guaranteed_mgpu=0)
    Node.objects.filter(pk=company.inference.pk).update(archived_at=NOW)
    Node.objects.filter(pk=company.production.pk).update(archived_at=NOW)
    refused("tree_node_is_archived_with_its_parent", past_the_portal)


def test_over_rest(company: Company, cast: Cast) -> None:
    """Planted: nothing said of the clusters that need a push; disabled ones named, too."""
    running = a_job(company, cast.bob, name="runs", state="running")
    an_attempt(running, cluster=company.cluster)
    a_job(company, cast.bob, name="waits")
    caller = by_token(cast.alice)
    address = f"tree/{company.nlp.pk}/move"
    shown = caller.get(f"{address}?parent=ai-company/production").json()
    assert {name: shown[name] for name in ("parent", "path", "waiting", "running", "problem")} == {
        "parent": "ai-company/production",
        "path": "ai-company/production/nlp",
        "waiting": 1,
        "running": 1,
        "problem": "",
    }
    assert [job["name"] for job in shown["running_jobs"]] == ["runs"]
    assert shown["guarantees"] == [
        {
            "pool": "h100",
            "device": "gpu",
            "guaranteed_mgpu": 8_000,
            "guaranteed_percent": None,
            "leaves": {
                "guaranteed_mgpu": 16_000,
                "reserve_before_mgpu": 0,
                "reserve_after_mgpu": 8_000,
            },
            "joins": {
                "guaranteed_mgpu": 16_000,
                "reserve_before_mgpu": 8_000,
                "reserve_after_mgpu": 0,
            },
            "problem": "",
        }
    ]

    def role(user: User, given_on: str) -> dict[str, str]:
        return {
            "user": user.login,
            "name": user.name,
            "role": "department_admin",
            "given_on": given_on,
        }

    assert (shown["gained_count"], shown["gained"]) == (
        1,
        [role(cast.production_admin, "ai-company/production")],
    )
    assert (shown["lost_count"], shown["lost"]) == (
        1,
        [role(cast.research_admin, "ai-company/research")],
    )
    assert caller.get(address).status_code == 400

    for name, kind in (("b", "slurm"), ("a", "kubernetes"), ("off", "slurm")):
        a_cluster(name, kind=kind)
    Cluster.objects.filter(name="off").update(is_enabled=False)
    moved = caller.post(address, {"parent": "ai-company/production"})
    assert (moved.status_code, moved.json()["path"]) == (200, "ai-company/production/nlp")
    assert moved.json()["clusters_to_push"] == ["a", "b"]
    running.refresh_from_db()
    assert running.state == "running"
    events = AuditEvent.objects.order_by("pk").values_list("action", "node_path", "detail")
    detail = {
        "from": "ai-company/research/nlp",
        "to": "ai-company/production/nlp",
        "nodes": 1,
    }
    assert list(events) == [
        ("team_moved_away", "ai-company/research/nlp/", detail),
        ("team_moved", "ai-company/production/nlp/", detail),
    ]
