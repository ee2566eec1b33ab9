"""kill -9 of everything that takes part in running an attempt here, at every step.

The promises: nothing is lost, nothing runs twice, nothing is said to be free that is not, and
no process is touched that is not the attempt's. Docstrings name the bugs that were planted and
died of the test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.connector_builders import (
    a_key,
    a_workload,
    eventually,
    is_alive,
    lines,
    observed,
    until_released,
    until_running,
    whole_log,
)
from conformance.rigs import CLUSTER_ID, LocalRig
from connectors.local import connector as connector_module
from connectors.local.attempt_files import is_locked
from connectors.protocol import Observation, Outcome, Workload, WorkloadPhase

REPO = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def crash(*arguments: str) -> int:
    """Run crash_points.py; its exit status."""
    script = f"{REPO}/tests/conformance/crash_points.py"
    return subprocess.run(
        [sys.executable, script, *arguments], env=ENVIRONMENT, timeout=60, check=False
    ).returncode


def publish_only(rig: LocalRig, monkeypatch: pytest.MonkeyPatch, workload: Workload) -> None:
    """Submit, but start no supervisor."""
    with monkeypatch.context() as patched:
        patched.setattr(connector_module, "start_supervisors", lambda attempts: {})
        rig.connector.submit(workload)


def gang(rig: LocalRig, *, ranks: int = 3, grace_s: int = 30, code: str = "0") -> Workload:
    """Each rank says that it was started, waits for a file and exits with `code`."""
    return a_workload(
        f"""
        echo started >> {rig.scratch}/started$RANK
        while ! [ -e {rig.scratch}/go ]; do sleep 0.02; done
        exit {code}
        """,
        ranks=ranks,
        grace_s=grace_s,
    )


def starts(rig: LocalRig, *, ranks: int = 3) -> list[int]:
    return [len(lines(rig.scratch / f"started{rank}")) for rank in range(ranks)]


# The supervisor


def test_ranks_survive_the_supervisor_and_are_adopted(local_rig: LocalRig) -> None:
    """Mutants: the keepers inherited the supervisor's lock, so nobody ever took over; the new
    supervisor started every rank again."""
    workload = a_workload(
        f"echo started >> {local_rig.scratch}/proof; echo before\n"
        f"while ! [ -e {local_rig.scratch}/go ]; do sleep 0.02; done; echo after; exit 7"
    )
    local_rig.connector.submit(workload)
    running = until_running(local_rig.connector, workload.key)
    first = local_rig.supervisor(workload.key)
    local_rig.kill_supervisor(workload.key)
    seen = observed(local_rig.connector, workload.key)
    assert seen == running
    eventually(lambda: local_rig.supervisor(workload.key) != first)
    (local_rig.scratch / "go").touch()
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.FAILED, {0: 7})
    assert ended.started_at == running.started_at
    assert whole_log(local_rig.connector, workload.key) == "before\nafter\n"
    assert lines(local_rig.scratch / "proof") == ["started"]


def test_what_ends_unwatched_is_told_later_as_it_was(local_rig: LocalRig) -> None:
    """Mutant: exit codes were known to the supervisor only; they were lost."""
    workload = gang(local_rig, code="$RANK")
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    local_rig.kill_supervisor(workload.key)
    (local_rig.scratch / "go").touch()
    ranks = local_rig.attempt(workload.key) / "ranks"
    eventually(lambda: all((ranks / f"{rank}.gone").exists() for rank in range(3)))
    codes = [json.loads((ranks / f"{rank}.exit").read_bytes())["at"] for rank in range(3)]
    assert not is_locked(f"{local_rig.attempt(workload.key)}/supervisor.lock")
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.FAILED, {0: 0, 1: 1, 2: 2})
    assert ended.ended_at == max(codes)
    assert starts(local_rig) == [1, 1, 1]


def test_the_supervisor_is_killed_again_and_again(local_rig: LocalRig) -> None:
    workload = gang(local_rig, ranks=10)
    local_rig.connector.submit(workload)
    for _ in range(8):
        before = local_rig.supervisor(workload.key)
        local_rig.kill_supervisor(workload.key)
        local_rig.connector.observe()
        eventually(lambda before=before: local_rig.supervisor(workload.key) != before)
    (local_rig.scratch / "go").touch()
    ended = until_released(local_rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    assert starts(local_rig, ranks=10) == [1] * 10


@pytest.mark.parametrize(
    "point",
    ["before-allocation", "after-allocation", "before-second-fork", "after-second-fork"],
)
def test_the_supervisor_dies_while_it_starts_the_ranks(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    workload = gang(local_rig)
    publish_only(local_rig, monkeypatch, workload)
    crash("supervise", point, str(local_rig.attempt(workload.key)))
    eventually(lambda: not is_locked(f"{local_rig.attempt(workload.key)}/supervisor.lock"))
    until_running(local_rig.connector, workload.key)
    (local_rig.scratch / "go").touch()
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0, 1: 0, 2: 0})
    assert starts(local_rig) == [1, 1, 1]
    eventually(lambda: list((local_rig.root / "allocations").iterdir()) == [])


@pytest.mark.parametrize("point", ["before-end", "after-end"])
def test_the_supervisor_dies_at_the_very_end(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    workload = a_workload("exit 4")
    publish_only(local_rig, monkeypatch, workload)
    crash("supervise", point, str(local_rig.attempt(workload.key)))
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.FAILED, {0: 4})
    # What the dead supervisor still held is free for the next one on the same node.
    second = a_workload("exit 0")
    local_rig.connector.submit(second)
    assert until_released(local_rig.connector, second.key).outcome is Outcome.SUCCEEDED


def test_the_supervisor_dies_in_the_grace_of_a_failed_gang(local_rig: LocalRig) -> None:
    """Mutant: the new supervisor began a grace of its own at its start."""
    workload = a_workload(
        f"""
        trap 'touch {local_rig.scratch}/term' TERM
        touch {local_rig.scratch}/ready$RANK
        if [ "$RANK" = 1 ]; then
            while ! [ -e {local_rig.scratch}/ready0 ]; do sleep 0.02; done
            exit 3
        fi
        while :; do sleep 0.02; done
        """,
        ranks=2,
        grace_s=30,
    )
    local_rig.connector.submit(workload)
    eventually(lambda: (local_rig.scratch / "term").exists())
    seen = eventually(
        lambda: (
            (now := observed(local_rig.connector, workload.key))
            and now.phase is WorkloadPhase.STOPPING
            and now
        )
    )
    assert seen.exit_codes == {1: 3}
    local_rig.kill_supervisor(workload.key)
    # As if the gang had failed so long ago that its grace is over.
    state = local_rig.record(workload.key, "state.json")
    state["cause_ms"] -= 30_000
    (local_rig.attempt(workload.key) / "state.json").write_text(json.dumps(state))
    adopted_ms = time.monotonic_ns() // 1_000_000
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.FAILED, {0: -9, 1: 3})
    killed_ms = local_rig.record(workload.key, "ranks/0.exit")["mono_ms"]
    assert adopted_ms <= killed_ms < adopted_ms + 30_000


def test_the_time_limit_holds_when_the_supervisor_was_killed(local_rig: LocalRig) -> None:
    workload = a_workload("trap '' TERM; while :; do sleep 0.05; done", time_limit_s=2, grace_s=30)
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    local_rig.kill_supervisor(workload.key)
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.TIMED_OUT, {0: -9})
    started = local_rig.record(workload.key, "ranks/0.started")["mono_ms"]
    killed = local_rig.record(workload.key, "ranks/0.exit")["mono_ms"]
    assert 2_000 <= killed - started < 2_000 + 30_000


def test_a_notice_is_not_repeated_by_the_next_supervisor(local_rig: LocalRig) -> None:
    """Mutant: `is_noticed` was not taken over; the notice came twice."""
    workload = a_workload(
        f"""
        trap 'echo notice >> {local_rig.scratch}/notices' TERM
        touch {local_rig.scratch}/ready
        while ! [ -e {local_rig.scratch}/go ]; do sleep 0.02; done
        """
    )
    local_rig.connector.submit(workload)
    eventually(lambda: (local_rig.scratch / "ready").exists())
    local_rig.connector.notify(workload.key)
    eventually(lambda: local_rig.record(workload.key, "state.json")["is_noticed"])
    first = local_rig.supervisor(workload.key)
    local_rig.kill_supervisor(workload.key)
    local_rig.connector.notify(workload.key)
    eventually(lambda: local_rig.supervisor(workload.key) != first)
    (local_rig.scratch / "go").touch()
    assert until_released(local_rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    assert lines(local_rig.scratch / "notices") == ["notice"]


def test_a_stop_and_a_notice_reach_what_nobody_supervises(local_rig: LocalRig) -> None:
    """Neither needs an `observe` to come by first."""
    workload = a_workload(
        f"""
        trap 'touch {local_rig.scratch}/notice' TERM
        touch {local_rig.scratch}/ready
        while :; do sleep 0.02; done
        """
    )
    local_rig.connector.submit(workload)
    eventually(lambda: (local_rig.scratch / "ready").exists())
    until_running(local_rig.connector, workload.key)
    local_rig.kill_supervisor(workload.key)
    local_rig.connector.notify(workload.key)
    eventually(lambda: (local_rig.scratch / "notice").exists())
    local_rig.kill_supervisor(workload.key)
    local_rig.connector.stop(workload.key)
    end = local_rig.record(workload.key, "end.json")
    assert (end["outcome"], end["exit_codes"]) == ("stopped", {"0": -9})


def test_many_that_adopt_at_once_make_one_supervisor(local_rig: LocalRig) -> None:
    workload = gang(local_rig)
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    local_rig.kill_supervisor(workload.key)
    attempt = str(local_rig.attempt(workload.key))
    script = f"{REPO}/platform/connectors/local/supervise.py"
    command = [sys.executable, "-I", "-S", script, attempt]
    adopters = [subprocess.Popen(command) for _ in range(6)]
    assert [adopter.wait(60) for adopter in adopters] == [0] * 6

    def supervisors() -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if f"supervise.py\0{attempt}\0" in entry.read_text():
                    found.append(int(entry.parent.name))
            except OSError:
                continue
        return found

    # Three are the keepers, which are forks.
    keepers = [local_rig.record(workload.key, f"ranks/{rank}.started") for rank in range(3)]
    eventually(lambda: len(supervisors()) == 4)
    assert set(supervisors()) > {keeper["keeper"] for keeper in keepers}
    (local_rig.scratch / "go").touch()
    until_released(local_rig.connector, workload.key)
    assert starts(local_rig) == [1, 1, 1]
    eventually(lambda: supervisors() == [])


# The keepers


def test_keepers_that_race_start_their_rank_once(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keepers of a supervisor that was killed and of the next one may both be under way.

    Mutants: a keeper did not need the lock; it did not look for `started`.
    """
    workload = a_workload("exit 0")
    publish_only(local_rig, monkeypatch, workload)
    proof = local_rig.scratch / "proof"
    attempt = str(local_rig.attempt(workload.key))
    assert crash("keepers", attempt, str(proof), "6") == 0
    assert lines(proof) == ["started"]
    assert crash("keepers", attempt, str(proof), "1") == 0
    assert lines(proof) == ["started"]


