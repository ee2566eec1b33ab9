"""What only Slurm does: copies, reused numbers, foreign jobs, limits of its own, and outages."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from builders.connector_builders import a_workload, eventually, lines, observed, until_released
from conformance.rigs import ACCOUNT, BORROW_QOS, GUARANTEED_QOS, SlurmRig
from connectors.errors import AnotherCluster, ClusterUnavailable, WorkloadRejected
from connectors.protocol import NativeWorkload, Observation, Outcome, RankSlot, WorkloadPhase
from connectors.registry import open_connector
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.minter import mint
from connectors.slurm.naming import tag
from connectors.slurm.options import parse_options
from slurm_bed import SlurmBed

pytestmark = pytest.mark.slurm


@pytest.fixture
def rig(slurm_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(slurm_bed)
    yield opened
    opened.close()


@pytest.fixture
def strict_rig(slurm_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(slurm_bed, settle_s=7)
    yield opened
    opened.close()


@pytest.fixture
def sbatch(slurm_bed: SlurmBed) -> Iterator[Sbatch]:
    given = Sbatch(slurm_bed)
    yield given
    for job_id in given.job_ids:
        slurm_bed.run(["scancel", "--quiet", job_id])


class Sbatch:
    """Jobs that somebody gives to Slurm beside the portal."""

    def __init__(self, bed: SlurmBed) -> None:
        self._bed = bed
        self.user = bed.users[1]
        self.job_ids: list[str] = []

    def __call__(self, *options: str, script: str = "exec sleep 1000") -> str:
        """Submit as the second user of the bed; returns the job's id."""
        entry = pwd.getpwnam(self.user)
        done = subprocess.run(
            ["sbatch", "--parsable", "-A", ACCOUNT, "-o", "/dev/null", "-D", "/tmp", *options],
            input=f"#!/bin/bash\n{script}\n",
            env={"PATH": os.environ["PATH"], "SLURM_CONF": str(self._bed.slurm_conf)},
            cwd="/tmp",
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        self.job_ids.append(done.stdout.strip())
        return self.job_ids[-1]


def field(bed: SlurmBed, job_id: str, name: str) -> str:
    """One field of a job as Slurm's own command prints it."""
    words = bed.run(["scontrol", "--oneliner", "show", "job", job_id]).split()
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


def native(rig: SlurmRig, job_id: str) -> NativeWorkload | None:
    natives = rig.connector.observe().natives
    return next((found for found in natives if found.native_id == job_id), None)


# One submission, several jobs


def test_the_oldest_copy_is_adopted_and_the_others_never_run(rig: SlurmRig) -> None:
    workload = replace(a_workload(f"echo ran >> {rig.scratch}/proof"), **rig.asked)
    ids = [rig.connector.submit(workload, is_first=True) for _ in range(3)]
    assert len(set(ids)) == 3
    assert rig.connector.submit(workload) == ids[0]
    listing = rig.connector.observe()
    assert [copy.native_id for copy in listing.copies[workload.key]] == ids
    assert listing.observations[workload.key].native_id == ids[0]
    # The recorded one need not be the oldest.
    for native_id in (ids[0], ids[2]):
        rig.connector.remove_copy(workload.key, native_id)
    rig.release(workload.key, ids[1])
    assert until_released(rig.connector, workload.key, ids[1]).outcome is Outcome.SUCCEEDED
    for native_id in (ids[0], ids[2]):
        removed = until_released(rig.connector, workload.key, native_id)
        assert (removed.outcome, removed.started_at) == (Outcome.STOPPED, None)
    assert lines(rig.scratch / "proof") == ["ran"]


def test_what_was_released_is_no_copy_to_remove(rig: SlurmRig) -> None:
    workload = a_workload(f"touch {rig.scratch}/up; exec sleep 1000")
    native_id = rig.start(workload)
    eventually((rig.scratch / "up").exists)
    rig.connector.remove_copy(workload.key, native_id)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert seen.phase is WorkloadPhase.RUNNING


def test_a_held_job_waits_and_says_so(rig: SlurmRig) -> None:
    workload = a_workload()
    native_id = rig.submit(workload)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert (seen.native_id, seen.phase, seen.started_at) == (native_id, WorkloadPhase.HELD, None)
    assert (seen.slots, seen.is_released, seen.outcome) == (None, False, None)


def test_nothing_is_done_to_a_job_that_may_still_be_forgotten(strict_rig: SlurmRig) -> None:
    rig = strict_rig
    workload = a_workload()
    native_id = rig.submit(workload)
    for act in (rig.connector.release, rig.connector.remove_copy):
        with pytest.raises(ClusterUnavailable, match="not settled yet"):
            act(workload.key, native_id)
    for recorded in (native_id, None):
        with pytest.raises(ClusterUnavailable, match="not settled yet"):
            rig.connector.stop(workload.key, native_id=recorded)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert seen.phase is WorkloadPhase.HELD
    rig.release(workload.key, native_id)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    assert ended.submitted_at is not None
    assert ended.started_at is not None
    assert ended.started_at - ended.submitted_at >= 7


# Jobs that are not ours


def test_a_number_that_now_is_somebody_else_s_is_left_alone(rig: SlurmRig, sbatch: Sbatch) -> None:
    """Mutant: the name was not compared; the stranger's job was released and then cancelled."""
    held = sbatch("-p", "h100", "--gres=gpu:h100:1", "--hold")
    running = sbatch("-p", "h100", "--gres=gpu:h100:1", "-J", "mine")
    key = a_workload().key
    eventually(lambda: field(rig.bed, running, "JobState") == "RUNNING")
    for job_id in (held, running):
        rig.connector.release(key, job_id)
        rig.connector.remove_copy(key, job_id)
        rig.connector.notify(key, native_id=job_id)
        rig.connector.stop(key, native_id=job_id)
    assert field(rig.bed, held, "JobState") == "PENDING"
    assert field(rig.bed, held, "Reason") == "JobHeldUser"
    assert field(rig.bed, running, "JobState") == "RUNNING"


def test_a_tag_that_somebody_copied_is_worth_nothing(rig: SlurmRig, sbatch: Sbatch) -> None:
    """Mutant: the user was not signed; the stranger's job was ours, and was stopped."""
    workload = a_workload()
    ours = rig.submit(workload)
    assert rig.cluster_user is not None
    name = tag(parse_options(rig.options).tag_secret, workload.key, rig.cluster_user)
    assert field(rig.bed, ours, "JobName") == name
    stranger = sbatch("-p", "h100", "--gres=gpu:h100:2", "-J", name)
    listing = rig.connector.observe()
    assert [copy.native_id for copy in listing.all_of(workload.key)] == [ours]
    assert native(rig, stranger) is not None
    rig.connector.stop(workload.key)
    assert until_released(rig.connector, workload.key).native_id == ours
    assert field(rig.bed, stranger, "JobState") in ("PENDING", "RUNNING")


def test_jobs_beside_the_portal_are_seen_with_their_gpus(rig: SlurmRig, sbatch: Sbatch) -> None:
    before = int(time.time())
    asked = ("-N2", "--gres=gpu:h100:3", "-t", "90", "-J", "theirs", "-q", BORROW_QOS)
    job_id = sbatch("-p", "h100", *asked)
    eventually(lambda: field(rig.bed, job_id, "JobState") == "RUNNING")
    seen = native(rig, job_id)
    assert seen is not None
    nodes = [slot.node for slot in seen.slots]
    assert len(set(nodes)) == 2
    assert seen == NativeWorkload(
        native_id=job_id,
        submitted_at=seen.submitted_at,
        name="theirs",
        account=ACCOUNT,
        user=sbatch.user,
        pool="h100",
        mgpu=6_000,
        native_state="RUNNING",
        phase=WorkloadPhase.RUNNING,
        is_preemptible=True,
        started_at=seen.started_at,
        time_limit_s=5_400,
        slots=tuple(RankSlot(node, 3_000) for node in nodes),
    )
    assert seen.started_at is not None
    assert before <= seen.submitted_at <= seen.started_at
    rig.bed.run(["scancel", job_id])
    ended = eventually(lambda: (now := native(rig, job_id)) and now.is_released and now)
    assert (ended.phase, ended.outcome) == (WorkloadPhase.ENDED, Outcome.STOPPED)


def test_any_gpu_counts_for_the_pool_whose_nodes_give_it(rig: SlurmRig, sbatch: Sbatch) -> None:
    waiting = sbatch("-p", "h100", "--gres=gpu:2", "--hold", "-q", GUARANTEED_QOS)
    running = sbatch("-p", "h100", "--gres=gpu:4", "-q", GUARANTEED_QOS)
    elsewhere = sbatch("-p", "a100", "--gres=gpu:a100:1")
    without = sbatch("-p", "h100")
    eventually(lambda: field(rig.bed, running, "JobState") == "RUNNING")
    eventually(lambda: field(rig.bed, without, "JobState") == "RUNNING")
    natives = {found.native_id: found for found in rig.connector.observe().natives}
    held = natives[waiting]
    assert (held.pool, held.mgpu, held.phase) == ("h100", 2_000, WorkloadPhase.HELD)
    assert held.is_preemptible is False
    assert (natives[running].pool, natives[running].mgpu) == ("h100", 4_000)
    assert [slot.mgpu for slot in natives[running].slots] == [4_000]
    # No pool of this cluster, and no GPU.
    assert not {elsewhere, without} & set(natives)


# What Slurm refuses, and what it would let wait for ever


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pools": {"h100": {"partition": "nowhere", "gres_type": "h100"}}}, "no partition"),
        ({"pools": {"h100": {"partition": "h100", "gres_type": "h200"}}}, "0 such nodes"),
        ({"pools": {"h100": {"partition": "a100", "gres_type": "h100"}}}, "0 such nodes"),
        ({"account_prefix": "no-such-"}, "account"),
        ({"qos_prefix": "no-such-"}, "(?i)qos"),
    ],
    ids=["partition", "gres", "partition-of-others", "account", "qos"],
)
def test_what_the_cluster_does_not_have_is_rejected(
    rig: SlurmRig, options: dict[str, object], match: str
) -> None:
    connector = open_connector("slurm", {**rig.options, **options}, "another")
    with pytest.raises(WorkloadRejected, match=match):
        connector.submit(replace(a_workload(), **rig.asked))
    assert rig.connector.observe().observations == {}


