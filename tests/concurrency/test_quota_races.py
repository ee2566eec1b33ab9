"""Two people change quotas of one family at once: what each of them saw stays true."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from builders.connector_builders import eventually
from builders.parallel import in_thread, somebody_waits_for_a_lock
from builders.portal_builders import NOW, Company, a_company, a_team, an_actor
from primitives.errors import Conflict
from quotas import administration
from quotas.administration import QuotaEdit, change_quota, create_quota
from quotas.envelope import EnvelopeBroken
from quotas.models import Quota, QuotaChange
from servers import connect_as
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30


def quota_of(node: Node) -> Quota:
    return Quota.objects.get(node=node)


def change(actor: Actor, node: Node, **edit: Any) -> Quota:
    quota = quota_of(node)
    return change_quota(
        quota.pk,
        QuotaEdit(**edit),
        actor=actor,
        if_version=quota.version,
        reason="because",
        now=NOW,
    )


def half_used(company: Company) -> None:
    """Research has 16 GPUs; its teams have 4 each."""
    for node in (company.nlp, company.vision):
        Quota.objects.filter(node=node).update(guaranteed_mgpu=4_000)


def research_gpus(company: Company) -> list[int]:
    return [quota_of(node).guaranteed_mgpu // 1000 for node in (company.nlp, company.vision)]


def test_the_second_of_two_raises_waits_and_is_refused() -> None:
    """Planted: `lock_quotas` without FOR UPDATE, and the second is refused only by the database
    trigger, with another sentence (dies on the sentence)."""
    company = a_company()
    half_used(company)
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    first_has_changed = Event()

    def second() -> None:
        assert first_has_changed.wait(WAIT_S)
        change(admin, company.vision, guaranteed_mgpu=12_000)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            later = in_thread(pool, second)
            change(admin, company.nlp, guaranteed_mgpu=12_000)
            first_has_changed.set()
            eventually(somebody_waits_for_a_lock)
        with pytest.raises(EnvelopeBroken) as refusal:
            later.result(WAIT_S)

    assert refusal.value.detail == (
        "vision would be guaranteed 12 GPUs, but research has 16 and guarantees 12 of them to "
        "its other teams; 4 are left."
    )
    assert research_gpus(company) == [12, 4]


def test_without_our_lock_the_trigger_refuses_by_the_same_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have read before either writes, so both see room; the trigger's own lock and
    its look at what was committed meanwhile stop the second."""
    company = a_company()
    half_used(company)
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    both_have_read = Barrier(2, timeout=WAIT_S)

    def read_without_lock(top: Node, pool_id: object) -> list[Quota]:
        found = list(
            Quota.objects.select_related("node", "pool").filter(
                node__path__startswith=top.path, pool=pool_id
            )
        )
        both_have_read.wait()
        return found

    monkeypatch.setattr(administration, "lock_quotas", read_without_lock)
    with ThreadPoolExecutor(2) as pool:
        tries = [
            in_thread(pool, lambda node=node: change(admin, node, guaranteed_mgpu=12_000))
            for node in (company.nlp, company.vision)
        ]
        refusals = [attempt.exception(WAIT_S) for attempt in tries]

    (refusal,) = [error for error in refusals if error is not None]
    assert isinstance(refusal, EnvelopeBroken)
    assert refusal.code == "quota_envelope"
    assert refusal.detail.startswith("Somebody changed a quota beside or below this one")
    assert sorted(research_gpus(company)) == [4, 12]
    assert QuotaChange.objects.count() == 1


