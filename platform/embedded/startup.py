"""`up`: start whatever is missing until Tidegate answers, then watch over it."""

import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from embedded import postgres, processes, valkey
from embedded.environment import (
    Secrets,
    load_secrets,
    read_env_file,
    service_environment,
    wants_demo,
)
from embedded.errors import LauncherError
from embedded.layout import REPO, Layout
from embedded.logs import last_lines
from embedded.personas import introduction
from embedded.ports import HOST, holder_of, is_free
from embedded.progress import complain, is_terminal, say, show
from embedded.records import forget_record, is_alive, read_record, record_of, write_record
from embedded.services import Service, portal_services, postgres_service, valkey_service
from embedded.stopping import SUPERVISOR, stop_services, tell_of_local_jobs
from embedded.supervisor import Supervisor, how_it_ended

READY_WITHIN_S = 90
_SERVER_WITHIN_S = 60
_STEP_WITHIN_S = 600
_OTHER_UP_WITHIN_S = 600
_OTHER_GONE_AFTER_S = 5
_POLL_S = 0.25
_USER_NUMBERS = "1880000000-1880065535"  # as in portal.settings
_BOUND_LOGS_EVERY_S = 60


class StopRequested(BaseException):
    """A person pressed ^C, or `make down` asked this process to end."""


class _Signals:
    """Counts signals: the first asks for an orderly stop, the second for a quick one."""

    def __init__(self) -> None:
        self.count = 0
        self.is_stopping = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1 and not self.is_stopping:
            raise StopRequested

    def must_hurry(self) -> bool:
        return self.count > 1


@contextmanager
def _only_supervisor(layout: Layout) -> Iterator[bool]:
    """Take the lock of this state folder. Yields False when another process has it."""
    with layout.supervisor_lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def up(
    layout: Layout,
    *,
    port: int,
    detach: bool = False,
    servers_only: bool = False,
    is_in_background: bool = False,
    pages_port: int | None = None,
) -> int:
    """Start Tidegate and watch over it until asked to stop. Return the exit status.

    With `pages_port`, its processes follow changes of the code, and pages are served there from
    their sources. With `detach`, leave a supervisor in the background and return when it is ready.
    If a supervisor runs already, print where and return. Raises LauncherError.
    """
    layout.prepare()
    with _only_supervisor(layout) as is_only:
        if is_only and not detach:
            return _supervise(
                layout,
                port=port,
                servers_only=servers_only,
                is_in_background=is_in_background,
                pages_port=pages_port,
            )
    if is_only:
        return _leave_supervisor(layout, port=port, servers_only=servers_only)
    _wait_for_other(layout)
    say(_running_already(read_phase(layout).port, 0 if servers_only else port))
    _introduce(layout)
    return 0


def _running_already(port: int, asked: int) -> str:
    """Return the message for a second `up`. A port of 0 means only the servers."""
    if port in (0, asked):
        return "Tidegate is running already."
    unused = f", and port {asked} is not used" if asked else ""
    return (
        f"Tidegate is running already, on port {port}{unused}: to change the port, run `make down` "
        "first."
    )


def _wait_for_other(layout: Layout) -> None:
    seen_at = time.monotonic()
    deadline = seen_at + _OTHER_UP_WITHIN_S
    is_told = False
    while read_phase(layout).word != "ready":
        now = time.monotonic()
        other = read_record(layout.run, SUPERVISOR)
        if other is not None and is_alive(other):
            seen_at = now
        if now >= deadline or now - seen_at >= _OTHER_GONE_AFTER_S:
            raise LauncherError(
                "Another `make up` of this checkout ended before Tidegate was ready: see its "
                "output, and try again."
            )
        if not is_told:
            say("Another `make up` is starting it; waiting")
            is_told = True
        time.sleep(_POLL_S)


