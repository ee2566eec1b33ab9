"""What every connector must do. Real clusters, real processes.

Docstrings of tests name the bugs that were planted in the local connector and died of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import (
    WHO_AM_I,
    a_key,
    a_workload,
    eventually,
    is_there,
    lines,
    observed,
    until_released,
    until_running,
)
from conformance.rigs import LOG_CAP_BYTES, Rig
from connectors.errors import LogUnavailable, WorkloadRejected
from connectors.protocol import (
    BatchLaunch,
    LogChunk,
    Observation,
    Outcome,
    RankSlot,
    WorkloadPhase,
)
from connectors.registry import kind_named

REPO = Path(__file__).resolve().parents[2]


# Submitting


def test_its_kind_says_whether_it_holds_submissions(rig: Rig) -> None:
    """The arbiter, which opens no connector, submits ahead by the kind alone."""
    assert rig.connector.submits_held == kind_named(rig.kind).submits_held


def test_submitting_twice_starts_one_workload(rig: Rig) -> None:
    workload = a_workload(f"echo started >> {rig.scratch}/proof; sleep 1000")
    first = rig.start(workload)
    until_running(rig.connector, workload.key)
    assert rig.start(workload) == first
    eventually(lambda: lines(rig.scratch / "proof"))
    rig.connector.stop(workload.key)
    assert until_released(rig.connector, workload.key).native_id == first
    assert rig.start(workload) == first
    assert lines(rig.scratch / "proof") == ["started"]


def test_a_second_submit_changes_nothing(rig: Rig) -> None:
    first = a_workload("echo first")
    rig.start(first)
    rig.start(a_workload("echo second", key=first.key, ranks=3))
    until_released(rig.connector, first.key)
    assert rig.log(first.key) == "first\n"


def test_submits_from_eight_processes_at_once_start_one_workload(rig: Rig) -> None:
    key, go = a_key(), rig.scratch / "go"
    script, asked = f"echo started >> {rig.scratch}/proof", json.dumps(rig.asked)
    arguments = [rig.kind, json.dumps(rig.options), rig.cluster_id, key, script, asked]
    environment = {**os.environ, "PYTHONPATH": f"{REPO}/platform:{REPO}/tests"}
    submitters = [
        subprocess.Popen(
            [sys.executable, f"{REPO}/tests/conformance/submit_at_once.py", *arguments, str(go)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(8)
    ]
    for submitter in submitters:
        assert submitter.stdout is not None
        assert submitter.stdout.readline() == "ready\n"
    go.touch()
    ids = [submitter.communicate(timeout=60)[0].strip() for submitter in submitters]
    recorded = ids[0]
    if rig.connector.submits_held:
        # They may have left copies: one is recorded, and the others are taken off.
        listing = rig.connector.observe()
        assert {copy.native_id for copy in listing.all_of(key)} == set(ids)
        for copy in listing.all_of(key):
            assert copy.phase is WorkloadPhase.HELD
            if copy.native_id != recorded:
                rig.connector.remove_copy(key, copy.native_id)
        rig.release(key, recorded)
    else:
        assert set(ids) == {recorded}
    assert until_released(rig.connector, key, recorded).outcome is Outcome.SUCCEEDED
    ends = [until_released(rig.connector, key, copy) for copy in set(ids) - {recorded}]
    assert {(end.outcome, end.started_at) for end in ends} <= {(Outcome.STOPPED, None)}
    assert lines(rig.scratch / "proof") == ["started"]


def test_an_unknown_workload_is_absent_and_not_finished(rig: Rig) -> None:
    assert rig.connector.observe().observations == {}


def test_a_workload_gets_none_of_its_closed_nodes(rig: Rig) -> None:
    """All nodes but the last are closed, and so is one that the cluster does not have.

    Planted on Slurm and Kubernetes: closed nodes are ignored; on Slurm: the unknown one is named.
    """
    nodes = [one.name for one in rig.connector.inventory().nodes if one.pool == "h100"]
    workload = a_workload(slots=(RankSlot(nodes[-1], 8_000),))
    rig.start(replace(workload, closed_nodes=(*nodes[:-1], "no-such-node")))
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    assert [one.node for one in ended.slots or workload.slots] == nodes[-1:]


@pytest.mark.parametrize(
    "key", ["", "A", "a_b", "a b", "a/b", "..", "a\n", "ä", "٣", "a" * 65, "a\0b"]
)
def test_a_bad_key_is_rejected(rig: Rig, key: str) -> None:
    with pytest.raises(WorkloadRejected):
        rig.submit(a_workload(key=key))
    with pytest.raises(WorkloadRejected):
        rig.connector.stop(key)
    assert rig.connector.observe().observations == {}


def test_the_longest_key_is_accepted(rig: Rig) -> None:
    key = "0-" + "z" * 62
    rig.start(a_workload(key=key))
    assert until_released(rig.connector, key).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    "environment",
    [
        {"": "x"},
        {"A B": "x"},
        {"A=B": "x"},
        {"1A": "x"},
        {"A\n": "x"},
        {"Ä": "x"},
        {"BASH_ENV": "x"},
        {"ENV": "x"},
        {"PROMPT_COMMAND": "x"},
        {"LD_PRELOAD": "x"},
        {"SLURM_JOB_ID": "1"},
        {"SBATCH_ACCOUNT": "x"},
        {"RANK": "1"},
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"A": "x\0y"},
        {"A": "\ud800"},
        {"A": "x" * 65_536},
        {f"A{n}": "x" * 60_000 for n in range(10)},
        {f"A{n}": "x" for n in range(1_025)},
    ],
    ids=lambda environment: ascii(next(iter(environment))),
)
def test_a_bad_environment_is_rejected(rig: Rig, environment: dict[str, str]) -> None:
    with pytest.raises(WorkloadRejected):
        rig.submit(a_workload(environment=environment))
    assert rig.connector.observe().observations == {}


@pytest.mark.parametrize(
    "script", ["echo a\0b", "x" * (1 << 20) + "y", "echo \ud800"], ids=["nul", "long", "surrogate"]
)
def test_a_bad_script_is_rejected(rig: Rig, script: str) -> None:
    with pytest.raises(WorkloadRejected):
        rig.submit(a_workload(script))
    assert rig.connector.observe().observations == {}


@pytest.mark.parametrize(
    "asked",
    [
        {"slots": ()},
        {"slots": (RankSlot("no-such-node", 1000),)},
        {"mgpu": -1},
        {"mgpu": 1500},
        {"mgpu": 9000},
        {"slots": (RankSlot("node-001", 5000), RankSlot("node-001", 4000))},
        {"pool": "a100"},
        {"notice_signal": "KILL"},
        {"notice_signal": "9"},
        {"time_limit_s": 0},
        {"grace_s": -1},
        {"user": "a\0b"},
    ],
    ids=str,
)
def test_what_can_never_run_is_rejected(rig: Rig, asked: dict[str, Any]) -> None:
    if rig.chooses_nodes and asked == {"slots": (RankSlot("no-such-node", 1000),)}:
        pytest.skip("the cluster chooses the nodes itself")
    with pytest.raises(WorkloadRejected):
        rig.submit(a_workload(**asked))
    assert rig.connector.observe().observations == {}


# Running


def test_success(rig: Rig) -> None:
    before = int(time.time())
    workload = a_workload("exit 0")
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert seen.phase is WorkloadPhase.ENDED
    assert seen.outcome is Outcome.SUCCEEDED
    assert seen.exit_codes == {0: 0}
    assert seen.started_at is not None
    assert seen.ended_at is not None
    assert seen.released_at is not None
    assert before <= seen.started_at <= seen.ended_at <= seen.released_at <= int(time.time())


def test_failure_keeps_the_exit_code(rig: Rig) -> None:
    workload = a_workload("exit 42")
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: 42})


def test_death_by_a_signal_is_a_negative_exit_code(rig: Rig) -> None:
    workload = a_workload("kill -USR1 $$")
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: -10})


def test_an_interpreter_that_is_missing_is_a_failed_start(rig: Rig) -> None:
    workload = a_workload("#!/no/such/interpreter\n")
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.START_FAILED, {})
    assert "/no/such/interpreter" in seen.message


def test_a_script_runs_by_its_own_interpreter(rig: Rig) -> None:
    workload = a_workload(f"#! {rig.python} -I\nimport sys\nprint(sys.flags.isolated)\n")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    assert rig.log(workload.key) == "1\n"


def test_a_script_of_one_mebibyte_runs(rig: Rig) -> None:
    head = "echo begin\n"
    tail = "\necho end\n"
    script = head + "#" * ((1 << 20) - len(head) - len(tail)) + tail
    workload = a_workload(script)
    rig.start(workload)
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    assert rig.log(workload.key) == "begin\nend\n"


def test_standard_input_is_empty(rig: Rig) -> None:
    workload = a_workload("cat; echo done")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    assert rig.log(workload.key) == "done\n"


def test_the_arguments_of_the_script_arrive_exactly_on_every_node(rig: Rig) -> None:
    """Planted: arguments of batch jobs only; Kubernetes' own reading of `$(NAME)`."""
    workload = a_workload(
        '#!/bin/sh\nprintf "%s|" "$#" "$@"',
        ranks=2,
        environment={"A": "value"},
        arguments=("two words", "-x", "$(A) $$ $A `date`", 'it\'s "so"', "", "ü\nend"),
    )
    rig.start(workload)
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    said = '6|two words|-x|$(A) $$ $A `date`|it\'s "so"||ü\nend|'
    assert [rig.log(workload.key, rank=rank) for rank in range(2)] == [said, said]


