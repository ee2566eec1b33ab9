"""`down` and `reset`: stop processes by their records, whoever started them."""

import signal
import sys
from collections.abc import Callable

from embedded import local_jobs, postgres, processes
from embedded.errors import LauncherError
from embedded.layout import Layout
from embedded.progress import say, show
from embedded.records import (
    ProcessRecord,
    forget_record,
    is_alive,
    read_record,
    read_records,
    record_of,
    send_signal,
    wait_until_gone,
)
from embedded.services import STOP_WITHIN_S

SUPERVISOR = "supervisor"
#: Servers stop after all other services (step 0), which may still need the database.
_STOPPED_IN_STEP = {"valkey": 1, "postgres": 2}
_SUPERVISOR_WITHIN_S = 60


def running(layout: Layout) -> list[ProcessRecord]:
    """Return records of the running services, in the order in which they are stopped."""
    found = [r for r in read_records(layout.run) if r.name != SUPERVISOR and is_alive(r)]
    return sorted(found, key=lambda record: (_STOPPED_IN_STEP.get(record.name, 0), record.name))


def stop_services(layout: Layout, *, must_hurry: Callable[[], bool] = lambda: False) -> list[str]:
    """Stop every service, Tidegate's own before the servers, and return what was running.

    It needs only the records, so it also cleans up after a killed supervisor.
    """
    found = running(layout)
    portal = [r for r in read_records(layout.run) if r.name not in (SUPERVISOR, *_STOPPED_IN_STEP)]
    _stop(portal, layout, STOP_WITHIN_S, must_hurry)
    for name, within_s in (("valkey", STOP_WITHIN_S), ("postgres", postgres.STOP_WITHIN_S)):
        if record := read_record(layout.run, name):
            _stop([record], layout, within_s, must_hurry)
    _stop_unrecorded_postgres(layout, must_hurry)
    return [record.name for record in found]


def _stop(
    records: list[ProcessRecord],
    layout: Layout,
    within_s: float,
    must_hurry: Callable[[], bool],
) -> None:
    killed = processes.stop(records, layout, within_s=within_s, must_hurry=must_hurry)
    for name in killed:
        say(f"{name} did not stop within {within_s:.0f} s and was killed")


def _stop_unrecorded_postgres(layout: Layout, must_hurry: Callable[[], bool]) -> None:
    """Stop a server on our data without a record. It would prevent the next start."""
    if not (layout.postgres / "data").exists():
        return
    pid = postgres.running_server(postgres.locate_home(layout.postgres))
    if pid is not None:
        record = record_of("postgres", pid, stop_signal=postgres.STOP_SIGNAL)
        _stop([record], layout, postgres.STOP_WITHIN_S, must_hurry)


def down(layout: Layout) -> None:
    """Stop everything except local jobs, and print how many of these continue."""
    _stop_everything(layout)
    tell_of_local_jobs(layout)


def _stop_everything(layout: Layout) -> None:
    """Stop through the supervisor if it lives, then stop all remaining processes."""
    supervisor = read_record(layout.run, SUPERVISOR)
    stopped = [record.name for record in running(layout)]
    if supervisor is not None and is_alive(supervisor):
        send_signal(supervisor, signal.SIGTERM)
        if not wait_until_gone(supervisor, within_s=_SUPERVISOR_WITHIN_S):
            send_signal(supervisor, signal.SIGKILL)
            wait_until_gone(supervisor, within_s=STOP_WITHIN_S)
    forget_record(layout.run, SUPERVISOR)
    stop_services(layout)
    layout.phase_file.unlink(missing_ok=True)
    show(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing is running.")


def tell_of_local_jobs(layout: Layout) -> None:
    """Print how many jobs continue without Tidegate."""
    if count := local_jobs.count_running(layout):
        what, verb = ("1 job", "keeps") if count == 1 else (f"{count} jobs", "keep")
        show(
            f"{what} of the local cluster {verb} running. The next `make up` finds them again; "
            "`make reset` ends them."
        )


def reset(layout: Layout, *, is_agreed: bool) -> None:
    """Stop everything, local jobs included, and delete the state folder after a question."""
    if not layout.state.exists():
        show("There is nothing to delete.")
        return
    if not is_agreed and not _asks(layout):
        show("Nothing was changed.")
        return
    _stop_everything(layout)
    if count := local_jobs.stop_all(layout):
        show(f"Ended {count} {'job' if count == 1 else 'jobs'} of the local cluster.")
    postgres.remove_home(layout.postgres)
    layout.wipe()
    show(f"Deleted {layout.state}.")


def _asks(layout: Layout) -> bool:
    if not sys.stdin.isatty():
        raise LauncherError(
            "`make reset` deletes all data, and without a terminal it cannot ask. To go on, run "
            "`make reset YES=1`."
        )
    jobs = local_jobs.count_running(layout)
    also = f" and end {jobs} running local job(s)" if jobs else ""
    answer = input(
        f"This will stop Tidegate{also} and delete all its data in {layout.state}.\n"
        "Type yes to go on: "
    )
    return answer.strip() == "yes"
