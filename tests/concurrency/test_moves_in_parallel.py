"""A node is moved while somebody else archives, restores or deletes it, or changes quotas."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import transaction

from builders.clocks import ClockAt
from builders.connector_builders import eventually
from builders.job_builders import a_job
from builders.parallel import in_thread, somebody_waits_for_a_lock
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_pool,
    a_quota,
    an_actor,
)
from clusters.models import Pool
from jobs.actions.archiving import RunningWork, WaitingWork, archive
from jobs.actions.deleting import delete_node
from jobs.actions.moving import move
from primitives.errors import Forbidden
from quotas.locks import lock_quotas
from quotas.models import Quota
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role
from tenants.structure import lock_tree, restore_node

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30
MOVED = NOW + timedelta(hours=1)
Act = Callable[[Node, Actor], object]


def archive_it(node: Node, actor: Actor) -> None:
    work = {"waiting": WaitingWork.CANCEL, "running": RunningWork.END}
    archive(node.pk, actor=actor, now=MOVED, **work)


def restore_it(node: Node, actor: Actor) -> None:
    restore_node(actor=actor, node_id=node.pk, now=MOVED)


def delete_it(node: Node, actor: Actor) -> None:
    delete_node(node.pk, actor=actor, now=MOVED)


@pytest.fixture
def company() -> Company:
    """Nlp fits below production, and vision, which is archived, does so as a part of research."""
    made = a_company()
    Quota.objects.filter(node=made.inference).update(guaranteed_mgpu=0)
    return made


def beside_a_move(company: Company, node: Node, act: Act, actor: Actor, *, archived: bool) -> None:
    """`act` begins at the node's old place, and waits for its move to production to end."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            move(node.pk, "ai-company/production", actor=admin, clock=ClockAt(MOVED))
            if archived:
                Node.objects.filter(pk=node.pk).update(archived_at=NOW)
            later = in_thread(pool, lambda: act(node, actor))
            eventually(somebody_waits_for_a_lock)
        later.result(WAIT_S)


def test_what_is_moved_at_the_same_moment_is_archived_at_its_new_place(company: Company) -> None:
    """Planted: the node as it was read before the lock: jobs cancelled, nothing archived."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    job = a_job(company, admin.user)
    beside_a_move(company, company.nlp, archive_it, admin, archived=False)
    company.nlp.refresh_from_db()
    job.refresh_from_db()
    assert (company.nlp.path, company.nlp.archived_at, job.state) == (
        "ai-company/production/nlp/",
        MOVED,
        "cancelled",
    )


def test_what_is_moved_at_the_same_moment_is_restored_and_deleted(company: Company) -> None:
    """Planted: the node as it was read before the lock."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    beside_a_move(company, company.nlp, restore_it, admin, archived=True)
    company.nlp.refresh_from_db()
    assert (company.nlp.path, company.nlp.archived_at) == ("ai-company/production/nlp/", None)
    beside_a_move(company, company.vision, delete_it, admin, archived=False)
    assert not Node.objects.filter(pk=company.vision.pk).exists()


@pytest.mark.parametrize("act", [archive_it, restore_it, delete_it])
def test_rights_are_those_at_the_new_place(company: Company, act: Act) -> None:
    """Planted: rights asked before the lock only."""
    research = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    with pytest.raises(Forbidden):
        beside_a_move(company, company.nlp, act, research, archived=act is restore_it)
    found = Node.objects.get(pk=company.nlp.pk)
    assert found.archived_at == (NOW if act is restore_it else None)


def test_a_move_is_at_the_time_at_which_its_wait_ended(company: Company) -> None:
    """Planted: the clock read before the lock."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    clock = ClockAt(NOW)

    def later() -> Node:
        return move(company.nlp.pk, "ai-company/production", actor=admin, clock=clock)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            lock_tree(company.organization.pk)
            moved = in_thread(pool, later)
            eventually(somebody_waits_for_a_lock)
            clock.time = MOVED
        assert moved.result(WAIT_S).moved_at == MOVED


def test_pools_are_locked_in_the_order_of_planned_changes(company: Company) -> None:
    """Planted: by the pools' names: each waits for the other."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    second = a_pool("a100")
    for node in (company.organization, company.research, company.production, company.nlp):
        a_quota(node, second, 0)
    low, high = Pool.objects.filter(name__in=["h100", "a100"]).order_by("pk")
    assert (low.name, high.name) == ("h100", "a100")

    def move_it() -> Node:
        return move(company.nlp.pk, "ai-company/production", actor=admin, clock=ClockAt(MOVED))

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            lock_quotas(company.organization, low.pk)
            moved = in_thread(pool, move_it)
            eventually(somebody_waits_for_a_lock)
            lock_quotas(company.organization, high.pk)
        assert moved.result(WAIT_S).display_path == "ai-company/production/nlp"
