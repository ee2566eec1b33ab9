"""What the arbiter's leader remembers is what there is, and it reads only what changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, Model
from django.test.utils import CaptureQueriesContext

from arbiter.api.plan import Plan
from billing.fair_use import carry_on
from builders.billing_builders import a_metered_attempt, at
from builders.job_builders import an_array
from builders.loop_builders import a_job
from builders.portal_builders import NOW, Company, a_cluster
from clusters.models import ClusterNode
from connectors.kubernetes.quotas.wanted_objects import team_subject
from jobs.actions.cancellation import hold_job
from jobs.arbitration import memory as memory_module
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import read_queue
from jobs.lifecycle import NOT_STARTED
from jobs.models import Attempt, Change, Job, JobState, Reclaim
from jobs.queue.avoided_clusters import AVOIDED_FOR
from quotas.models import (
    ClusterUser,
    InstallationPolicy,
    OrganizationPolicy,
    PriorityClass,
    Quota,
    QuotaPush,
)
from tenants.access import actor_of
from tenants.models import Node, User

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(seconds=2)

#: What the arbiter is not told of; a new column is either noted by the triggers or stands here.
NOT_TOLD: dict[type[Model], set[str]] = {
    Job: {
        "id",
        "organization_id",
        "name",
        "type",
        "origin",
        "array_id",
        "array_index",
        "native_id",
        "script",
        "arguments",
        "folder",
        "output_file",
        "error_file",
        "appends_output",
        "ntasks",
        "ntasks_per_node",
        "cpus_per_task",
        "gpus_per_task",
        "environment",
        "notes",
        "notice_signal",
        "signal_ahead_s",
        "signals_shell_only",
        "requeue_on",
        "requeue_max",
        "cost_cap_nano",
        "checkpoint_path",
        "is_requeueable",
        # Who begins later is found anew in each cycle.
        "begin_at",
        "is_singleton",
        "started_at",
        "ended_at",
        "end_reason",
        "exit_code",
        "cancel_requested_at",
        "attempt_number",
        "explanation",
        "explained_at",
    },
    Attempt: {
        "id",
        "closed_nodes",
        "mgpu",
        "epoch",
        "native_id",
        "native_state",
        "cluster_user",
        "release_sent_at",
        "stop_reason",
        "notice_at",
        "forced_at",
        "outcome",
        "exit_codes",
        "message",
        "missed_listings",
        "missing_since",
        "forgotten_at",
    },
    # Open ones are read in each cycle.
    Reclaim: {
        "id",
        "cluster_id",
        "pool_id",
        "slots",
        "closed_nodes",
        "created_at",
        "grace_until",
    },
    ClusterNode: {"id", "reason", "seen_at"},
}


@pytest.fixture(autouse=True)
def _seldom_compared(settings: Any) -> None:
    settings.CYCLES_COMPARED_EVERY_S = 300


def an_attempt_of(job: Job, company: Company, *, nodes: int = 1, **values: Any) -> Attempt:
    """The first attempt of `job` on the first nodes, running unless `values` say otherwise."""
    return Attempt.objects.create(
        **{
            "job": job,
            "number": 1,
            "cluster": company.cluster,
            "slots": [
                {"node": f"ai-company-{index:03d}", "mgpu": job.mgpu_per_node}
                for index in range(nodes)
            ],
            "mgpu": job.mgpu_per_node * nodes,
            "guaranteed_mgpu": 0,
            "state": "running",
            "epoch": 1,
            "granted_at": NOW,
            "started_at": NOW,
            "native_id": "1",
            **values,
        }
    )


def whole_readings(memory: Memory, now: Any) -> int:
    with CaptureQueriesContext(connection) as captured:
        memory.read(now)
    return sum(
        "mgpu_per_node,\n" in query["sql"]
        and "state = 'queued'" in query["sql"]
        and "ANY" not in query["sql"]
        for query in captured.captured_queries
    )


@pytest.mark.parametrize("model", NOT_TOLD, ids=lambda model: model.__name__)
def test_every_column_is_noted_or_is_none_of_the_arbiters_business(model: type[Model]) -> None:
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT event_object_column FROM information_schema.triggered_update_columns
            WHERE event_object_table = %s AND trigger_name LIKE 'changed%%noted'
            """,
            [table],
        )
        noted = {name for (name,) in cursor.fetchall()}
    columns = {field.column for field in model._meta.concrete_fields}
    assert noted | NOT_TOLD[model] == columns
    assert noted & NOT_TOLD[model] == set()


