"""A node of a real Slurm with whole GPUs beside MIG slices: it is in a pool with each type."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from builders.connector_builders import eventually
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_pool, a_quota, a_user
from builders.slurm_loop import SlurmLoop
from clusters.models import ClusterNode, Pool
from conformance.rigs import ACCOUNT, GUARANTEED_QOS, SlurmRig
from connectors.entitlements import Entitlement, Entitlements, Share
from connectors.slurm.entitlements import control_entitlements
from connectors.slurm.naming import guaranteed_qos
from jobs.actions.cancellation import cancel_job
from jobs.models import Attempt, Job
from slurm.own_bed import a_bed_beside
from slurm_bed import SlurmBed
from tenants.access import actor_of
from tenants.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slurm]

NODE = "s1"
POOLS = {
    "a30": {"partition": "sliced", "gres_type": "a30"},
    "a30-1g": {"partition": "sliced", "gres_type": "1g.6gb"},
}


@pytest.fixture(scope="module")
def sliced_bed(slurm_bed: SlurmBed) -> Iterator[SlurmBed]:
    """With one such node."""
    few = {"H100_NODES": "1", "A100_NODES": "1", "SLICED_NODES": "1"}
    with a_bed_beside("sliced", **few) as bed:
        yield bed


@pytest.fixture
def rig(sliced_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(sliced_bed)
    opened.options["pools"] = POOLS
    opened.connector = opened.open()
    yield opened
    opened.close()


@pytest.fixture
def company() -> Company:
    company = a_company("sliced-company")
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def pools(company: Company) -> tuple[Pool, Pool]:
    """Whole GPUs and slices, all of them nlp's."""
    whole, slices = a_pool("a30"), a_pool("a30-1g")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, whole, 2)
        a_quota(node, slices, 4)
    return whole, slices


@pytest.fixture
def loop(company: Company, rig: SlurmRig, bob: User, pools: tuple[Pool, Pool]) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, rig)
    loop.let_in(bob, company.nlp)
    return loop


def slots(job: Job) -> list[dict[str, Any]]:
    """Where the job's attempt is."""
    found: list[dict[str, Any]] = Attempt.objects.get(job=job).slots
    return found


def test_jobs_of_both_pools_share_a_node(
    loop: SlurmLoop, company: Company, pools: tuple[Pool, Pool], bob: User
) -> None:
    """It is not in the first of its pools only."""
    rows = ClusterNode.objects.filter(cluster=loop.cluster).select_related("pool")
    assert {
        each.pool.name: (each.name, each.capacity_mgpu, each.is_schedulable) for each in rows
    } == {"a30": (NODE, 2_000, True), "a30-1g": (NODE, 4_000, True)}
    whole, slices = pools
    first = a_job(company.nlp, bob, whole, gpus=2, script="sleep 600")
    parts = a_job(company.nlp, bob, slices, gpus=3, script="sleep 600")
    late = a_job(company.nlp, bob, slices, gpus=2, script="sleep 600")
    for job in (first, parts):
        loop.until(job, "running")
    assert slots(first) == [{"node": NODE, "mgpu": 2_000}]
    assert slots(parts) == [{"node": NODE, "mgpu": 3_000}]
    late.refresh_from_db()
    assert late.state == "queued"
    cancel_job(parts.pk, actor=actor_of(bob), now=loop.clock.now())
    loop.until(late, "running")
    for job in (first, late):
        cancel_job(job.pk, actor=actor_of(bob), now=loop.clock.now())
        loop.until(job, "cancelled")


@pytest.mark.parametrize(
    ("gres", "held"),
    [
        ("gpu:1g.6gb:2", {"a30-1g": ("", False, 2_000)}),
        (
            "gpu:a30:1,gpu:1g.6gb:2",
            {"a30": (" (a30)", True, 1_000), "a30-1g": (" (a30-1g)", True, 2_000)},
        ),
        # Slurm gives out GPUs of both types to who names none.
        ("gpu:5", {"a30": (" (a30)", True, None), "a30-1g": (" (a30-1g)", True, None)}),
    ],
)
def test_what_others_hold_there_is_told_by_pool(
    rig: SlurmRig, gres: str, held: dict[str, tuple[str, bool, int | None]]
) -> None:
    """Not all of it is in the first pool of the node."""
    command = ["runuser", "-u", rig.bed.users[0], "--", "sbatch", "--parsable", "--chdir=/tmp"]
    done = subprocess.run(
        [
            *(*command, f"--gres={gres}", "--partition=sliced", f"--account={ACCOUNT}"),
            *(f"--qos={GUARANTEED_QOS}", "--output=/dev/null", "--wrap", "sleep 600"),
        ],
        env={"PATH": "/usr/bin:/bin:/usr/sbin", "SLURM_CONF": str(rig.bed.slurm_conf)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    number = done.stdout.strip()
    try:

        def look() -> dict[str, tuple[str, bool, int]] | None:
            found = {
                one.pool: (one.native_id.removeprefix(number), one.is_mixed, one.mgpu)
                for one in rig.connector.observe().natives
                if one.native_id.partition(" ")[0] == number and one.slots
            }
            return found or None

        found = eventually(look)
        assert sum(mgpu for _, _, mgpu in found.values()) == 1_000 * sum(
            int(one.rpartition(":")[2]) for one in gres.split(",")
        )
        assert {
            pool: (name, is_mixed, None if held[pool][2] is None else mgpu)
            for pool, (name, is_mixed, mgpu) in found.items()
        } == held
    finally:
        rig.bed.run(["scancel", number])
        asked = ["squeue", "-h", "-t", "R,CG,PD,S", "-o", "%i"]
        eventually(lambda: number not in rig.bed.run(asked).split())


def test_quotas_of_slices_are_pushed(rig: SlurmRig) -> None:
    """Slurm counts and limits them as it does whole GPUs."""
    shares = {"a30": Share(2, 2), "a30-1g": Share(4, 4)}
    nodes = tuple(
        Entitlement(path=path, is_team="/" in path, shares=shares, weight=1)
        for path in ("sliced-push", "sliced-push/team")
    )
    wanted = Entitlements(nodes, frozenset({"sliced-push"}), grace_s=30)
    control = control_entitlements(rig.connector)
    with rig.bed.account_writing():
        for change in control.changes(wanted):
            if not change.is_blocked:
                control.apply(change)
    assert [one.subject for one in control.changes(wanted) if "sliced-push" in one.subject] == []
    qos = guaranteed_qos("sliced-push_team", "g-")
    shown = rig.bed.run(["sacctmgr", "-nP", "show", "qos", qos, "format=GrpTRES"])
    assert set(shown.strip().split(",")) >= {"gres/gpu:a30=2", "gres/gpu:1g.6gb=4"}