def test_a_batch_script_on_one_node_starts_tasks(rig: Rig) -> None:
    """Planted: no programs on the PATH; a node list without the node's name."""
    workload = a_workload(
        "#!/bin/bash\nnode=$(scontrol show hostnames)\n"
        '[ "$node" = "$TIDEGATE_NODE" ]; echo "$? $1"\n'
        'echo "$SLURM_NNODES $SLURM_NTASKS $SLURM_JOB_NUM_NODES"\n'
        "srun -l bash -c 'echo $SLURM_PROCID $SLURM_NTASKS' | sort\n"
        "srun bash -c 'exit $((SLURM_PROCID + 4))'",
        arguments=("--first",),
        batch=BatchLaunch(77, tasks=2, tasks_per_node=2),
    )
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, dict(seen.exit_codes)) == (Outcome.FAILED, {0: 5})
    said = [line for line in rig.log(workload.key).splitlines() if not line.startswith("srun:")]
    assert said == ["0 --first", "1 2 1", "0: 0 2", "1: 1 2"]


def test_the_environment_arrives_exactly(rig: Rig) -> None:
    environment = {
        "SPACES": "  two  words  ",
        "QUOTES": """it's "so" `true` $HOME \\n ${x} $(id)""",
        "UNICODE": "Grüße, 世界 🌊",
        "EMPTY": "",
        "EQUALS": "a=b=c",
        "_x9": "*",
        "TIDEGATE_JOB_ID": "17",
    }
    script = f"#!{rig.python}\nimport json, os\nprint(json.dumps(dict(os.environ)))\n"
    workload = a_workload(script, environment=environment)
    rig.start(workload)
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    seen = json.loads(rig.log(workload.key))
    assert {key: seen[key] for key in environment} == environment