def test_after_the_first_reading_only_what_changed_is_read(company: Company, bob: User) -> None:
    """Planted: nothing kept from one reading to the next."""
    memory = Memory()
    a_job(company.nlp, bob, company.pool, now=NOW)
    assert whole_readings(memory, NOW) == 1
    assert whole_readings(memory, LATER) == 0


def test_many_jobs_and_attempts_are_noted_with_one_statement_each(
    company: Company, bob: User
) -> None:
    """New ones, and those that are deleted. Planted: only the first of a statement noted."""

    def noted() -> list[Any]:
        found = sorted(Change.objects.exclude(job_id=None).values_list("job_id", flat=True))
        Change.objects.all().delete()
        return found

    jobs = [
        a_job(company.nlp, bob, company.pool, now=NOW, name=f"job-{number}") for number in range(2)
    ]
    ids = sorted(job.pk for job in jobs)
    assert noted() == ids
    Attempt.objects.bulk_create(
        Attempt(
            job=job,
            number=1,
            cluster=company.cluster,
            slots=[],
            mgpu=1_000,
            guaranteed_mgpu=0,
            state="reserved",
            epoch=1,
            granted_at=NOW,
        )
        for job in jobs
    )
    assert noted() == ids
    Attempt.objects.all()._raw_delete("default")
    assert noted() == ids
    copies = [Job(**{f.attname: getattr(job, f.attname) for f in Job._meta.fields}) for job in jobs]
    Job.objects.all()._raw_delete("default")
    assert noted() == ids
    Job.objects.bulk_create(copies)
    assert noted() == ids


def test_a_job_is_noted_once_by_its_next_attempt(company: Company, bob: User) -> None:
    """Planted: by its own row too; not by its own row when it moves without another attempt."""
    job = a_job(company.nlp, bob, company.pool, now=NOW)

    def noted() -> list[Any]:
        found = list(Change.objects.values_list("job_id", flat=True))
        Change.objects.all().delete()
        return found

    noted()
    Job.objects.filter(pk=job.pk).update(state=JobState.STARTING, attempt_number=1)
    assert noted() == []
    an_attempt_of(job, company, state="reserved", started_at=None)
    assert noted() == [job.pk]
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, attempt_number=1)
    assert noted() == [job.pk]


def fleets_read(memory: Memory, now: Any) -> int:
    with CaptureQueriesContext(connection) as captured:
        memory.read(now)
    return sum("FROM clusters_clusternode" in one["sql"] for one in captured.captured_queries)


def test_the_same_id_of_two_jobs_is_one_object(company: Company, bob: User) -> None:
    """Planted: an object for each, of the queued and then of the running ones."""
    memory = Memory()
    a_job(company.nlp, bob, company.pool, now=NOW)
    run = a_job(company.nlp, bob, company.pool, now=NOW, state=JobState.RUNNING)
    an_attempt_of(run, company)
    memory.read(NOW)
    a_job(company.nlp, bob, company.pool, now=NOW)
    snapshot = memory.read(LATER).snapshot
    jobs = [*snapshot.queued, *snapshot.running]
    assert len(jobs) == 3
    for name in ("team", "user", "pool", "priority_class"):
        assert len({id(getattr(job, name)) for job in jobs}) == 1


