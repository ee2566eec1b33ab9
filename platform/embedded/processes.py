"""Starts and stops the processes of the services."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from embedded.layout import REPO, Layout
from embedded.postgres import identity_of
from embedded.records import (
    ProcessRecord,
    birth_mark,
    forget_record,
    is_alive,
    record_of,
    send_signal,
    wait_until_gone,
    write_record,
)
from embedded.services import Service

_POLL_S = 0.05
_KILL_WITHIN_S = 5


def start(service: Service, layout: Layout) -> "subprocess.Popen[bytes]":
    """Start the process in a session of its own, with its output appended to its log.

    The child writes its own record before it executes the service. So there is always a record of a
    running service, even if this process is killed.
    """
    identity = identity_of(service.run_as)

    def become_the_service() -> None:
        write_record(
            layout.run, record_of(service.name, os.getpid(), stop_signal=service.stop_signal)
        )
        if identity.group is not None:
            os.setgroups(identity.extra_groups or [])
            os.setgid(identity.group)
        if identity.user is not None:
            os.setuid(identity.user)

    with layout.log_of(service.name).open("ab") as log:
        return subprocess.Popen(
            service.command,
            cwd="/" if service.run_as else REPO,
            env=service.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=become_the_service,
        )


def left_in_session(record: ProcessRecord, layout: Layout) -> list[ProcessRecord]:
    """Return processes that a service started and that outlive it, such as a killed worker's pool.

    They belong to the service's session and have our state folder in their environment. Jobs of the
    local cluster have sessions of their own, so they are never returned.
    """
    if birth_mark(record.pid) not in (None, record.birth):
        return []  # the id is another's by now, so nobody of our session is left
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if (
                process.pid != record.pid
                and os.getsid(process.pid) == record.pid
                and process.environ().get("TIDEGATE_STATE_DIR") == str(layout.state)
            ):
                found.append(record_of(record.name, process.pid))
    return found


def kill_leftovers(record: ProcessRecord, layout: Layout) -> None:
    """Kill the processes that an ended service has left in its session."""
    left = left_in_session(record, layout)
    for each in left:
        send_signal(each, signal.SIGKILL)
    for each in left:
        wait_until_gone(each, within_s=_KILL_WITHIN_S)


def stop(
    records: Iterable[ProcessRecord],
    layout: Layout,
    *,
    within_s: float,
    must_hurry: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Ask all processes to stop, kill those still alive after `within_s`, and delete their records.

    Returns the names of the killed ones. `must_hurry` may become true meanwhile, which ends the
    wait.
    """
    waiting = list(records)
    for record in waiting:
        send_signal(record, record.stop_signal)
    deadline = time.monotonic() + within_s
    while any(map(is_alive, waiting)):
        if must_hurry() or time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    killed = [record for record in waiting if is_alive(record)]
    for record in killed:
        # PostgreSQL ends its children on SIGQUIT. On SIGKILL it could not.
        last = signal.SIGQUIT if record.name == "postgres" else signal.SIGKILL
        send_signal(record, last)
        if not wait_until_gone(record, within_s=_KILL_WITHIN_S):
            send_signal(record, signal.SIGKILL)
            wait_until_gone(record, within_s=_KILL_WITHIN_S)
    for record in waiting:
        kill_leftovers(record, layout)
        forget_record(layout.run, record.name)
    return [record.name for record in killed]