@pytest.mark.parametrize(
    "asked",
    [
        {"cluster_user": None},
        {"cluster_user": "root"},
        {"cluster_user": "nobody"},
        {"cluster_user": "no-such-user"},
        {"cluster_user": "tidegate"},
        {"cluster_user": "../tg-ana"},
        {"team": "../x"},
        {"team": ""},
        {"slots": tuple(RankSlot("any", 1_000) for _ in range(65))},
        {"time_limit_s": 8 * 86_400},
        {"slots": (RankSlot("any", 1_000), RankSlot("any", 2_000))},
        {"slots": (RankSlot("any", 0),)},
    ],
    ids=str,
)
def test_who_and_what_slurm_must_not_see_is_rejected(
    rig: SlurmRig, asked: dict[str, object]
) -> None:
    workload = replace(replace(a_workload(), **rig.asked), **asked)
    with pytest.raises(WorkloadRejected):
        rig.connector.submit(workload)
    assert rig.connector.observe().observations == {}


@pytest.mark.writes_slurm_accounts
def test_what_a_limit_of_slurm_keeps_waiting_says_why(rig: SlurmRig) -> None:
    qos, full = f"q0-{ACCOUNT}", "q0-full"
    for name in (qos, full):
        if not rig.bed.run(["sacctmgr", "-nP", "show", "qos", name, "format=name"]).strip():
            rig.bed.run(["sacctmgr", "-i", "add", "qos", name, "set", "GrpTRES=gres/gpu=1"])
    user = ["where", f"name={rig.cluster_user}", f"account={ACCOUNT}"]
    known = rig.bed.run(
        ["sacctmgr", "-nP", "show", "assoc", *user[1:][1:], f"user={rig.cluster_user}"]
    )
    if full not in known:
        rig.bed.run(["sacctmgr", "-i", "modify", "user", *user, "set", f"qos+={qos},{full}"])
    # The borrowers' QoS is full as well, else the job would go with that.
    limited = {**rig.options, "qos_prefix": "q0-", "borrow_qos": full}
    rig.connector = open_connector("slurm", limited, "limited")
    workload = a_workload(mgpu=2_000)
    rig.start(workload)
    seen = eventually(
        lambda: (now := observed(rig.connector, workload.key)) and now.message and now
    )
    assert seen.phase is WorkloadPhase.STARTING
    assert "a limit of its QoS in Slurm" in seen.message
    rig.connector.stop(workload.key)
    assert until_released(rig.connector, workload.key).outcome is Outcome.STOPPED


