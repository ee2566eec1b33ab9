"""What a time limit, a notice and a stop do, on every cluster."""

from __future__ import annotations

import pytest

from builders.connector_builders import (
    a_workload,
    eventually,
    is_there,
    lines,
    observed,
    until_released,
)
from conformance.rigs import Rig
from connectors.protocol import (
    Observation,
    Outcome,
    WorkloadPhase,
)


def test_the_time_limit_gives_notice_and_then_ends(rig: Rig) -> None:
    workload = a_workload(
        f"""
        trap 'echo notice >> {rig.scratch}/notices' USR2
        while :; do sleep 0.05; done
        """,
        time_limit_s=6,
        grace_s=3,
        notice_signal="USR2",
    )
    rig.start(workload)
    eventually(lambda: lines(rig.scratch / "notices"))
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert seen.phase is WorkloadPhase.RUNNING
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.TIMED_OUT, {0: -9})
    assert lines(rig.scratch / "notices") == ["notice"]
    assert ended.started_at is not None
    assert ended.ended_at is not None
    assert ended.ended_at - ended.started_at + 1 >= 6
    assert ended.ended_at - ended.started_at < 6 + 3


@pytest.mark.parametrize("code", [0, 3, 143])
def test_a_job_that_ends_at_the_notice_of_its_limit_is_timed_out(rig: Rig, code: int) -> None:
    """Its limit ended it, whatever its exit code: after a notice, 0 means "saved".

    Against: the notice's cause dropped in the supervisor, the batch script and the launcher.
    """
    workload = a_workload(
        f"trap 'exit {code}' TERM; while :; do sleep 0.05; done", time_limit_s=4, grace_s=3
    )
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert seen.outcome is Outcome.TIMED_OUT
    # A shell tells its killed child and this exit code alike.
    assert seen.exit_codes in ({0: code}, {0: 128 - code if code > 128 else code})


def test_a_job_that_ends_before_the_notice_of_its_limit_keeps_its_own_outcome(rig: Rig) -> None:
    workload = a_workload("exit 3", time_limit_s=60, grace_s=3)
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: 3})


def test_a_notice_and_a_voluntary_exit_free_the_gpus_at_once(rig: Rig) -> None:
    workload = a_workload(
        f"""
        trap 'exit 5' USR1
        touch {rig.scratch}/ready$RANK
        while :; do sleep 0.02; done
        """,
        ranks=2,
        notice_signal="USR1",
        grace_s=10_000,
    )
    rig.start(workload)
    eventually(lambda: all((rig.scratch / f"ready{rank}").exists() for rank in range(2)))
    rig.connector.notify(workload.key)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.FAILED, {0: 5, 1: 5})


def test_after_a_notice_ranks_may_end_one_by_one(rig: Rig) -> None:
    """The grace is the sender's: a rank that ends early with an error does not cost the rest.

    Mutant: the gang rule applied after a notice; rank 1 got TERM and was killed.
    """
    workload = a_workload(
        f"""
        trap 'touch {rig.scratch}/noticed; exit 9' USR1
        trap 'echo term >> {rig.scratch}/terms' TERM
        [ "$RANK" = 1 ] && trap '' USR1
        touch {rig.scratch}/ready$RANK
        while ! [ -e {rig.scratch}/saved ]; do sleep 0.02; done
        """,
        ranks=2,
        notice_signal="USR1",
        grace_s=0,
    )
    rig.start(workload)
    eventually(lambda: all((rig.scratch / f"ready{rank}").exists() for rank in range(2)))
    rig.connector.notify(workload.key)
    eventually((rig.scratch / "noticed").exists)
    if rig.tells_exits_early:
        eventually(lambda: (now := observed(rig.connector, workload.key)) and now.exit_codes)
    (rig.scratch / "saved").touch()
    seen = until_released(rig.connector, workload.key)
    assert seen.exit_codes == {0: 9, 1: 0}
    assert lines(rig.scratch / "terms") == []


