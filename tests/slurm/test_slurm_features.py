"""Jobs that ask for features of their nodes, on a Slurm whose last nodes have some."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.connector_builders import a_workload, until_released, until_running
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from builders.slurm_loop import SlurmLoop
from clusters.models import ClusterNode
from conformance.rigs import SlurmRig
from connectors.protocol import Workload
from jobs.actions.cancellation import cancel_job
from jobs.models import Attempt, Job
from outbox.models import Message
from tenants.access import actor_of
from tenants.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slurm]


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=64)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, slurm_rig: SlurmRig, bob: User) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, slurm_rig)
    loop.let_in(bob, company.nlp, company.vision, company.inference)
    return loop


def having(*features: str) -> set[str]:
    nodes = ClusterNode.objects.filter(features__contains=list(features))
    return set(nodes.values_list("name", flat=True))


def nodes_of(job: Job) -> set[str]:
    return {slot["node"] for slot in Attempt.objects.get(job=job).slots}


def explained(job: Job) -> tuple[str, str]:
    found = Job.objects.get(pk=job.pk).explanation
    assert found is not None
    return found["code"], found["sentence"]


def constraint_of(rig: SlurmRig, native_id: str) -> str:
    shown = rig.bed.run(["scontrol", "show", "job", native_id])
    words = [word.partition("=") for word in shown.split()]
    return next(value for name, _, value in words if name == "Features")


def test_the_bed_has_nodes_of_three_kinds(loop: SlurmLoop) -> None:
    everywhere, nvlink, ib = having("h100"), having("nvlink"), having("nvlink", "ib")
    assert ib < nvlink < everywhere
    assert ib == having("ib")


def test_a_job_runs_on_nodes_that_have_what_it_asks_for(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    """Mutant: the connector left the features out; Slurm chose the first nodes, which have none."""
    job = a_job(company.inference, bob, company.pool, gpus=8, nodes=2, features=["ib", "nvlink"])
    plain = a_job(company.inference, bob, company.pool, gpus=8)
    loop.until(job, "succeeded", "failed")
    loop.until(plain, "succeeded", "failed")
    assert (job.state, plain.state) == ("succeeded", "succeeded")
    assert len(nodes_of(job)) == 2
    assert nodes_of(job) <= having("ib", "nvlink")
    native_id = Attempt.objects.get(job=job).native_id
    assert native_id is not None
    assert constraint_of(loop.rig, native_id) == "ib&nvlink"


def test_a_feature_that_no_node_has_never_fits_and_nothing_is_sent(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    """Also two features that no node has together."""
    unknown = a_job(company.nlp, bob, company.pool, features=["gold"])
    apart = a_job(company.nlp, bob, company.pool, features=["a100", "ib"])
    for _ in range(3):
        loop.turn()
    assert explained(unknown) == (
        "never_fits",
        "This job will never start as it is: no node of pool h100 has the feature gold.",
    )
    assert explained(apart) == (
        "never_fits",
        "This job will never start as it is: no node of pool h100 has the features a100, ib "
        "together.",
    )
    assert not Attempt.objects.exists()
    assert not Message.objects.filter(kind="start_attempt").exists()


def test_a_job_waits_for_busy_nodes_that_have_it(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    """The other nodes stay free, and are no help."""
    count = len(having("ib"))
    first = a_job(
        company.inference,
        bob,
        company.pool,
        gpus=8,
        nodes=count,
        features=["ib"],
        script="sleep 1000",
    )
    loop.until(first, "running")
    second = a_job(company.inference, bob, company.pool, gpus=8, features=["ib"])
    loop.turn()
    assert explained(second) == (
        "waiting_for_guarantee",
        "Your team is entitled to these 8 GPUs. 0 are free on one cluster on nodes with the "
        "feature ib, and no jobs can be preempted now to free the rest.",
    )
    cancel_job(first.id, actor=actor_of(bob), now=loop.clock.now())
    loop.until(second, "succeeded", "failed")
    assert second.state == "succeeded"
    assert nodes_of(second) <= having("ib")


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ("h100", "h100&ib"),
        ("a100|nvlink", "(a100|nvlink)&ib"),
        ("[nvlink|h100]", "[nvlink|h100]&ib"),
    ],
)
def test_the_pool_s_own_constraint_holds_besides(slurm_rig: SlurmRig, own: str, sent: str) -> None:
    slurm_rig.options["pools"]["h100"]["constraint"] = own
    slurm_rig.connector = slurm_rig.open()
    workload = with_features(a_workload("sleep 1000", ranks=1), "ib")
    native_id = slurm_rig.start(workload)
    until_running(slurm_rig.connector, workload.key)
    seen = slurm_rig.connector.observe().observations[workload.key]
    assert seen.slots is not None
    nodes = {slot.node for slot in seen.slots}
    listed = {node.name: node.features for node in slurm_rig.connector.inventory().nodes}
    assert all("ib" in listed[node] for node in nodes)
    assert constraint_of(slurm_rig, native_id) == sent
    slurm_rig.connector.stop(workload.key, native_id=native_id)
    until_released(slurm_rig.connector, workload.key)


def with_features(workload: Workload, *features: str) -> Workload:
    return replace(workload, features=features)