def test_nothing_of_the_portal_s_environment_arrives(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_SECRET", "hush")
    workload = a_workload("env | grep -c PORTAL_SECRET")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    assert rig.log(workload.key) == "0\n"


def test_every_rank_of_a_gang_is_started_and_knows_its_place(rig: Rig) -> None:
    names = ("NODE_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "NNODES", "MASTER_ADDR")
    workload = a_workload(
        "".join(f'echo "{name}=${name}"\n' for name in names)
        + 'echo "GPUS=$TIDEGATE_GPUS_PER_NODE NODE=$TIDEGATE_NODE" ; echo "port $MASTER_PORT" >&2',
        slots=tuple(RankSlot(f"node-{n:03d}", 2000) for n in (7, 3, 5)),
    )
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.SUCCEEDED, {0: 0, 1: 0, 2: 0})
    nodes = [slot.node for slot in seen.slots or workload.slots]
    assert len(set(nodes)) == 3
    for rank, node in enumerate(nodes):
        said = rig.log(workload.key, rank=rank).splitlines()
        assert [line for line in said if not line.startswith("port ")] == [
            f"NODE_RANK={rank}",
            f"RANK={rank}",
            "LOCAL_RANK=0",
            "WORLD_SIZE=3",
            "NNODES=3",
            f"MASTER_ADDR={rig.master_of(workload.key)}",
            f"GPUS=2 NODE={node}",
        ]
    ports = {
        rig.log(workload.key, rank=rank, stream=rig.error_stream).splitlines()[-1]
        for rank in range(3)
    }
    assert len(ports) == 1
    assert 1024 < int(ports.pop().removeprefix("port ")) < 65_536


def test_gangs_at_the_same_time_have_different_ports(rig: Rig) -> None:
    workloads = [a_workload("echo $MASTER_PORT; sleep 1000", ranks=2, mgpu=1000) for _ in range(4)]
    for workload in workloads:
        rig.start(workload)
    ports = {
        eventually(lambda key=workload.key: log_or_nothing(rig, key)) for workload in workloads
    }
    assert len(ports) == 4


def log_or_nothing(rig: Rig, key: str) -> str:
    try:
        return rig.log(key)
    except LogUnavailable:
        return ""


def test_a_gang_of_many_ranks_runs(rig: Rig) -> None:
    ranks = range(rig.gang_ranks)
    workload = a_workload('echo "$RANK"', ranks=len(ranks))
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.SUCCEEDED, dict.fromkeys(ranks, 0))
    logs = [rig.log(workload.key, rank=rank) for rank in ranks]
    assert logs == [f"{rank}\n" for rank in ranks]


