"""A node of a real Slurm that vanishes, a number that it gives anew, and a script with tricks:
nothing runs beside its successor or touches a stranger."""

from __future__ import annotations

import time

import pytest

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.loop_builders import a_job
from builders.portal_builders import Company
from builders.slurm_loop import SlurmLoop
from conformance.rigs import SlurmRig
from jobs.models import Attempt
from outbox.models import Message
from slurm.hands_on_slurm import bob, company, field, frail_loop, loop, sbatch, wait_for_a_save
from slurm_bed import SlurmBed
from tenants.models import User

__all__ = ["bob", "company", "frail_loop", "loop"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


@pytest.mark.chaos
def test_a_node_that_vanishes_is_waited_for_until_slurm_says_that_it_is_gone(
    frail_loop: SlurmLoop, company: Company, bob: User
) -> None:
    """slurmd is killed, the job's processes live on. Nothing starts before Slurm's own verdict."""
    loop, bed = frail_loop, frail_loop.rig.bed
    proof = loop.rig.scratch / "proof"
    script = (
        f'echo "$TIDEGATE_ATTEMPT $SLURM_JOB_ID" >> {proof}; '
        '[ "$TIDEGATE_ATTEMPT" = 1 ] && exec sleep 90; sleep 2'
    )
    job = a_job(company.nlp, bob, company.pool, script=script)
    loop.until(job, "running")
    first = job.attempts.get()
    eventually(proof.exists)
    assert first.native_id is not None
    node = field(bed, first.native_id, "NodeList")
    bed.kill9(node)
    seen: list[tuple[str, int]] = []

    def is_over() -> bool:
        loop.turn()
        state = field(bed, first.native_id or "", "JobState")
        seen.append((state, Attempt.objects.count()))
        job.refresh_from_db()
        return job.state == "succeeded"

    deadline = time.monotonic() + 120
    while not is_over():
        assert time.monotonic() < deadline, seen[-3:]
        time.sleep(0.5)
    assert {count for state, count in seen if state == "RUNNING"} == {1}
    first, second = job.attempts.order_by("number")
    assert (first.outcome, first.message) == ("node_failed", "One of its nodes failed.")
    assert (second.outcome, job.attempt_number) == ("succeeded", 2)
    assert proof.read_text().splitlines() == [f"1 {first.native_id}", f"2 {second.native_id}"]
    assert second.slots[0]["node"] != node
    # Both are metered by the cluster's own times.
    metered = {}
    for attempt, state in ((first, "NODE_FAIL"), (second, "COMPLETED")):
        segment = UsageSegment.objects.get(attempt_id=attempt.id)
        assert segment.end is not None
        times = [str(int(at.timestamp())) for at in (segment.start, segment.end)]
        metered[attempt.native_id] = [state, *times]
    asked = [
        *("env", "SLURM_TIME_FORMAT=%s", "sacct", "-nPXDa", "-S", "now-10minutes"),
        *("-j", f"{first.native_id},{second.native_id}", "--format=JobIDRaw,State,Start,End"),
    ]

    def account() -> dict[str, list[str]]:
        lines = [line.split("|") for line in bed.run(asked).splitlines()]
        return {line[0]: line[1:] for line in lines}

    # The accounting hears of an end after the controller has said it.
    eventually(lambda: account() == metered, told=lambda: (account(), metered))
    ends = UsageSegment.objects.get(attempt_id=first.id).end
    assert ends is not None
    assert ends <= UsageSegment.objects.get(attempt_id=second.id).start


def test_a_number_that_a_crashed_controller_gives_to_another_is_never_touched(
    company: Company, empty_bed: SlurmBed, bob: User
) -> None:
    rig = SlurmRig(empty_bed, settle_s=7)
    try:
        loop, bed = SlurmLoop(company.cluster, rig), empty_bed
        wait_for_a_save(bed)
        loop.let_in(bob, company.nlp)
        job = a_job(company.nlp, bob, company.pool, script="exit 0")
        loop.cycle()
        # The controller saves what it accepted every 5 s: its number is safe after a save.
        first: Attempt | None = None
        stranger = ""
        for _ in range(5):
            loop.deliver()
            first = job.attempts.get()
            assert first.native_id is not None
            bed.kill9("ctld")
            bed.start("ctld")
            stranger = sbatch(bed, "-p", "h100", "--gres=gpu:h100:1", "-J", "stranger")
            if stranger == first.native_id:
                break
            bed.run(["scancel", stranger])
            Attempt.objects.update(native_id=None, state="reserved")
            Message.objects.filter(kind="start_attempt").update(
                done_at=None, due_at=first.granted_at, sends=0
            )
        assert first is not None
        assert stranger == first.native_id, "no controller forgot what it had accepted"
        eventually(lambda: field(bed, stranger, "JobState") == "RUNNING")
        # Whatever is wanted of the old number: release, notice, stop, and a new attempt.
        loop.connector.release(first.key, stranger)
        loop.connector.notify(first.key, native_id=stranger)
        loop.connector.stop(first.key, native_id=stranger)
        loop.until(job, "succeeded", "failed")
        assert (job.state, job.attempt_number) == ("succeeded", 2)
        lost = job.attempts.get(number=1)
        assert (lost.outcome, lost.started_at, lost.release_sent_at) == ("lost", None, None)
        assert field(bed, stranger, "JobState") == "RUNNING"
        assert field(bed, stranger, "JobName") == "stranger"
        bed.run(["scancel", stranger])
    finally:
        rig.close()


def test_tricks_in_a_script_change_neither_account_nor_partition(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    script = (
        "#!/bin/bash\n#SBATCH -A root -p a100 --gres=gpu:a100:8 --uid=0\nTIDEGATE_PAYLOAD\n"
        "$(scontrol update jobid=$SLURM_JOB_ID account=root) `id`\necho done\n"
    )
    job = a_job(company.nlp, bob, company.pool, script=script, name="x\n#SBATCH -A root")
    loop.until(job, "succeeded", "failed")
    native_id = job.attempts.get().native_id
    assert job.state == "succeeded"
    assert native_id is not None
    told = [
        field(loop.rig.bed, native_id, name) for name in ("Account", "Partition", "TresPerNode")
    ]
    assert told == ["ai-company_research_nlp", "h100", "gres:gpu:h100:1"]
    assert loop.rig.log(job.attempts.get().key).splitlines()[-1] == "done"