@pytest.mark.parametrize("point", ["keeper-before-started", "keeper-after-started"])
def test_a_keeper_dies_before_it_has_started_its_rank(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """It may have been started, as far as anyone can know, so it is not started again."""
    workload = gang(local_rig, ranks=1)
    publish_only(local_rig, monkeypatch, workload)
    crash("supervise", point, str(local_rig.attempt(workload.key)))
    ended = until_released(local_rig.connector, workload.key)
    expected = Outcome.START_FAILED if point == "keeper-before-started" else Outcome.NODE_FAILED
    assert (ended.outcome, ended.exit_codes) == (expected, {})
    assert starts(local_rig, ranks=1) == [0]


@pytest.mark.parametrize("point", ["keeper-after-fork", "keeper-before-exit"])
def test_a_keeper_dies_after_it_has_started_its_rank(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    workload = gang(local_rig, ranks=1, grace_s=0)
    (local_rig.scratch / "go").touch()
    publish_only(local_rig, monkeypatch, workload)
    crash("supervise", point, str(local_rig.attempt(workload.key)))
    ended = until_released(local_rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.NODE_FAILED, {})
    assert starts(local_rig, ranks=1) in ([0], [1])


@pytest.mark.parametrize("is_supervised", [True, False])
def test_what_a_killed_keeper_left_is_found_and_ended(
    local_rig: LocalRig, is_supervised: bool
) -> None:
    """Mutants: a lost rank counted as gone, so its GPUs were free while it ran on."""
    workload = a_workload(
        f"""
        trap '' TERM HUP
        echo $$ > {local_rig.scratch}/$RANK.part
        mv {local_rig.scratch}/$RANK.part {local_rig.scratch}/$RANK
        while :; do sleep 0.05; done
        """,
        ranks=2,
        grace_s=1,
    )
    local_rig.connector.submit(workload)
    pids = [int(eventually(lambda n=n: lines(local_rig.scratch / n))[0]) for n in "01"]
    until_running(local_rig.connector, workload.key)
    keeper = local_rig.record(workload.key, "ranks/0.started")["keeper"]
    if not is_supervised:
        local_rig.kill_supervisor(workload.key)
    os.kill(keeper, signal.SIGKILL)

    def look() -> Observation | None:
        seen = observed(local_rig.connector, workload.key)
        if seen is None or not seen.is_released:
            return None
        assert [is_alive(pid) for pid in pids] == [False, False]
        return seen

    ended = eventually(look)
    assert (ended.outcome, ended.exit_codes) == (Outcome.NODE_FAILED, {1: -9})
    assert "rank 0" in ended.message


def test_a_process_number_that_was_reused_is_not_touched(local_rig: LocalRig) -> None:
    """The recorded numbers of rank 0 now name somebody else's processes.

    Mutant: a keeper was taken to live without a look at its lock; the bystander was killed.
    """
    workload = a_workload("trap '' TERM; while :; do sleep 0.05; done", ranks=2)
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    started = local_rig.record(workload.key, "ranks/0.started")
    pid = local_rig.record(workload.key, "ranks/0.pid")["pid"]
    local_rig.kill_supervisor(workload.key)
    os.kill(started["keeper"], signal.SIGKILL)
    os.killpg(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    bystander = subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & wait"], start_new_session=True)
    try:
        children = Path(f"/proc/{bystander.pid}/task/{bystander.pid}/children")
        child = int(eventually(children.read_text))
        ranks = local_rig.attempt(workload.key) / "ranks"
        (ranks / "0.pid").write_text(json.dumps({"pid": bystander.pid}))
        (ranks / "0.started").write_text(json.dumps({**started, "keeper": bystander.pid}))
        local_rig.connector.stop(workload.key)
        ended = until_released(local_rig.connector, workload.key)
        assert (ended.outcome, ended.exit_codes) == (Outcome.STOPPED, {1: -9})
        assert (is_alive(bystander.pid), is_alive(child)) == (True, True)
    finally:
        os.killpg(bystander.pid, signal.SIGKILL)
        bystander.wait()


# The submitter


@pytest.mark.parametrize(
    ("point", "is_submitted"),
    [
        ("before-rename", False),
        ("after-rename", True),
        ("before-spawn", True),
        ("after-spawn", True),
    ],
)
@pytest.mark.parametrize("is_resubmitted", [True, False])
def test_the_submitter_dies(
    local_rig: LocalRig, point: str, is_submitted: bool, is_resubmitted: bool
) -> None:
    """Mutant: `observe` started no supervisors; what was published but not started hung."""
    key = a_key()
    script = f"echo started >> {local_rig.scratch}/started0"
    code = crash("submit", point, json.dumps(local_rig.options), key, script, "1")
    assert code == -signal.SIGKILL
    if is_resubmitted:
        local_rig.connector.submit(a_workload(script, key=key))
    elif not is_submitted:
        assert local_rig.connector.observe().observations == {}
        return
    assert until_released(local_rig.connector, key).outcome is Outcome.SUCCEEDED
    assert starts(local_rig, ranks=1) == [1]


def test_a_job_survives_all_processes_of_the_portal(local_rig: LocalRig) -> None:
    """The submitter's whole session is killed, as a terminal or a service manager would."""
    key = a_key()
    script = f"while ! [ -e {local_rig.scratch}/go ]; do sleep 0.02; done; exit 6"
    program = (
        "import json, sys, time\n"
        "from connectors.registry import open_connector\n"
        "from builders.connector_builders import a_workload\n"
        f"connector = open_connector('local', json.loads(sys.argv[1]), {CLUSTER_ID!r})\n"
        "connector.submit(a_workload(sys.argv[3], key=sys.argv[2]))\n"
        "print('submitted', flush=True)\n"
        "time.sleep(1000)\n"
    )
    submitter = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(local_rig.options), key, script],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert submitter.stdout is not None
    assert submitter.stdout.readline() == "submitted\n"
    os.killpg(submitter.pid, signal.SIGKILL)
    submitter.wait()
    # Nothing inherited the pipe, or this would wait for the job.
    assert submitter.stdout.read() == ""
    submitter.stdout.close()
    until_running(local_rig.connector, key)
    (local_rig.scratch / "go").touch()
    ended = until_released(local_rig.connector, key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.FAILED, {0: 6})


# The machine and its disk


def test_after_a_reboot_nothing_runs_and_nothing_is_started(local_rig: LocalRig) -> None:
    """Mutant: the boot was not compared; the attempt was started a second time."""
    running, waiting = gang(local_rig, ranks=2), gang(local_rig, ranks=1)
    local_rig.connector.submit(running)
    until_running(local_rig.connector, running.key)
    pids = [local_rig.record(running.key, f"ranks/{rank}.pid")["pid"] for rank in range(2)]
    keepers = [local_rig.record(running.key, f"ranks/{rank}.started") for rank in range(2)]
    local_rig.kill_supervisor(running.key)
    for pid in [*pids, *(keeper["keeper"] for keeper in keepers)]:
        os.kill(pid, signal.SIGKILL)
    shutil.copytree(
        local_rig.attempt(running.key),
        local_rig.attempt(waiting.key),
        ignore=shutil.ignore_patterns("control", "state.json", "*.started", "*.pid"),
    )
    os.mkfifo(local_rig.attempt(waiting.key) / "control")
    for key in (running.key, waiting.key):
        path = local_rig.attempt(key) / "spec.json"
        spec = json.loads(path.read_bytes())
        path.write_text(json.dumps({**spec, "key": key, "boot_id": "another boot"}))
    before = starts(local_rig)
    for key in (running.key, waiting.key):
        ended = until_released(local_rig.connector, key)
        assert (ended.phase, ended.outcome) == (WorkloadPhase.ENDED, Outcome.NODE_FAILED)
        assert ended.ended_at == ended.released_at
        assert "restarted" in ended.message
    assert starts(local_rig) == before
    eventually(lambda: list((local_rig.root / "allocations").iterdir()) == [])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1}', b"\xff"])
def test_a_spec_that_cannot_be_read_is_neither_hidden_nor_finished(
    local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Mutant: unreadable attempts were skipped; the listing lacked the key, as if unknown."""
    broken, sound = a_workload("exit 0"), a_workload("exit 0")
    publish_only(local_rig, monkeypatch, broken)
    (local_rig.attempt(broken.key) / "spec.json").write_bytes(content)
    local_rig.connector.submit(sound)
    assert until_released(local_rig.connector, sound.key).outcome is Outcome.SUCCEEDED
    for _ in range(3):
        seen = observed(local_rig.connector, broken.key)
        assert seen is not None
        assert (seen.phase, seen.native_state) == (WorkloadPhase.RUNNING, "unreadable")
        assert (seen.is_released, seen.outcome) == (False, None)
        assert "cannot be read" in seen.message
    local_rig.connector.stop(broken.key)
    assert until_released(local_rig.connector, broken.key).outcome is Outcome.STOPPED


def test_a_running_attempt_whose_spec_is_lost_can_be_stopped(local_rig: LocalRig) -> None:
    workload = gang(local_rig)
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    pids = [local_rig.record(workload.key, f"ranks/{rank}.pid")["pid"] for rank in range(3)]
    local_rig.kill_supervisor(workload.key)
    (local_rig.attempt(workload.key) / "spec.json").write_bytes(b"\0")
    local_rig.connector.observe()
    local_rig.connector.stop(workload.key)
    ended = until_released(local_rig.connector, workload.key)
    assert [is_alive(pid) for pid in pids] == [False] * 3
    assert (ended.outcome, ended.exit_codes) == (Outcome.STOPPED, {0: -9, 1: -9, 2: -9})


@pytest.mark.parametrize("content", [b"", b'{"phase": "ended"', b'{"phase": "done"}', b"null"])
def test_a_last_word_that_cannot_be_read_is_written_again(
    local_rig: LocalRig, content: bytes
) -> None:
    """Mutant: the file's existence was taken for the end; the listing failed for ever."""
    workload = a_workload("exit 9")
    local_rig.connector.submit(workload)
    before = until_released(local_rig.connector, workload.key)
    (local_rig.attempt(workload.key) / "end.json").write_bytes(content)
    reader = local_rig.open()
    first = reader.observe().observations[workload.key]
    assert first.is_released is False
    assert until_released(reader, workload.key) == before


@pytest.mark.parametrize("record", ["0.started", "0.pid", "0.exit"])
def test_records_of_ranks_that_cannot_be_read(local_rig: LocalRig, record: str) -> None:
    workload = gang(local_rig, ranks=1)
    local_rig.connector.submit(workload)
    until_running(local_rig.connector, workload.key)
    local_rig.kill_supervisor(workload.key)
    ranks = local_rig.attempt(workload.key) / "ranks"
    if record == "0.exit":
        (local_rig.scratch / "go").touch()
        eventually((ranks / "0.gone").exists)
    (ranks / record).write_bytes(b"\0")
    local_rig.connector.observe()
    (local_rig.scratch / "go").touch()
    ended = until_released(local_rig.connector, workload.key)
    expected = (Outcome.NODE_FAILED, {}) if record == "0.exit" else (Outcome.SUCCEEDED, {0: 0})
    assert (ended.outcome, ended.exit_codes) == expected
    assert starts(local_rig, ranks=1) == [1]


def test_a_thousand_attempts_are_listed_completely(local_rig: LocalRig) -> None:
    model = a_workload("exit 0")
    local_rig.connector.submit(model)
    ended = until_released(local_rig.connector, model.key)
    keys = [f"copy-{number}" for number in range(1_000)]
    for key in keys:
        local_rig.attempt(key).mkdir()
        for name in ("spec.json", "end.json"):
            shutil.copy(local_rig.attempt(model.key) / name, local_rig.attempt(key) / name)
    (local_rig.root / "attempts" / "lost+found").mkdir()
    for _ in range(2):
        listing = local_rig.connector.observe().observations
        assert set(listing) == {model.key, *keys}
        assert {seen.ended_at for seen in listing.values()} == {ended.ended_at}
        assert all(seen.is_released for seen in listing.values())