def test_a_notice_that_is_ignored_and_then_a_stop(rig: Rig) -> None:
    workload = a_workload(
        f"""
        trap 'echo notice >> {rig.scratch}/notices' TERM
        touch {rig.scratch}/ready
        while :; do sleep 0.02; done
        """,
        grace_s=1,
    )
    rig.start(workload)
    eventually(lambda: (rig.scratch / "ready").exists())
    rig.connector.notify(workload.key)
    eventually(lambda: lines(rig.scratch / "notices"))
    rig.connector.notify(workload.key)
    rig.connector.notify(workload.key)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert (seen.phase, seen.is_released) == (WorkloadPhase.RUNNING, False)
    rig.connector.stop(workload.key)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.STOPPED
    if rig.tells_exits_of_stopped:
        assert ended.exit_codes == {0: -9}
    assert lines(rig.scratch / "notices") == ["notice"]


def test_a_stop_before_the_submit_is_kept(rig: Rig) -> None:
    """Mutant: `stop` of an unknown key did nothing; the late submit ran."""
    workload = a_workload(f"echo started >> {rig.scratch}/proof")
    rig.connector.stop(workload.key)
    rig.submit(workload)
    if rig.connector.submits_held:
        # It remembers nothing, but what comes is held: nobody releases it, and it is stopped.
        rig.connector.stop(workload.key)
    seen = until_released(rig.connector, workload.key)
    assert (seen.phase, seen.outcome) == (WorkloadPhase.ENDED, Outcome.STOPPED)
    assert (seen.started_at, seen.exit_codes) == (None, {})
    assert lines(rig.scratch / "proof") == []


def test_stopping_and_notifying_what_has_ended_changes_nothing(rig: Rig) -> None:
    workload = a_workload("exit 0")
    rig.start(workload)
    before = until_released(rig.connector, workload.key)
    rig.connector.notify(workload.key)
    rig.connector.stop(workload.key)
    assert observed(rig.connector, workload.key) == before


def test_notifying_what_is_unknown_changes_nothing(rig: Rig) -> None:
    rig.connector.notify("unknown")
    assert rig.connector.observe().observations == {}


def test_gpus_are_free_only_when_descendants_are_gone(rig: Rig) -> None:
    """A daemon that left the session and lost its parents still counts, until it is gone.

    Mutant: released when the last rank had ended; seen released with the daemon alive.
    """
    if not rig.finds_hidden_processes:
        pytest.skip("this cluster does not track processes that hide")
    workload = a_workload(
        f"""#!{rig.python}
import os, pathlib, signal, time
scratch = pathlib.Path({str(rig.scratch)!r})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (scratch / "part").write_text(f"{{os.getpid()}} {{os.readlink('/proc/self/ns/pid')}}")
        (scratch / "part").rename(scratch / "daemon")
        while True:
            time.sleep(0.02)
    os._exit(0)
while not (scratch / "daemon").exists():
    time.sleep(0.01)
""",
        grace_s=1,
    )
    rig.start(workload)
    daemon = eventually(lambda: lines(rig.scratch / "daemon"))[0]

    def look() -> Observation | None:
        seen = observed(rig.connector, workload.key)
        if seen is None or not seen.is_released:
            return None
        assert not is_there(daemon)
        return seen

    seen = eventually(look)
    assert (seen.outcome, seen.exit_codes) == (Outcome.SUCCEEDED, {0: 0})


def test_a_stop_ends_descendants_that_hide(rig: Rig) -> None:
    """Mutant: only process groups were killed; the daemon lived on and nothing was released."""
    if not rig.finds_hidden_processes:
        pytest.skip("this cluster does not track processes that hide")
    workload = a_workload(
        f"""#!{rig.python}
import os, pathlib, sys, time
scratch = pathlib.Path({str(rig.scratch)!r})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        code = ("import os, pathlib, signal, sys, time; signal.signal(15, signal.SIG_IGN);"
                "p = pathlib.Path(sys.argv[1]); me = os.readlink('/proc/self/ns/pid');"
                "(p / 'part').write_text(f'{{os.getpid()}} {{me}}');"
                "(p / 'part').rename(p / 'daemon'); time.sleep(1000)")
        os.execve(sys.executable, [sys.executable, "-c", code, str(scratch)], {{}})
    os._exit(0)
time.sleep(1000)
"""
    )
    rig.start(workload)
    daemon = eventually(lambda: lines(rig.scratch / "daemon"))[0]
    assert is_there(daemon)
    rig.connector.stop(workload.key)
    seen = until_released(rig.connector, workload.key)
    assert not is_there(daemon)
    assert seen.outcome is Outcome.STOPPED
    assert seen.exit_codes in rig.codes_of_stopped