def test_control_without_lock_and_trigger_both_raises_land(
    owner_connection: psycopg.Connection[tuple[object, ...]], server_plan: Any
) -> None:
    """The race that the two tests above are about: 24 of 16 GPUs are given away."""
    company = a_company()
    half_used(company)
    left = "SELECT 16000 - sum(guaranteed_mgpu) FROM quotas_quota WHERE node_id = ANY(%s)"
    teams = [company.nlp.pk, company.vision.pk]
    name = str(connection.settings_dict["NAME"])

    with connect_as(server_plan, "tidegate_owner", name) as other:
        both = (owner_connection, other)
        for one in both:
            one.execute("SET session_replication_role = replica")  # no triggers
        assert [one.execute(left, [teams]).fetchone() for one in both] == [(8_000,), (8_000,)]
        for one, team in zip(both, teams, strict=True):
            one.execute(
                "UPDATE quotas_quota SET guaranteed_mgpu = 12000 WHERE node_id = %s", [team]
            )

    assert research_gpus(company) == [12, 12]


def test_a_new_child_and_a_lowered_parent_do_not_pass_each_other() -> None:
    """Planted: `lock_quotas` that reads once, and the second does not see the new team and is
    refused only by the trigger, with another sentence (dies here)."""
    company = a_company()
    half_used(company)
    team = a_team(company.research, "speech")
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    first_has_changed = Event()

    def second() -> None:
        assert first_has_changed.wait(WAIT_S)
        change(admin, company.research, guaranteed_mgpu=8_000)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            later = in_thread(pool, second)
            create_quota(
                team.display_path,
                "h100",
                QuotaEdit(guaranteed_mgpu=8_000),
                actor=admin,
                reason="first",
                now=NOW,
            )
            first_has_changed.set()
            eventually(somebody_waits_for_a_lock)
        with pytest.raises(EnvelopeBroken) as refusal:
            later.result(WAIT_S)

    assert refusal.value.detail == (
        "research guarantees 16 GPUs to its teams but would have only 8. Lower speech, nlp or "
        "vision first."
    )


def test_of_two_first_quotas_for_one_node_one_is_made() -> None:
    company = a_company()
    team = a_team(company.research, "speech")
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    together = Barrier(2, timeout=WAIT_S)

    def give() -> None:
        together.wait()
        create_quota(
            team.display_path,
            "h100",
            QuotaEdit(guaranteed_mgpu=0),
            actor=admin,
            reason="first",
            now=NOW,
        )

    with ThreadPoolExecutor(2) as pool:
        tries = [in_thread(pool, give) for _ in range(2)]
        refusals = [attempt.exception(WAIT_S) for attempt in tries]

    (refusal,) = [error for error in refusals if error is not None]
    assert isinstance(refusal, Conflict)
    assert Quota.objects.filter(node=team).count() == 1


def test_changes_at_all_levels_at_once_never_deadlock() -> None:
    """Root, department and team are changed by three people 12 times each, all the family
    following by percentage; every change lands, whole. Planted: `lock_quotas` in random order, and
    PostgreSQL reports deadlocks (3 of 3 runs die here)."""
    company = a_company()
    admin = an_actor(None, Role.PLATFORM_ADMIN)
    for node in (company.research, company.production, company.nlp, company.vision):
        change(admin, node, guaranteed_bp=5_000)
    start = Barrier(3, timeout=WAIT_S)

    def keep_changing(node: Node, name: str, values: tuple[int, int]) -> None:
        start.wait()
        for turn in range(12):
            with transaction.atomic():
                # The version is read under the lock, so that nobody is refused as stale.
                administration.lock_quotas(node.parent or node, company.pool.pk)
                change(admin, node, **{name: values[turn % 2]})

    with ThreadPoolExecutor(3) as pool:
        tries = [
            in_thread(
                pool,
                lambda: keep_changing(company.organization, "guaranteed_mgpu", (48_000, 32_000)),
            ),
            in_thread(
                pool, lambda: keep_changing(company.research, "guaranteed_bp", (4_000, 5_000))
            ),
            in_thread(pool, lambda: keep_changing(company.nlp, "guaranteed_bp", (2_500, 5_000))),
        ]
        for attempt in tries:
            attempt.result(WAIT_S)

    nodes = (company.organization, company.research, company.nlp, company.vision)
    assert [quota_of(node).guaranteed_mgpu // 1000 for node in nodes] == [32, 16, 8, 8]
    assert QuotaChange.objects.filter(quota__node=company.organization).count() == 12