# Ending


def test_when_one_rank_fails_the_others_are_ended(rig: Rig) -> None:
    # Rank 1 fails when the others run: a rank that had not started yet never would.
    workload = a_workload(
        f"""
        touch {rig.scratch}/ready$RANK
        if [ "$RANK" = 1 ]; then
            while ! [ -e {rig.scratch}/ready0 -a -e {rig.scratch}/ready2 ]; do sleep 0.02; done
            exit 3
        fi
        exec sleep 1000
        """,
        ranks=3,
        grace_s=1_000,
    )
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: -15, 1: 3, 2: -15})


def test_when_one_rank_fails_the_others_are_killed_after_the_grace(rig: Rig) -> None:
    workload = a_workload(
        f"""
        trap 'echo term >> {rig.scratch}/$RANK' TERM
        touch {rig.scratch}/ready$RANK
        if [ "$RANK" = 0 ]; then
            while ! [ -e {rig.scratch}/ready1 ]; do sleep 0.02; done
            exit 7
        fi
        while :; do sleep 0.05; done
        """,
        ranks=2,
        grace_s=1,
    )
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: 7, 1: -9})
    assert lines(rig.scratch / "1") == ["term"]


def test_a_rank_that_is_done_does_not_end_the_others(rig: Rig) -> None:
    workload = a_workload(
        f"""
        [ "$RANK" = 0 ] && {{ {WHO_AM_I} > {rig.scratch}/part; mv {rig.scratch}/part \\
            {rig.scratch}/rank0; exit 0; }}
        while ! [ -e {rig.scratch}/go ]; do sleep 0.02; done
        """,
        ranks=2,
    )
    rig.start(workload)
    who = eventually(lambda: lines(rig.scratch / "rank0"))[0]
    eventually(lambda: not is_there(who))

    def look() -> Observation | None:
        seen = observed(rig.connector, workload.key)
        assert seen is not None
        assert seen.phase is not WorkloadPhase.ENDED
        told = seen.exit_codes or not rig.tells_exits_early
        return seen if told and seen.phase is WorkloadPhase.RUNNING else None

    assert eventually(look).exit_codes == ({0: 0} if rig.tells_exits_early else {})
    (rig.scratch / "go").touch()
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED


# Logs


def test_logs_are_kept_by_rank_and_stream(rig: Rig) -> None:
    workload = a_workload('echo "out $RANK"; echo "err $RANK" >&2', ranks=2)
    rig.start(workload)
    until_released(rig.connector, workload.key)
    for rank in range(2):
        if not rig.parts_streams:
            assert rig.log(workload.key, rank=rank) == f"out {rank}\nerr {rank}\n"
            with pytest.raises(LogUnavailable, match="Kubernetes writes both streams into one"):
                rig.log(workload.key, rank=rank, stream="stderr")
            continue
        for stream, word in (("stdout", "out"), ("stderr", "err")):
            text = rig.log(workload.key, rank=rank, stream=stream)
            assert text == f"{word} {rank}\n"


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, 100, LogChunk(b"0123456789", 0, 10, is_final=True, is_truncated=False)),
        (0, 4, LogChunk(b"0123", 0, 4, is_final=False, is_truncated=False)),
        (4, 4, LogChunk(b"4567", 4, 8, is_final=False, is_truncated=False)),
        (8, 4, LogChunk(b"89", 8, 10, is_final=True, is_truncated=False)),
        (10, 4, LogChunk(b"", 10, 10, is_final=True, is_truncated=False)),
        (99, 4, LogChunk(b"", 10, 10, is_final=True, is_truncated=False)),
        (-3, 100, LogChunk(b"789", 7, 10, is_final=True, is_truncated=False)),
        (-3, 2, LogChunk(b"78", 7, 9, is_final=False, is_truncated=False)),
        (-99, 2, LogChunk(b"01", 0, 2, is_final=False, is_truncated=False)),
        (0, 0, LogChunk(b"", 0, 0, is_final=False, is_truncated=False)),
    ],
)
def test_reading_a_log_by_offset(rig: Rig, offset: int, limit: int, expected: LogChunk) -> None:
    workload = a_workload("printf 0123456789")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    chunk = rig.read_log(workload.key, rank=0, stream="stdout", offset=offset, limit=limit)
    # Times of lines: `test_log_times`.
    assert replace(chunk, times=()) == expected