def test_nodes_are_read_again_once_they_have_changed(company: Company) -> None:
    """Planted: the change of a node not noted; the note not looked at."""
    memory = Memory()
    assert fleets_read(memory, NOW) == 1
    Change.objects.all().delete()
    assert fleets_read(memory, LATER) == 0
    ClusterNode.objects.filter(name="ai-company-000").update(seen_at=LATER)
    assert fleets_read(memory, LATER) == 0
    ClusterNode.objects.filter(name="ai-company-000").update(outside_mgpu=3_000)
    assert fleets_read(memory, LATER) == 1
    assert memory.read(LATER).snapshot.devices[0].capacity_mgpu == 5_000


def test_nodes_that_were_remembered_wrongly_are_told_and_mended(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: nodes not looked at when all is compared."""
    memory = Memory()
    memory.read(NOW)
    ClusterNode.objects.filter(name="ai-company-000").update(outside_mgpu=3_000)
    Change.objects.all().delete()
    told: list[str] = []
    monkeypatch.setattr(memory_module.log, "error", told.append)
    assert memory.read(NOW + timedelta(seconds=299)).snapshot.devices[0].capacity_mgpu == 8_000
    later = NOW + timedelta(seconds=300)
    assert memory.read(later).snapshot == read_queue(later).snapshot
    assert told == ["cycle: nodes were remembered wrongly"]


def trees_read(memory: Memory, now: Any) -> int:
    with CaptureQueriesContext(connection) as captured:
        memory.read(now)
    return sum('FROM "quotas_quota"' in query["sql"] for query in captured.captured_queries)


@pytest.mark.parametrize("model", [Node, Quota, PriorityClass, OrganizationPolicy])
def test_the_tree_is_read_again_once_it_or_what_is_told_with_it_has_changed(
    model: type[Model], company: Company
) -> None:
    """Planted: the trigger of each of the four left out; the tree read each time."""
    memory = Memory()
    rows = model._default_manager.all()
    assert trees_read(memory, NOW) == 1
    Change.objects.all().delete()
    assert trees_read(memory, LATER) == 0
    # That something was written is enough.
    pk = model._meta.pk
    assert pk is not None
    assert rows.filter(pk=rows.order_by("pk")[0].pk).update(**{pk.name: F(pk.name)}) == 1
    assert trees_read(memory, LATER) == 1
    assert Change.objects.get().job_id is None


def test_a_tree_that_was_remembered_wrongly_is_told_and_mended(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the tree not read when all is compared; not told."""
    memory = Memory()
    before = memory.read(NOW).snapshot.quotas
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=0)
    Change.objects.all().delete()
    told: list[str] = []
    monkeypatch.setattr(memory_module.log, "error", told.append)
    assert memory.read(NOW + timedelta(seconds=299)).snapshot.quotas == before
    later = NOW + timedelta(seconds=300)
    assert memory.read(later).snapshot == read_queue(later).snapshot
    assert told == ["cycle: the tree was remembered wrongly"]


