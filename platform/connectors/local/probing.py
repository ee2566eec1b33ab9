"""Tries the isolation of jobs here, in a process of its own (see `probe`)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable

from connectors.local.isolation import SYSTEM
from connectors.local.processes import become_subreaper
from connectors.local.sandbox import Sandbox, spawn


def main(uid: int) -> None:
    """Print as JSON what is refused, and why."""
    is_root = os.geteuid() == 0
    no_users = _try_user(uid) if is_root else "the portal does not run as root"
    as_user = uid if is_root and not no_users else None
    print(json.dumps({"no_users": no_users, "no_namespaces": _try_namespaces(as_user)}))


def _become(uid: int) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def _try_user(uid: int) -> str:
    return _try(lambda: _become(uid), f"no process may become user {uid}")


def _try_namespaces(uid: int | None) -> str:
    """Try the sandbox of jobs, without the folders of an attempt."""
    become_subreaper()
    stage, tmp = (tempfile.mkdtemp(prefix="tidegate-probe-") for _ in range(2))
    sandbox = Sandbox(
        stage=stage,
        needs_user_namespace=os.geteuid() != 0,
        read_only=[path for path in SYSTEM if os.path.lexists(path)],
        writable=[],
        hidden=[],
        own=[],
        tmp=tmp,
    )

    def become() -> None:
        if uid is not None:
            _become(uid)
        # Its /proc must contain only itself and process 1.
        os.execv("/bin/sh", ["sh", "-c", 'test "$$" -le 2 && test -d /proc/1'])  # noqa: S606

    try:
        started = spawn(sandbox, become, before=lambda: None)
        code = -1 if started.problem else os.waitstatus_to_exitcode(os.waitpid(started.pid, 0)[1])
        started.end()
    finally:
        os.rmdir(stage)
        os.rmdir(tmp)
    if started.problem:
        return started.problem
    return "" if code == 0 else f"a program in a sandbox ended with {code}"


def _try(act: Callable[[], None], what: str) -> str:
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return "" if os.waitpid(pid, 0)[1] == 0 else what
