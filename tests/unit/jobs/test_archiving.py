"""Archived parts of the tree: nothing new starts there, and all comes back with a restore."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, a_team, a_user, an_actor
from jobs.actions.archiving import RunningWork, WaitingWork, archive, work_to_archive
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Job
from primitives.errors import Conflict
from tenants.access import Actor
from tenants.membership import change_user
from tenants.models import Node
from tenants.roles import Role
from tenants.structure import restore_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def admin(company: Company) -> Actor:
    return an_actor(company.organization, Role.ORGANIZATION_ADMIN)


def archived(node: Node, actor: Actor, **choices: Any) -> Node:
    chosen = {"waiting": WaitingWork.WAIT, "running": RunningWork.END, **choices}
    return archive(node.pk, actor=actor, now=NOW, **chosen)


def refused(by: str, act: Any) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        act()
    assert refusal.value.__cause__.diag.constraint_name == by  # type: ignore[union-attr]


def quotas_in_force(company: Company) -> set[str]:
    paths = {str(node.pk): node.slug for node in Node.objects.all()}
    return {paths[quota.node] for quota in load_snapshot(NOW).quotas}


def test_nothing_is_submitted_to_an_archived_team_not_even_past_the_portal(
    company: Company, admin: Actor
) -> None:
    """Planted: the trigger without its effect; natives refused, too."""
    archived(company.nlp, admin)
    answer = by_token(admin.user).post("jobs", a_body())
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "ai-company/research/nlp is archived and takes no jobs. Name another team.",
    )
    refused("job_is_of_a_team_that_is_not_archived", lambda: a_job(company, admin.user))
    a_job(company, admin.user, origin="native", state="running", script="")
    a_job(company, admin.user, team=company.vision)


def test_what_waits_is_not_offered_until_the_restore(company: Company, admin: Actor) -> None:
    """The leader's memory follows both, and so do quotas: nlp's 8 GPUs are not in force.

    Planted: the reason left out of what is withheld; the quotas of archived nodes in the
    snapshot."""
    job, other = a_job(company, admin.user), a_job(company, admin.user, team=company.vision)
    memory = Memory()
    assert set(memory.read(NOW).queued) == {str(job.pk), str(other.pk)}
    archived(company.nlp, admin)

    reading = memory.read(NOW + timedelta(seconds=1))
    assert set(reading.queued) == {str(other.pk)}
    assert [(one.job, one.code) for one in reading.withheld] == [(str(job.pk), "team_archived")]
    assert str(company.nlp.pk) not in {quota.node for quota in reading.snapshot.quotas}
    assert quotas_in_force(company) == {
        "ai-company",
        "research",
        "vision",
        "production",
        "inference",
    }

    restore_node(actor=admin, node_id=company.nlp.pk, now=NOW)
    reading = memory.read(NOW + timedelta(seconds=2))
    assert set(reading.queued) == {str(job.pk), str(other.pk)}
    assert str(company.nlp.pk) in {quota.node for quota in reading.snapshot.quotas}


def test_work_is_shown_and_asked_about_first(company: Company, admin: Actor) -> None:
    """Planted: archived although nothing was said of its work."""
    running = a_job(company, admin.user, name="runs", state="running")
    an_attempt(running, cluster=company.cluster)
    waiting = a_job(company, admin.user, name="waits")
    work = work_to_archive(company.research.pk, actor=admin)
    assert (work.waiting, work.running, list(work.running_jobs)) == (1, 1, [running])

    with pytest.raises(Conflict) as refusal:
        archived(company.research, admin, waiting=None, running=None)
    assert refusal.value.detail == (
        "ai-company/research has work. 1 job runs: set running to end or cancel; 1 job waits: "
        "set waiting to wait or cancel."
    )
    assert Node.objects.get(pk=company.nlp.pk).archived_at is None

    archived(company.research, admin)
    states = dict(Job.objects.values_list("name", "state"))
    assert states == {"runs": "running", "waits": "queued"}
    archived(company.research, admin, waiting=WaitingWork.CANCEL, running=RunningWork.CANCEL)
    running.refresh_from_db()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.end_reason) == ("cancelled", "cancelled_by_user")
    assert (running.state, running.cancel_requested_at) == ("running", NOW)
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "subject_kind")) == [
        ("department_archived", "department"),
        ("jobs_cancelled", "department"),
    ]


def test_a_department_comes_back_with_what_was_archived_together_with_it(
    company: Company, admin: Actor
) -> None:
    """Vision was archived before, by itself, and stays so. Planted: all below is restored."""
    archived(company.vision, admin)
    archive(
        company.research.pk,
        waiting=None,
        running=None,
        actor=admin,
        now=NOW + timedelta(hours=1),
    )
    with pytest.raises(Conflict, match="ai-company/research is archived"):
        restore_node(actor=admin, node_id=company.nlp.pk, now=NOW)
    with pytest.raises(Conflict, match="ai-company/research is archived"):
        restore_node(actor=admin, node_id=company.vision.pk, now=NOW)
    restore_node(actor=admin, node_id=company.research.pk, now=NOW)
    left = Node.objects.filter(archived_at__isnull=False)
    assert [node.slug for node in left] == ["vision"]
    assert AuditEvent.objects.latest("pk").detail == {"nodes": "2"}


def test_the_database_keeps_archived_trees_whole(company: Company, admin: Actor) -> None:
    """Planted: what is below an archived parent left out of the trigger."""
    law = "tree_node_is_archived_with_its_parent"
    nodes = Node.objects.filter
    refused(law, lambda: nodes(pk=company.research.pk).update(archived_at=NOW))
    archived(company.research, admin)
    refused(law, lambda: nodes(pk=company.nlp.pk).update(archived_at=None))
    refused(law, lambda: a_team(company.research, "new"))


def test_nothing_is_added_below_what_is_archived(company: Company, admin: Actor) -> None:
    archived(company.research, admin)
    body = {"parent": "ai-company/research", "slug": "new", "name": "New"}
    answer = by_token(admin.user).post("teams", body)
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "ai-company/research is archived. Restore it first.",
    )


def test_over_rest_and_as_the_tree_shows_it(company: Company, admin: Actor) -> None:
    caller = by_token(admin.user)
    path = f"tree/{company.nlp.pk}"
    assert caller.get(f"{path}/archive").json()["waiting"] == 0
    answer = caller.post(f"{path}/archive", {})
    assert answer.status_code == 200
    shown = caller.get(f"teams/{company.nlp.pk}").json()
    assert shown["archived_at"] == answer.json()["archived_at"] is not None
    assert caller.post(f"{path}/restore", None).json()["archived_at"] is None
    assert caller.post(f"tree/{company.organization.pk}/archive", {}).status_code == 403


def test_work_of_a_user_is_asked_about_before_they_are_deactivated(
    company: Company, admin: Actor
) -> None:
    """What waits is withheld or cancelled, as is said; jobs of others are left alone.

    Planted: the reason left out of what is withheld; the query for it without the state of the
    jobs; deactivated although nothing was said of the work."""
    bob = a_user(company.organization, "bob")
    running, waiting = a_job(company, bob, state="running"), a_job(company, bob)
    an_attempt(running, cluster=company.cluster)
    other = a_job(company, admin.user)
    caller, path = by_token(admin.user), f"users/{bob.pk}/deactivate"
    work = caller.get(path).json()
    assert (work["waiting"], work["running"]) == (1, 1)
    assert [job["id"] for job in work["running_jobs"]] == [str(running.pk)]

    answer = caller.post(path, {"running": "end"})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "bob@ai-company has work. 1 job waits: set waiting to wait or cancel.",
    )
    bob.refresh_from_db()
    assert bob.is_active

    assert caller.post(path, {"running": "end", "waiting": "wait"}).json()["is_active"] is False
    reading = Memory().read(NOW)
    assert set(reading.queued) == {str(other.pk)}
    assert [(one.job, one.code) for one in reading.withheld] == [
        (str(waiting.pk), "user_deactivated")
    ]
    caller.post(path, {"running": "cancel", "waiting": "cancel"})
    for job in (running, waiting, other):
        job.refresh_from_db()
    assert (waiting.state, other.state) == ("cancelled", "queued")
    assert running.cancel_requested_at is not None
    event = AuditEvent.objects.get(action="jobs_cancelled")
    assert (event.subject_kind, event.subject_id) == ("user", str(bob.pk))
    assert event.detail == {"jobs": 2, "because": "deactivated"}


def test_a_deactivated_user_submits_nothing_not_even_past_the_portal(
    company: Company, admin: Actor
) -> None:
    """Planted: the trigger without its effect; natives refused, too."""
    bob = a_user(company.organization, "bob")
    change_user(actor=admin, user_id=bob.pk, is_active=False, now=NOW)
    refused("job_is_of_a_user_who_is_active", lambda: a_job(company, bob))
    a_job(company, bob, origin="native", state="running", script="")
    a_job(company, admin.user)


@pytest.mark.parametrize("stopped", ["user", "team"])
def test_no_attempt_is_granted_to_what_is_withheld_not_even_past_the_arbiter(
    company: Company, admin: Actor, stopped: str
) -> None:
    """Planted: the trigger on attempts without users, without teams."""
    bob = a_user(company.organization, "bob")
    job, going_on = a_job(company, bob), a_job(company, bob, state="running")
    if stopped == "user":
        change_user(actor=admin, user_id=bob.pk, is_active=False, now=NOW)
    else:
        archived(company.nlp, admin)
    law = "attempt_is_of_what_may_start"
    refused(law, lambda: an_attempt(job, cluster=company.cluster, state="reserved"))
    an_attempt(going_on, cluster=company.cluster, state="running")


def test_a_reactivated_user_has_their_jobs_offered_again(company: Company, admin: Actor) -> None:
    bob = a_user(company.organization, "bob")
    job = a_job(company, bob)
    memory = Memory()
    memory.read(NOW)
    change_user(actor=admin, user_id=bob.pk, is_active=False, now=NOW)
    assert set(memory.read(NOW + timedelta(seconds=1)).queued) == set()
    change_user(actor=admin, user_id=bob.pk, is_active=True, now=NOW)
    assert set(memory.read(NOW + timedelta(seconds=2)).queued) == {str(job.pk)}