def test_nodes_are_noted_however_many_jobs_are(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: with too many changes that of the nodes is beyond the bound."""
    monkeypatch.setattr(memory_module, "CHANGED_MAX", 1)
    memory = Memory()
    memory.read(NOW)
    Change.objects.all().delete()
    for _ in range(4):
        a_job(company.nlp, bob, company.pool, now=NOW)
    ClusterNode.objects.filter(name="ai-company-000").update(outside_mgpu=3_000)
    assert memory.read(LATER).snapshot == read_queue(LATER).snapshot


def test_what_a_cycle_wrote_is_not_read_by_the_next(company: Company, bob: User) -> None:
    """Planted: what was read at the end not told to the core; read again with the next."""
    memory = Memory()
    one = a_job(company.nlp, bob, company.pool, now=NOW)
    two = a_job(company.nlp, bob, company.pool, now=NOW)
    memory.read(NOW)
    assert len(memory.decide(NOW).plan.starts) == 2
    Change.objects.all().delete()
    Job.objects.filter(pk=one.pk).update(state=JobState.STARTING)
    an_attempt_of(one, company, state="reserved", started_at=None)
    memory.catch_up()
    Change.objects.all().delete()
    read = memory.read(LATER).snapshot
    assert read == read_queue(LATER).snapshot
    assert [job.id for job in read.queued] == [str(two.pk)]
    assert [run.job for run in read.running] == [str(one.pk)]
    assert [start.job for start in memory.decide(LATER).plan.starts] == [str(two.pk)]


def test_what_is_not_of_jobs_is_left_to_the_next_reading(company: Company, bob: User) -> None:
    """Planted: the note of changed nodes passed over at the end of a cycle."""
    memory = Memory()
    memory.catch_up()
    memory.read(NOW)
    Change.objects.all().delete()
    ClusterNode.objects.filter(name="ai-company-000").update(outside_mgpu=3_000)
    memory.catch_up()
    assert memory.read(LATER).snapshot == read_queue(LATER).snapshot


def test_a_job_that_waits_for_another_since_is_not_offered_after_catching_up(
    company: Company, bob: User
) -> None:
    """Which queued jobs are withheld is found in a whole reading; what is caught up in between may
    know less. Planted: the jobs that are withheld anew not read again."""
    memory = Memory()
    memory.read(NOW)
    Change.objects.all().delete()
    begins = a_job(company.nlp, bob, company.pool, now=NOW, begin_at=NOW + timedelta(hours=1))
    memory.catch_up()
    Change.objects.all().delete()
    assert memory.read(LATER).snapshot.queued == ()
    read = memory.read(NOW + timedelta(hours=2)).snapshot
    assert [job.id for job in read.queued] == [str(begins.pk)]


def test_what_is_read_is_what_there_is(company: Company, bob: User) -> None:
    memory = Memory()
    one = a_job(company.nlp, bob, company.pool, gpus=4, now=NOW)
    two = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    assert {job.id for job in memory.read(NOW).snapshot.queued} == {str(one.pk), str(two.pk)}
    hold_job(one.pk, actor=actor_of(bob), now=NOW)
    three = a_job(company.nlp, bob, company.pool, now=NOW)
    Job.objects.filter(pk=two.pk).update(mgpu_per_node=2_000)
    read = memory.read(LATER).snapshot
    assert {job.id: job.mgpu for job in read.queued} == {str(two.pk): 2_000, str(three.pk): 1_000}
    Job.objects.filter(pk=three.pk).delete()
    assert [job.id for job in memory.read(LATER).snapshot.queued] == [str(two.pk)]


def test_what_becomes_free_of_a_reason_is_read_though_it_did_not_change(
    company: Company, bob: User
) -> None:
    """A task that its array's limit withheld, and a job that begins at a time. Planted: the
    withheld of before not looked at."""
    memory = Memory()
    array = an_array(company, bob, max_running=1)
    first, second = array.tasks.order_by("array_index")
    later = a_job(company.nlp, bob, company.pool, now=NOW, begin_at=NOW + timedelta(hours=1))
    assert [job.id for job in memory.read(NOW).snapshot.queued] == [str(first.pk)]
    Change.objects.all().delete()
    Job.objects.filter(pk=first.pk).update(state=JobState.HELD)
    assert set(Change.objects.values_list("job_id", flat=True)) == {first.pk}
    assert [job.id for job in memory.read(LATER).snapshot.queued] == [str(second.pk)]
    Change.objects.all().delete()
    read = memory.read(NOW + timedelta(hours=2)).snapshot
    assert {job.id for job in read.queued} == {str(second.pk), str(later.pk)}


def test_which_clusters_a_job_avoids_is_followed_though_it_did_not_change(
    company: Company, bob: User
) -> None:
    """A cluster that did not start it is avoided for a while, and then no more. Planted: who
    avoids what not compared."""
    memory = Memory()
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    an_attempt_of(
        job,
        company,
        state="ended",
        ended_at=NOW,
        released_at=NOW,
        outcome=NOT_STARTED,
        notice_at=NOW,
        stop_reason="withdrawn",
    )
    assert memory.read(NOW).snapshot.queued[0].clusters == frozenset()
    Change.objects.all().delete()
    later = NOW + AVOIDED_FOR
    assert memory.read(later).snapshot.queued[0].clusters is None


def test_what_runs_and_is_claimed_reaches_the_core(company: Company, bob: User) -> None:
    """Each plan is that of a core made anew (`builders.remembering`). Planted: an attempt that is
    gone, or a claim that is closed, kept in the core."""
    memory = Memory()

    def decided(seconds: int) -> Plan:
        now = NOW + timedelta(seconds=seconds)
        memory.read(now)
        return memory.decide(now).plan

    full = a_job(company.nlp, bob, company.pool, gpus=8, nodes=4, now=NOW, state=JobState.RUNNING)
    attempt = an_attempt_of(full, company, nodes=4)
    wants = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    assert decided(0).starts == ()
    claim = Reclaim.objects.create(
        job=wants,
        cluster=company.cluster,
        slots=[{"node": "ai-company-000", "mgpu": 8_000}],
        created_at=NOW,
        grace_until=LATER,
    )
    assert decided(1).dropped_claims == (str(wants.pk),)
    Reclaim.objects.filter(pk=claim.pk).update(closed_at=NOW)
    assert decided(2).dropped_claims == ()
    Attempt.objects.filter(pk=attempt.pk).update(
        state="ended", ended_at=LATER, released_at=LATER, outcome="succeeded"
    )
    assert [start.job for start in decided(3).starts] == [str(wants.pk)]


def test_another_policy_and_other_rules_of_clusters_are_followed(
    company: Company, bob: User
) -> None:
    """Planted: the core kept although its policy is another."""
    memory = Memory()
    for _ in range(2):
        a_job(company.nlp, bob, company.pool, now=NOW)
    memory.read(NOW)
    assert len(memory.decide(NOW).plan.starts) == 2
    InstallationPolicy.objects.create(starts_max=1)
    assert memory.read(LATER).policy.starts_max == 1
    assert len(memory.decide(LATER).plan.starts) == 1
    slurm = a_cluster("hpc", kind="slurm")
    assert memory.read(LATER).snapshot.queued[0].clusters == {str(company.cluster.pk)}
    ClusterUser.objects.create(cluster=slurm, user=bob, name="bob")
    assert memory.read(LATER).snapshot.queued[0].clusters is None


def test_a_team_that_a_cluster_is_prepared_for_since_may_use_it(
    company: Company, bob: User
) -> None:
    """Planted: which teams a cluster is not prepared for not compared."""
    memory = Memory()
    kube = a_cluster("kube", kind="kubernetes")
    a_job(company.nlp, bob, company.pool, now=NOW)
    missing = {
        "kind": "create",
        "subject": team_subject(company.nlp.display_path),
        "after": {"team": "nlp"},
    }
    for result, expected in (("", {str(company.cluster.pk)}), ("done", None)):
        QuotaPush.objects.create(
            cluster=kube,
            kind="push",
            status="done",
            requested_at=NOW,
            done_at=NOW,
            change_count=1,
            changes=[missing | {"result": result}],
        )
        assert memory.read(NOW).snapshot.queued[0].clusters == expected


def test_a_changed_tree_and_devices_reach_the_core(company: Company, bob: User) -> None:
    """Planted: the quotas, and then the nodes, of the first reading kept."""
    memory = Memory()
    a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    memory.read(NOW)
    assert len(memory.decide(NOW).plan.starts) == 1
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=0, borrow_limit_mgpu=0)
    memory.read(LATER)
    assert memory.decide(LATER).plan.starts == ()
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=None)
    company.cluster.nodes.update(is_schedulable=False)
    memory.read(LATER)
    assert memory.decide(LATER).plan.starts == ()


def test_recent_use_reaches_the_core(company: Company, bob: User) -> None:
    """Who used less lately comes first. Planted: the use of the first reading kept."""
    memory = Memory()
    company.cluster.nodes.exclude(name="ai-company-000").delete()
    Quota.objects.filter(node__in=[company.nlp, company.vision]).update(
        guaranteed_mgpu=0, borrow_limit_mgpu=None
    )
    first = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    second = a_job(company.vision, bob, company.pool, gpus=8, now=LATER)
    memory.read(at(0))
    assert [start.job for start in memory.decide(at(0)).plan.starts] == [str(first.pk)]
    a_metered_attempt(company.nlp, 0, 10, mgpu=8_000)
    carry_on(at(0))
    memory.read(at(10))
    assert [start.job for start in memory.decide(at(10)).plan.starts] == [str(second.pk)]


def test_when_the_clock_goes_back_all_is_read_again(company: Company) -> None:
    memory = Memory()
    memory.read(LATER)
    assert whole_readings(memory, NOW) == 1


def test_what_fails_is_forgotten(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    memory.read(NOW)
    with monkeypatch.context() as patched:
        patched.setattr(memory_module, "read_surroundings", lambda *told: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            memory.read(LATER)
    assert whole_readings(memory, LATER) == 1


def test_a_plan_is_for_the_moment_of_the_reading(company: Company) -> None:
    memory = Memory()
    memory.read(NOW)
    with pytest.raises(RuntimeError, match="decided on what was not read"):
        memory.decide(LATER)


def test_with_too_many_changes_all_is_read(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "CHANGED_MAX", 1)
    memory = Memory()
    a_job(company.nlp, bob, company.pool, now=NOW)
    memory.read(NOW)
    assert whole_readings(memory, LATER) == 0
    a_job(company.nlp, bob, company.pool, now=NOW)
    assert whole_readings(memory, LATER) == 1


def test_what_was_remembered_wrongly_is_told_and_mended(
    company: Company, bob: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    memory.read(NOW)
    assert memory._known is not None
    memory._known.queued.clear()
    Change.objects.all().delete()
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(memory_module.log, "error", lambda *values: told.append(values))
    assert memory.read(NOW + timedelta(seconds=299)).snapshot.queued == ()
    later = NOW + timedelta(seconds=300)
    assert memory.read(later).snapshot == read_queue(later).snapshot
    assert [values[1:] for values in told] == [(1, str(job.pk))]


def test_changes_are_deleted_once_they_are_read_for_good(company: Company, bob: User) -> None:
    """Those of this transaction may come back as others' do that have not ended, so they stay.

    Planted: changes of this transaction taken for such of another server's life.
    """
    Change.objects.all().delete()
    memory = Memory()
    memory.forget_changes()
    a_job(company.nlp, bob, company.pool, now=NOW)
    mine = set(Change.objects.values_list("pk", flat=True))
    assert len(mine) == 1
    Change.objects.create(transaction=3, job_id=bob.pk)
    Change.objects.create(transaction=1 << 60, job_id=bob.pk)
    memory.forget_changes()
    assert Change.objects.count() == 3
    memory.read(NOW)
    memory.forget_changes()
    assert set(Change.objects.values_list("pk", flat=True)) == mine


@pytest.mark.parametrize("column", ["closed_at", "job_id"])
def test_who_a_job_is_stopped_for_is_noted(company: Company, bob: User, column: str) -> None:
    """A reclaim changes what is known of its victims."""
    victim = a_job(company.nlp, bob, company.pool, now=NOW, state=JobState.RUNNING)
    wants = a_job(company.nlp, bob, company.pool, now=NOW)
    other = a_job(company.nlp, bob, company.pool, now=NOW)
    claim = Reclaim.objects.create(
        job=wants, cluster=company.cluster, slots=[], created_at=NOW, grace_until=LATER
    )
    an_attempt_of(
        victim,
        company,
        state="stopping",
        reclaim=claim,
        stop_reason="preempted",
        notice_at=NOW,
        grace_until=LATER,
    )
    memory = Memory()
    assert memory.read(NOW).snapshot.running[0].beneficiary == str(wants.pk)
    Change.objects.all().delete()
    Reclaim.objects.filter(pk=claim.pk).update(
        **{column: LATER if column == "closed_at" else other.pk}
    )
    expected = None if column == "closed_at" else str(other.pk)
    assert memory.read(NOW).snapshot.running[0].beneficiary == expected