def _leave_supervisor(layout: Layout, *, port: int, servers_only: bool) -> int:
    log = layout.log_of(SUPERVISOR)
    words = [sys.executable, "-m", "embedded", "up", f"--port={port}", "--background"]
    with log.open("w+b") as output, log.open("rb") as shown:
        child = subprocess.Popen(
            [*words, "--servers-only"] if servers_only else words,
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while child.poll() is None and not _is_ready(layout, child.pid):
                _copy(shown.read())
                time.sleep(_POLL_S)
            time.sleep(_POLL_S)
            _copy(shown.read())
        except KeyboardInterrupt:
            child.send_signal(signal.SIGTERM)
            child.wait()
            _copy(shown.read())
            return 130
    if child.poll() is not None:
        return child.returncode or 1
    child.returncode = 0  # it stays; nobody is to wait for it
    _introduce(layout)
    show("It runs in the background; `make down` stops it.")
    return 0


def _is_ready(layout: Layout, pid: int) -> bool:
    phase = read_phase(layout)
    return phase.word == "ready" and phase.pid == pid


def _copy(data: bytes) -> None:
    sys.stdout.write(data.decode("utf-8", "replace"))
    sys.stdout.flush()


@dataclass(frozen=True)
class Phase:
    """The state of a supervisor: `starting`, `ready`, `stopping`, or empty without one."""

    word: str = ""
    pid: int = 0
    port: int = 0


def read_phase(layout: Layout) -> Phase:
    """Return the last written phase. After a kill of the supervisor it is outdated."""
    try:
        word, pid, port = layout.phase_file.read_text().split()
        return Phase(word, int(pid), int(port))
    except (OSError, ValueError):
        return Phase()


def _enter_phase(layout: Layout, word: str, *, port: int) -> None:
    draft = layout.phase_file.with_suffix(".draft")
    draft.write_text(f"{word} {os.getpid()} {port}\n")
    draft.replace(layout.phase_file)


def _supervise(
    layout: Layout,
    *,
    port: int,
    servers_only: bool,
    is_in_background: bool,
    pages_port: int | None,
) -> int:
    signals = _Signals()
    signals.install()
    supervisor = Supervisor(layout)
    status = 0
    try:
        _enter_phase(layout, "starting", port=0 if servers_only else port)
        write_record(layout.run, record_of(SUPERVISOR, os.getpid()))
        _start_all(layout, supervisor, port=port, servers_only=servers_only, pages_port=pages_port)
        _enter_phase(layout, "ready", port=0 if servers_only else port)
        if not is_in_background:
            # In the background, the output is a log file, and logs must not have passwords.
            _introduce(layout)
            if pages_port is not None:
                show(f"Pages from their sources: http://{HOST}:{pages_port}")
                show(f"Processes start again when Python files change; logs: {layout.log_of('*')}")
            show("Press ^C to stop it; `make down` in another shell does the same.")
        _watch(supervisor)
    except StopRequested:
        show()
    except LauncherError as refused:
        complain(str(refused))
        status = 1
    finally:
        signals.is_stopping = True
        _enter_phase(layout, "stopping", port=0 if servers_only else port)
        stopped = stop_services(layout, must_hurry=signals.must_hurry)
        if stopped:
            say(f"Stopped: {', '.join(stopped)}")
        tell_of_local_jobs(layout)
        layout.phase_file.unlink(missing_ok=True)
        forget_record(layout.run, SUPERVISOR)
    return status


def _watch(supervisor: Supervisor) -> None:
    bound_at = time.monotonic()
    while True:
        supervisor.look()
        if time.monotonic() - bound_at >= _BOUND_LOGS_EVERY_S:
            supervisor.bound_logs()
            bound_at = time.monotonic()
        time.sleep(_POLL_S)


def _start_all(
    layout: Layout,
    supervisor: Supervisor,
    *,
    port: int,
    servers_only: bool,
    pages_port: int | None,
) -> None:
    if left := stop_services(layout):
        say(f"Stopped processes of an earlier run: {', '.join(left)}")
    with_demo = wants_demo(layout)
    if not servers_only:
        check_port(port)
    if pages_port is not None:
        check_port(pages_port, "TIDEGATE_PAGES_PORT")
    secrets = load_secrets(layout)
    start_servers(layout, secrets, supervisor)
    if servers_only:
        return
    run_step(layout, "Database: migrating", "migrate", "--no-input", as_owner=True)
    run_step(layout, "Pages: collecting", "collectstatic", "--no-input", "--verbosity", "0")
    address = f"http://{HOST}:{port}"
    if with_demo:
        step = ("load_demo", "--base-url", address, "--unless-people")
        for line in run_step(layout, "Demo company: loading", *step):
            say(line)
    for line in isolation_words(read_env_file(layout.env_file)):
        say(f"Local jobs: {line}")
    services = portal_services(layout, port=port, pages_port=pages_port)
    say(f"Tidegate: starting {', '.join(service.name for service in services)}")
    for service in services:
        supervisor.start(service)
    _wait_until_web_is_ready(supervisor, port)


def isolation_words(settings: Mapping[str, str]) -> list[str]:
    """Return lines that describe the isolation of local jobs, or none without a local cluster."""
    if not settings.get("TIDEGATE_LOCAL_ROOTS"):
        return []
    numbers = settings.get("TIDEGATE_LOCAL_UIDS", _USER_NUMBERS)
    done = subprocess.run(
        [sys.executable, "-m", "connectors.local.isolation", numbers],
        cwd=REPO,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_STEP_WITHIN_S,
        check=False,
    )
    return done.stdout.splitlines() or ["isolation is unknown, because its test failed."]


def check_port(port: int, variable: str = "TIDEGATE_PORT") -> None:
    """Raise LauncherError when `port` is taken. It names the process if that can be seen."""
    if is_free(port):
        return
    holder = holder_of(port)
    target = "up" if variable == "TIDEGATE_PORT" else "dev"
    raise LauncherError(
        f"Port {port} is taken{f' by {holder}' if holder else ''}: stop that process, or choose "
        f"another port, for example `make {target} {variable}={port + 1}`."
    )


def start_servers(layout: Layout, secrets: Secrets, supervisor: Supervisor) -> None:
    """Start PostgreSQL and Valkey, and create the database's roles. Raises LauncherError."""
    home = postgres.locate_home(layout.postgres)
    say("PostgreSQL: starting")
    if postgres.initialise(home, superuser_password=secrets.superuser_password):
        say(f"PostgreSQL: new database in {home.data}")
    postgres.running_server(home)
    supervisor.start(postgres_service(layout, secrets))
    try:
        postgres.wait_until_ready(
            secrets.superuser_url,
            is_alive=lambda: supervisor.is_running("postgres"),
            within_s=_SERVER_WITHIN_S,
        )
    except LauncherError:
        supervisor.quote_log("postgres")
        raise
    postgres.provision(
        secrets.postgres_port,
        superuser_password=secrets.superuser_password,
        owner_password=secrets.owner_password,
        app_password=secrets.app_password,
    )
    say("Valkey: starting")
    supervisor.start(valkey_service(layout, secrets))
    try:
        valkey.wait_until_ready(
            secrets.valkey_port, secrets.valkey_password, within_s=_SERVER_WITHIN_S
        )
    except LauncherError:
        supervisor.quote_log("valkey")
        raise


def run_step(layout: Layout, title: str, *words: str, as_owner: bool = False) -> list[str]:
    """Run one management command to its end, and return the last lines of its output.

    Raises LauncherError after printing these lines.
    """
    say(title)
    step = Service(
        words[0],
        (sys.executable, "manage.py", *words),
        service_environment(layout, os.environ, as_owner=as_owner),
    )
    log = layout.log_of(step.name)
    log.unlink(missing_ok=True)
    process = processes.start(step, layout)
    try:
        code = process.wait(timeout=_STEP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise LauncherError(
            f"`manage.py {words[0]}` did not end within {_STEP_WITHIN_S // 60} minutes: see {log}."
        ) from None
    forget_record(layout.run, step.name)
    if code:
        Supervisor(layout).quote_log(step.name)
        raise LauncherError(
            f"`manage.py {words[0]}` failed ({how_it_ended(code)}). The last lines of its output "
            f"are above, the whole output is in {log}."
        )
    return last_lines(log)


def _wait_until_web_is_ready(supervisor: Supervisor, port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        supervisor.look()
        supervisor.check_before_ready()
        answer = ask_readyz(port)
        if answer == "ready" and supervisor.have_settled():
            return
        if time.monotonic() >= deadline:
            supervisor.quote_log("web")
            raise LauncherError(
                f"Tidegate was not ready within {READY_WITHIN_S} s (/readyz: {answer}); the last "
                "lines of the web process's log are above."
            )
        time.sleep(_POLL_S)


def ask_readyz(port: int) -> str:
    """Return `ready`, or the different answer of `/readyz` in a few words."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read(500).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as refused:
        return f"no answer, {type(refused).__name__}"
    finally:
        connection.close()
    return "ready" if response.status == http.client.OK else f"{response.status} {body.strip()}"


def has_administrator(port: int) -> bool:
    """Return whether the portal has an administrator. True also if the portal does not answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/api/v1/installation")
        body = connection.getresponse().read(500)
        return json.loads(body)["has_administrator"] is not False
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return True
    finally:
        connection.close()


def _introduce(layout: Layout) -> None:
    port = read_phase(layout).port
    for line in introduction(layout, port=port, with_secrets=is_terminal()):
        show(line)
    if port and not has_administrator(port):
        show("Nobody can sign in yet, because there is no administrator. Create one:")
        show()
        show("  .venv/bin/tidegate-admin create-admin")
        show()