def test_nothing_in_a_script_or_a_name_changes_the_request(rig: SlurmRig) -> None:
    script = (
        "#!/bin/bash\n#SBATCH --partition=a100 --gres=gpu:a100:8 --account=root -J mine\n"
        "TIDEGATE_PAYLOAD\nTIDEGATE_RANK\n$(touch /tmp/no) @KEY@ `id`\necho done\n"
    )
    workload = replace(
        a_workload(script, mgpu=2_000, environment={"X": "TIDEGATE_PAYLOAD\n@RANK@'\"`id`$(id)"}),
        name="a\n#SBATCH --account=root\nb",
    )
    native_id = rig.start(workload)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, ended.native_id) == (Outcome.SUCCEEDED, native_id)
    assert rig.log(workload.key).splitlines()[-1] == "done"
    assert field(rig.bed, native_id, "Partition") == "h100"
    assert field(rig.bed, native_id, "Account") == ACCOUNT
    assert field(rig.bed, native_id, "QOS") == GUARANTEED_QOS
    assert field(rig.bed, native_id, "UserId").startswith(f"{rig.cluster_user}(")
    assert field(rig.bed, native_id, "TresPerNode") in {"gres:gpu:h100:2", "gres/gpu:h100:2"}
    assert field(rig.bed, native_id, "Requeue") == "0"


