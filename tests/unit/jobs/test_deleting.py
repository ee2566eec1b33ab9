"""Only what was never used is deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.clocks import ClockAt
from builders.job_builders import a_job, an_array
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_department,
    a_grant,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from jobs.actions.deleting import delete_node
from jobs.actions.moving import move
from primitives.errors import Conflict
from quotas.administration import QuotaEdit, create_quota
from quotas.models import OrganizationPolicy, Quota, QuotaChange
from quotas.planned_changes import draft_change
from tenants.access import Actor
from tenants.granting import grant_role, revoke_role
from tenants.models import FormerArchiving, FormerPlace, Node, User
from tenants.roles import Role
from tenants.structure import (
    archive_node,
    create_below,
    locked_node_to_archive,
    remove_node,
    restore_node,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def admin(company: Company) -> Actor:
    return an_actor(company.organization, Role.ORGANIZATION_ADMIN)


def refusal_of(node: Node, actor: Actor) -> str:
    with pytest.raises(Conflict) as refusal:
        delete_node(node.pk, actor=actor, now=NOW)
    assert Node.objects.filter(pk=node.pk).exists()
    return str(refusal.value.detail)


def used(by: str, path: str = "ai-company/research/nlp") -> str:
    return (
        f"{path} has {by}. Only what was never used can be deleted. Archive it instead: its "
        "history and bills stay readable."
    )


def test_what_was_never_used_goes_with_its_quotas_and_their_history(
    company: Company, admin: Actor
) -> None:
    """Moved about or archived is not used.

    Against: quotas, their history, former places and former archivings left.
    """
    nlp = company.nlp
    lab = a_department(company.research, "lab")
    zero = QuotaEdit(guaranteed_mgpu=0)
    create_quota(lab.path, "h100", zero, actor=admin, reason="new", now=NOW)
    move(lab.pk, "ai-company/production", actor=admin, clock=ClockAt(NOW))
    archive_node(actor=admin, node=locked_node_to_archive(admin, lab.pk), now=NOW)
    restore_node(actor=admin, node_id=lab.pk, now=NOW)
    delete_node(lab.pk, actor=admin, now=NOW)
    assert not Node.objects.filter(pk=lab.pk).exists()
    assert not QuotaChange.objects.filter(quota__node=lab.pk).exists()
    assert not FormerPlace.objects.exists()
    assert not FormerArchiving.objects.exists()
    event = AuditEvent.objects.get(action="department_deleted")
    assert (event.node_path, event.subject_id) == ("ai-company/production/lab/", str(lab.pk))
    delete_node(nlp.pk, actor=admin, now=NOW)
    again = create_below(
        actor=admin,
        kind=nlp.kind,
        parent_path="ai-company/research",
        slug="nlp",
        name="NLP",
        now=NOW,
    )
    assert again.path == nlp.path


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda company, user: a_job(company, user, state="cancelled"), "jobs"),
        (lambda company, user: an_array(company, user), "jobs"),
        (lambda company, user: a_metered_attempt(company.nlp, user=user), "bills"),
        (lambda company, user: a_grant(user, Role.RESEARCHER, company.nlp), "members, or had some"),
    ],
)
def test_what_used_it_is_named(
    company: Company, admin: Actor, use: Callable[[Company, User], object], told: str
) -> None:
    """Against: each of these left out."""
    use(company, a_user(company.organization))
    assert refusal_of(company.nlp, admin) == used(told)


def test_members_of_the_past_count_and_those_of_an_older_node_do_not(
    company: Company, admin: Actor
) -> None:
    """Against: only the roles of today; roles of all times."""
    user = a_user(company.organization)

    def had_a_member(now_s: int) -> None:
        now = NOW + timedelta(seconds=now_s)
        grant = grant_role(
            actor=admin, login=user.login, role=Role.RESEARCHER, node_path="nlp", now=now
        )
        revoke_role(actor=admin, grant_id=grant.pk, now=now)

    had_a_member(-5)
    had_a_member(5)
    assert refusal_of(company.nlp, admin) == used("members, or had some")
    Node.objects.filter(pk=company.nlp.pk).update(created_at=NOW + timedelta(seconds=6))
    delete_node(company.nlp.pk, actor=admin, now=NOW)


def test_plans_and_what_is_below_and_prices_hold_it(company: Company, admin: Actor) -> None:
    draft_change(
        [(Quota.objects.get(node=company.nlp).pk, QuotaEdit(weight=5))],
        reason="more",
        apply_at=None,
        revert_after_s=None,
        actor=admin,
        now=NOW,
    )
    assert refusal_of(company.nlp, admin) == used("planned changes of its quotas")
    assert refusal_of(company.research, admin) == (
        "Something lies below ai-company/research. Delete that first."
    )
    root = an_actor(None, Role.PLATFORM_ADMIN)
    bare = an_organization("bare")
    a_rate_card(bare)
    assert refusal_of(bare, root) == used("prices", "bare")


def test_bills_of_a_team_that_was_moved_away_hold_its_department(
    company: Company, admin: Actor
) -> None:
    """Also where the department itself was moved since: bills bear all these paths, and no later
    department is to get them.

    Planted: former places below it not asked; only those below its present path."""
    lab = a_department(company.research, "lab")
    inner = a_team(lab, "inner")
    a_metered_attempt(inner, user=a_user(company.organization))
    move(inner.pk, "ai-company/production", actor=admin, clock=ClockAt(NOW))
    told = "bills of teams that lay below it"
    assert refusal_of(lab, admin) == used(told, "ai-company/research/lab")
    move(lab.pk, "ai-company/production", actor=admin, clock=ClockAt(NOW))
    assert refusal_of(lab, admin) == used(told, "ai-company/production/lab")


@pytest.mark.parametrize("is_moved", [False, True])
def test_the_database_keeps_it_too(company: Company, admin: Actor, is_moved: bool) -> None:
    """Planted: each of the two triggers left out."""
    lab = a_department(company.research, "lab")
    inner = a_team(lab, "inner")
    move(inner.pk, "ai-company/production", actor=admin, clock=ClockAt(NOW))
    if is_moved:
        move(lab.pk, "ai-company/production", actor=admin, clock=ClockAt(NOW))

    def past_the_portal() -> None:
        remove_node(Node.objects.get(pk=lab.pk))
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        past_the_portal()
    constraint = refusal.value.__cause__.diag.constraint_name  # type: ignore[union-attr]
    assert constraint == "place_of_former_places_is_kept"
    # A team that never was used leaves nothing that bears the path.
    delete_node(inner.pk, actor=admin, now=NOW)
    delete_node(lab.pk, actor=admin, now=NOW)


def test_the_rank_names_it_no_longer(company: Company, admin: Actor) -> None:
    """So that others are moved and ranked, and a later node of the path begins without a rank.

    Planted: the rank left as it was."""
    policy = OrganizationPolicy.objects.filter(organization=company.organization)
    policy.update(rank=["ai-company/research/vision", "ai-company/research/nlp"])
    delete_node(company.vision.pk, actor=admin, now=NOW)
    assert policy.get().rank == ["ai-company/research/nlp"]
    Quota.objects.filter(node=company.inference).update(guaranteed_mgpu=0)
    move(company.nlp.pk, "ai-company/production", actor=admin, clock=ClockAt(NOW))
    assert policy.get().rank == ["ai-company/production/nlp"]


def test_an_organization_without_people_goes_with_its_rules(company: Company) -> None:
    """Against: its policy and classes left."""
    root = an_actor(None, Role.PLATFORM_ADMIN)
    bare = an_organization("bare")
    create_quota("bare", "h100", QuotaEdit(guaranteed_mgpu=0), actor=root, reason="new", now=NOW)
    a_user(bare)
    assert refusal_of(bare, root) == used("members, or had some", "bare")
    User.objects.filter(organization=bare).delete()
    delete_node(bare.pk, actor=root, now=NOW)
    assert not Node.objects.filter(slug="bare").exists()


def test_the_history_of_a_quota_goes_with_it_only(company: Company, admin: Actor) -> None:
    """Against: the trigger with deletions let through."""
    lab = a_team(company.research, "lab")
    quota = create_quota(
        lab.path, "h100", QuotaEdit(guaranteed_mgpu=0), actor=admin, reason="new", now=NOW
    )
    for act in (
        lambda: QuotaChange.objects.filter(quota=quota).delete(),
        lambda: QuotaChange.objects.filter(quota=quota).update(reason="other"),
    ):
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            act()
        constraint = refusal.value.__cause__.diag.constraint_name  # type: ignore[union-attr]
        assert constraint == "quota_change_is_append_only"


def test_over_rest(company: Company, admin: Actor) -> None:
    caller = by_token(admin.user)
    a_job(company, admin.user)
    answer = caller.delete(f"tree/{company.nlp.pk}")
    assert (answer.status_code, answer.json()["used_by"]) == (409, ["jobs"])
    assert caller.delete(f"tree/{company.vision.pk}").status_code == 204
    assert caller.delete(f"tree/{company.vision.pk}").status_code == 404