def test_a_log_can_be_followed_while_the_job_runs(rig: Rig) -> None:
    workload = a_workload(
        f"echo one; while ! [ -e {rig.scratch}/go ]; do sleep 0.02; done; echo two"
    )
    rig.start(workload)
    assert eventually(lambda: log_or_nothing(rig, workload.key)) == "one\n"
    chunk = rig.read_log(workload.key, rank=0, stream="stdout", offset=4, limit=9)
    assert replace(chunk, times=()) == LogChunk(b"", 4, 4, is_final=False, is_truncated=False)
    (rig.scratch / "go").touch()
    until_released(rig.connector, workload.key)
    chunk = rig.read_log(workload.key, rank=0, stream="stdout", offset=4, limit=9)
    assert replace(chunk, times=()) == LogChunk(b"two\n", 4, 8, is_final=True, is_truncated=False)


def test_a_log_keeps_its_head_and_the_job_is_not_disturbed(rig: Rig) -> None:
    """Mutant: the log was cut at nothing instead of at its cap; the head was not the head."""
    workload = a_workload(
        f"""#!{rig.python}
import sys
for number in range(200_000):
    print(f"{{number:06d}}")
print("done", file=sys.stderr)
"""
    )
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.SUCCEEDED, {0: 0})
    text = "".join(f"{number:06d}\n" for number in range(200_000))
    assert rig.log(workload.key) == text[:LOG_CAP_BYTES]
    last = rig.read_log(workload.key, rank=0, stream="stdout", offset=-1, limit=9)
    assert (last.next_offset, last.is_final, last.is_truncated) == (LOG_CAP_BYTES, True, True)
    if rig.parts_streams:
        assert rig.log(workload.key, stream="stderr") == "done\n"


@pytest.mark.parametrize(
    ("rank", "stream"), [(1, "stdout"), (-1, "stdout"), (0, "stdin"), (0, "../spec.json")]
)
def test_a_log_that_does_not_exist(rig: Rig, rank: int, stream: str) -> None:
    workload = a_workload("echo x")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    with pytest.raises(LogUnavailable):
        rig.read_log(workload.key, rank=rank, stream=stream, offset=0, limit=9)


def test_there_is_no_log_of_an_unknown_workload(rig: Rig) -> None:
    with pytest.raises(LogUnavailable):
        rig.read_log("unknown", rank=0, stream="stdout", offset=0, limit=9)


# Forgetting, and what there is


def test_what_is_forgotten_is_gone_with_its_logs(rig: Rig) -> None:
    workload = a_workload("echo x")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    rig.connector.forget(workload.key)
    rig.connector.forget(workload.key)
    if not rig.forgets:
        pytest.skip("the cluster forgets by itself, after a while")
    assert rig.connector.observe().observations == {}
    with pytest.raises(LogUnavailable):
        rig.read_log(workload.key, rank=0, stream="stdout", offset=0, limit=9)


def test_what_runs_is_not_forgotten(rig: Rig) -> None:
    """Mutant: `forget` removed the directory of a running attempt, whose GPUs were then free."""
    workload = a_workload(f"while ! [ -e {rig.scratch}/go ]; do sleep 0.02; done")
    rig.start(workload)
    until_running(rig.connector, workload.key)
    rig.connector.forget(workload.key)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert seen.phase is WorkloadPhase.RUNNING
    (rig.scratch / "go").touch()
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED


def test_the_listing_holds_everything(rig: Rig) -> None:
    workloads = [a_workload("exit 0", mgpu=1000) for _ in range(3)]
    workloads.append(a_workload("sleep 1000", mgpu=1000))
    for workload in workloads:
        rig.start(workload)
    for workload in workloads[:3]:
        until_released(rig.connector, workload.key)
    until_running(rig.connector, workloads[3].key)
    before = int(time.time())
    listing = rig.connector.observe()
    assert before <= listing.observed_at <= int(time.time())
    assert {key: seen.phase for key, seen in listing.observations.items()} == {
        **dict.fromkeys((workload.key for workload in workloads[:3]), WorkloadPhase.ENDED),
        workloads[3].key: WorkloadPhase.RUNNING,
    }


def test_the_inventory_names_every_node(rig: Rig) -> None:
    nodes = rig.connector.inventory().nodes
    assert [nodes[0].name, nodes[-1].name] == [rig.first_node, rig.last_node]
    assert len({node.name for node in nodes}) == len(nodes) == rig.node_count
    for node in nodes:
        assert (node.pool, node.capacity_mgpu, node.is_schedulable) == ("h100", 8_000, True)
    if not rig.chooses_nodes:
        assert {node.state for node in nodes} == {"up"}