def test_srun_in_one_of_several_ranks_says_what_to_do(rig: SlurmRig) -> None:
    """Mutant: Slurm's own srun waited for the GPUs of the ranks, until the job's time limit."""
    workload = a_workload(
        '[ "$RANK" = 0 ] || exec sleep 1000\necho "${PATH#*/bin:}"; exec srun hostname',
        ranks=2,
        environment={"PATH": "/opt/mine:/usr/bin:/bin"},
    )
    rig.start(workload)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes[0]) == (Outcome.FAILED, 1)
    assert rig.log(workload.key) == "/opt/mine:/usr/bin:/bin\n"
    assert rig.log(workload.key, stream="stderr") == (
        "srun: Tidegate has started this script once on each of the 2 nodes already; start the "
        "program without srun. RANK, WORLD_SIZE and MASTER_ADDR say which part it is.\n"
    )


def test_srun_of_a_rank_that_is_alone_is_slurm_s_own(rig: SlurmRig) -> None:
    workload = a_workload("srun --ntasks=1 sh -c 'echo $SLURM_STEP_ID'")
    rig.start(workload)
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    assert rig.log(workload.key) == "0\n"


def test_what_borrows_runs_under_the_shared_qos(rig: SlurmRig) -> None:
    native_id = rig.submit(replace(a_workload(), is_borrowed=True))
    assert field(rig.bed, native_id, "QOS") == BORROW_QOS


def test_time_limits_are_whole_minutes_and_none_is_the_longest(rig: SlurmRig) -> None:
    short = rig.submit(a_workload(time_limit_s=61))
    endless = rig.submit(a_workload())
    assert field(rig.bed, short, "TimeLimit") == "00:02:00"
    assert field(rig.bed, endless, "TimeLimit") == "7-00:00:00"


# Accounting


def test_accounting_knows_what_the_queue_forgot(rig: SlurmRig) -> None:
    workload = a_workload("exit 3", ranks=2)
    native_id = rig.start(workload)
    listed = until_released(rig.connector, workload.key)

    def find(key: str, number: str) -> tuple[Observation | None] | None:
        """What accounting says, once it has no more to write: the bed is shared."""
        try:
            return (rig.connector.find_ended(key, number),)
        except ClusterUnavailable:
            return None

    (found,) = eventually(lambda: find(workload.key, native_id))
    assert found is not None
    message = found.message
    # Whose it is, where, and how long it may run, is told of what is listed.
    assert found == replace(
        listed, message=message, user="", account="", pool="", time_limit_s=None
    )
    assert eventually(lambda: find("another", native_id)) == (None,)
    assert eventually(lambda: find(workload.key, "999999")) == (None,)
    assert rig.connector.find_ended(workload.key, "1; DROP") is None


def test_a_refused_token_is_an_outage_and_no_answer(rig: SlurmRig) -> None:
    class Expired:
        def token_for(self, user: str) -> str:
            key = rig.bed.jwt_key_file.read_bytes()
            return mint(key, user, int(time.time()) - 1_000)[0]

    connector = SlurmConnector(parse_options(rig.options), Expired())
    workload = replace(a_workload(), **rig.asked)
    for act in (
        connector.observe,
        connector.inventory,
        lambda: connector.submit(workload, is_first=True),
        lambda: connector.stop(workload.key),
        lambda: connector.find_ended(workload.key, "1"),
    ):
        with pytest.raises(ClusterUnavailable):
            act()
    assert rig.connector.observe().observations == {}


# Nodes and daemons


