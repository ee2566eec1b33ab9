"""kill -9 of every process, one after the other, while 50 jobs run: nothing is lost, nothing
runs twice, and the meters agree with what the jobs themselves wrote down."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from builders.installation import REPO, Caller, Tidegate, settle
from builders.killed_database import epochs, kill_database
from embedded.environment import read_env_file

pytestmark = [pytest.mark.story, pytest.mark.timeout(900)]

JOBS = 50
SERVICES = ("web", "worker", "beat", "arbiter", "observer", "postgres", "valkey")
#: Each job notes its start and its end in a file of its own and runs until it may go.
#: It writes to its home, which lies below the cluster's folder: it sees no other folder of ours.
SCRIPT = """
echo "start $TIDEGATE_ATTEMPT $$" >> "$HOME/$TIDEGATE_JOB_ID"
while [ ! -e "$HOME/go" ]; do sleep 0.2; done
echo "end $TIDEGATE_ATTEMPT" >> "$HOME/$TIDEGATE_JOB_ID"
"""


@pytest.fixture(scope="module")
def researcher(tidegate: Tidegate) -> Caller:
    return tidegate.caller_in("organization admin")


def recorded_pid(tidegate: Tidegate, service: str) -> int:
    record = json.loads((tidegate.state / "run" / f"{service}.json").read_text())
    return int(record["pid"])


def kill_and_wait(tidegate: Tidegate, service: str) -> None:
    """kill -9, then wait until the supervisor has put another process in its place."""
    pid = settle(lambda: killed(tidegate, service))

    def is_back() -> bool:
        try:
            new = recorded_pid(tidegate, service)
        except (FileNotFoundError, ValueError):
            return False
        return new != pid and psutil.pid_exists(new)

    settle(is_back)
    settle(lambda: is_ready(tidegate))


def killed(tidegate: Tidegate, service: str) -> int | None:
    """Pid of the service, killed; None while the supervisor is just replacing it."""
    try:
        pid = recorded_pid(tidegate, service)
        psutil.Process(pid).send_signal(signal.SIGKILL)
    except (psutil.NoSuchProcess, FileNotFoundError, ValueError):
        return None
    return pid


def is_ready(tidegate: Tidegate) -> bool:
    try:
        return httpx.get(f"{tidegate.address}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def attempt_supervisors(folder: Path) -> list[psutil.Process]:
    """The small processes that watch over attempts of this installation; the keepers of their
    ranks, forked from them, are left out."""
    # What was seen under the same number before, and is gone by now, would stand for another.
    psutil.process_iter.cache_clear()
    family = {
        process.pid: process
        for process in psutil.process_iter()
        if any(word.endswith("/supervise.py") for word in command_of(process))
        and any(str(folder) in word for word in command_of(process))
    }
    return [process for process in family.values() if process.ppid() not in family]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_nothing_is_lost_and_nothing_runs_twice(tidegate: Tidegate, researcher: Caller) -> None:
    began = datetime.now(UTC) - timedelta(seconds=5)
    ids = [
        researcher.submit(
            "ai-company/production/inference", nodes=1, gpus=4, script=SCRIPT, name=f"job-{n}"
        )["id"]
        for n in range(JOBS)
    ]
    for service in SERVICES:
        kill_and_wait(tidegate, service)
    for job_id in ids:
        researcher.until(job_id, "running")
    supervisors = attempt_supervisors(tidegate.state)
    assert len(supervisors) == JOBS
    for process in supervisors[:10]:
        process.send_signal(signal.SIGKILL)
    for service in SERVICES:
        kill_and_wait(tidegate, service)
    (home,) = {file.parent for file in tidegate.state.glob("local/homes/*/*") if file.name in ids}
    (home / "go").touch()
    for job_id in ids:
        job = researcher.until(job_id, "succeeded", "failed", "cancelled", "timed_out")
        assert (job["state"], job["attempt"]) == ("succeeded", 1)
        lines = (home / job_id).read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["start", "end"]
    held = 0
    for job_id in ids:
        (attempt,) = researcher.get(f"/jobs/{job_id}/attempts")["items"]
        seconds = datetime.fromisoformat(attempt["released_at"]) - datetime.fromisoformat(
            attempt["started_at"]
        )
        held += 4_000 * int(seconds.total_seconds())
    report = researcher.get(
        "/reports/chargeback",
        start=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        end=(datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    assert report["check"] == {
        "segments_mgpu_s": held,
        "rows_mgpu_s": held,
        "is_equal": True,
    }
    assert researcher.use("ai-company")["in_use_mgpu"] == 0


def test_the_loops_go_on_after_the_database_was_killed(tidegate: Tidegate) -> None:
    """Both lead and look again, twice. `tests/performance/bench_failover.py` times it.

    Against: processes that kept the dead connections for good.
    """
    for _ in range(2):
        _, seconds = kill_database(tidegate)
        assert set(seconds) == {"arbiter", "observer", "looked"}


@pytest.mark.parametrize("service", ["arbiter", "observer", "web", "worker"])
def test_a_frozen_process_is_noticed_and_replaced(tidegate: Tidegate, service: str) -> None:
    """Against: nobody noticed an arbiter that was stopped with SIGSTOP for 4 min 25 s."""
    pid = recorded_pid(tidegate, service)
    # It and its children, as it is when a machine or a container is paused.
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        process.suspend()
    # On a busy machine `make status` may take longer than the replacement.
    settle(
        lambda: "no heartbeat for" in status_of(tidegate) or recorded_pid(tidegate, service) != pid
    )
    settle(lambda: recorded_pid(tidegate, service) != pid)
    settle(lambda: is_ready(tidegate) and scheduler_of(tidegate) == (False, False))
    settle(lambda: "no heartbeat for" not in status_of(tidegate))


def test_pages_are_told_that_nothing_is_decided(tidegate: Tidegate) -> None:
    """And a leader that wakes up after all has been deposed: the next one has another epoch."""
    epoch = epoch_of(tidegate, "arbiter")
    psutil.Process(recorded_pid(tidegate, "arbiter")).suspend()
    settle(lambda: scheduler_of(tidegate) == (True, False))
    assert settle(lambda: epoch_of(tidegate, "arbiter") > epoch)
    settle(lambda: scheduler_of(tidegate) == (False, False))


def status_of(tidegate: Tidegate) -> str:
    """What `make status` prints."""
    return subprocess.run(
        [sys.executable, "-m", "embedded", "status"],
        cwd=REPO,
        env=tidegate.environment,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def scheduler_of(tidegate: Tidegate) -> tuple[bool, bool] | None:
    """Whether arbiter and observer are late, as REST says it."""
    caller = tidegate.caller_in("researcher")
    try:
        told = caller.get("/scheduler")
    except (httpx.HTTPError, AssertionError):
        return None
    finally:
        caller.http.close()
    return told["is_late"], told["is_observer_late"]


def epoch_of(tidegate: Tidegate, role: str) -> int:
    with psycopg.connect(read_env_file(tidegate.state / "env")["TIDEGATE_DATABASE_URL"]) as own:
        return epochs(own)[role]