@pytest.mark.disturbs_slurm
def test_a_drained_node_leaves_the_capacity_at_once(rig: SlurmRig) -> None:
    name = rig.last_node
    # One that another test froze answers a moment after it was thawed.
    eventually(lambda: all(node.is_schedulable for node in rig.connector.inventory().nodes))
    rig.bed.run(["scontrol", "update", f"node={name}", "state=DRAIN", "reason=new fans"])
    try:
        nodes = {node.name: node for node in rig.connector.inventory().nodes}
        assert nodes[name].is_schedulable is False
        assert nodes[name].reason == "new fans"
        assert [node.name for node in nodes.values() if not node.is_schedulable] == [name]
    finally:
        rig.bed.run(["scontrol", "update", f"node={name}", "state=RESUME"])
    eventually(lambda: all(node.is_schedulable for node in rig.connector.inventory().nodes))


@pytest.mark.disturbs_slurm
def test_gpus_are_not_free_while_their_node_is_completing(rig: SlurmRig) -> None:
    """Mutant: COMPLETING was an end; the GPUs were free with the node still at work."""
    workload = a_workload(f"touch {rig.scratch}/up; exec sleep 1000")
    native_id = rig.start(workload)
    eventually((rig.scratch / "up").exists)
    node = field(rig.bed, native_id, "NodeList")
    with rig.bed.frozen(node):
        rig.connector.stop(workload.key)

        def is_completing() -> bool:
            seen = observed(rig.connector, workload.key)
            assert seen is not None
            assert (seen.is_released, seen.ended_at, seen.outcome) == (False, None, None)
            return seen.phase is WorkloadPhase.STOPPING

        eventually(is_completing)
        assert field(rig.bed, native_id, "JobState") == "COMPLETING"
    assert until_released(rig.connector, workload.key).outcome is Outcome.STOPPED


@pytest.mark.disturbs_slurm
def test_without_slurmrestd_nothing_is_known(rig: SlurmRig) -> None:
    workload = a_workload()
    native_id = rig.submit(workload)
    with rig.bed.without("rest"):
        for act in (
            rig.connector.observe,
            rig.connector.inventory,
            lambda: rig.submit(workload),
            lambda: rig.connector.release(workload.key, native_id),
            lambda: rig.connector.remove_copy(workload.key, native_id),
            lambda: rig.connector.notify(workload.key, native_id=native_id),
            lambda: rig.connector.stop(workload.key),
            lambda: rig.connector.find_ended(workload.key, native_id),
        ):
            with pytest.raises(ClusterUnavailable):
                act()
    assert rig.submit(workload) == native_id


@pytest.mark.disturbs_slurm
def test_without_slurmdbd_jobs_run_and_accounting_says_nothing(rig: SlurmRig) -> None:
    with rig.bed.without("dbd"):
        workload = a_workload("exit 0")
        native_id = rig.start(workload)
        assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
        with pytest.raises(ClusterUnavailable):
            rig.connector.find_ended(workload.key, native_id)
    found = eventually(lambda: _found(rig, workload.key, native_id))
    assert found is Outcome.SUCCEEDED


def _found(rig: SlurmRig, key: str, native_id: str) -> Outcome | None:
    try:
        ended = rig.connector.find_ended(key, native_id)
    except ClusterUnavailable:
        return None
    # What slurmctld kept for slurmdbd may come a moment after its counter says that it is sent.
    return None if ended is None else ended.outcome


def test_a_cluster_tells_its_name_and_one_of_another_name_is_not_believed(rig: SlurmRig) -> None:
    bed = rig.bed
    identity = rig.connector.inventory().identity
    assert identity["cluster"] == bed.cluster
    workload = a_workload()
    held = rig.submit(workload)
    same = open_connector("slurm", rig.options, "c", identity)
    assert any(one.native_id == held for one in same.observe().observations.values())
    other = open_connector("slurm", rig.options, "c", {**identity, "cluster": "elsewhere"})
    for act in (other.observe, lambda: other.stop(workload.key, native_id=held)):
        with pytest.raises(AnotherCluster, match=f"answers as {bed.cluster}, and elsewhere"):
            act()


def test_what_an_administrator_holds_is_not_released(rig: SlurmRig) -> None:
    workload = a_workload()
    held = rig.submit(workload)
    ours = observed(rig.connector, workload.key)
    assert (ours.phase, ours.is_held_by_others) == (WorkloadPhase.HELD, False)
    rig.bed.run(["scontrol", "hold", held])
    eventually(lambda: observed(rig.connector, workload.key).is_held_by_others)
    rig.connector.release(workload.key, held)
    seen = observed(rig.connector, workload.key)
    assert (seen.phase, seen.is_stuck) == (WorkloadPhase.HELD, True)
    assert "JobHeldAdmin" in seen.message
    rig.bed.run(["scontrol", "release", held])
    until_released(rig.connector, workload.key)
