"""Keeps the services running: restarts ended ones, with growing pauses, and reports it.

A service without a heartbeat is killed first, because a frozen process never ends by itself.
"""

import signal
import subprocess
import time
from dataclasses import dataclass, field

from embedded import logs, postgres, processes
from embedded.errors import LauncherError
from embedded.layout import Layout
from embedded.progress import say, show
from embedded.records import read_record
from embedded.services import Service

_STEADY_AFTER_S = 60
_SETTLED_AFTER_S = 4
_LONGEST_PAUSE_S = 30
_ENDINGS_BEFORE_READY = 3
#: A service without a heartbeat for this long is killed. Its first heartbeat may take longer.
SILENT_AFTER_S = 15
_FIRST_BEAT_WITHIN_S = 90
#: After a pause this long between two checks, the supervisor itself was frozen, not a service.
_LOOK_WITHIN_S = 5
_REFUSED = 78  # EX_CONFIG of sysexits.h: the service said why it must not start


@dataclass
class Backoff:
    """The pause before a service is restarted: 1 s, 2 s, 4 s ... 30 s.

    A service that ran for a minute is stable. Its next end counts as the first again.
    """

    endings: int = 0

    def pause_s(self, *, ran_s: float) -> int:
        """Count one more end after a run of `ran_s` seconds, and return how long to wait."""
        self.endings = 1 if ran_s >= _STEADY_AFTER_S else self.endings + 1
        return min(_LONGEST_PAUSE_S, 1 << min(self.endings - 1, 10))


@dataclass
class _Watched:
    service: Service
    process: "subprocess.Popen[bytes]"
    started_at: float
    backoff: Backoff = field(default_factory=Backoff)
    start_at: float | None = None  # after it has ended: when to restart it
    code: int | None = None  # exit code of the last end
    ran_s: float = 0  # duration of the run before the last end
    beat: int | None = None  # last seen time of the heartbeat file
    beat_at: float = 0  # when that time was seen to change

    def began(self, now: float) -> None:
        """Record a start."""
        self.started_at, self.start_at = now, None
        self.beat, self.beat_at = None, now


def how_it_ended(code: int) -> str:
    """Return `exit code 1` or `killed by SIGKILL` for a return code of `subprocess`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def last_beat_ns(layout: Layout, name: str) -> int | None:
    """Return when a service last touched its heartbeat file, or None before the first time."""
    try:
        return layout.heartbeat_of(name).stat().st_mtime_ns
    except FileNotFoundError:
        return None


class Supervisor:
    """The services that this process has started. Times are seconds of the monotonic clock."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._watched: dict[str, _Watched] = {}
        self._looked_at = time.monotonic()

    def start(self, service: Service) -> None:
        """Start a service and watch it from now on. The logs of earlier starts are rotated."""
        logs.rotate(self._layout.log_of(service.name))
        process = self._begin(service)
        now = time.monotonic()
        self._watched[service.name] = _Watched(service, process, now, beat_at=now)

    def _begin(self, service: Service) -> "subprocess.Popen[bytes]":
        self._layout.heartbeat_of(service.name).unlink(missing_ok=True)
        return processes.start(service, self._layout)

    def is_running(self, name: str) -> bool:
        """Return whether the process of the service runs now."""
        return self._watched[name].process.poll() is None

    def have_settled(self) -> bool:
        """Return whether all services run, each for longer than a failing start takes."""
        now = time.monotonic()
        return all(
            watched.start_at is None
            and now - watched.started_at >= max(_SETTLED_AFTER_S, 2 * watched.ran_s)
            for watched in self._watched.values()
        )

    def look(self) -> None:
        """Restart ended services after their pause. Call it a few times a second."""
        now = time.monotonic()
        was_frozen = now - self._looked_at > _LOOK_WITHIN_S
        self._looked_at = now
        for watched in self._watched.values():
            if watched.start_at is None:
                code = watched.process.poll()
                if code is not None:
                    self._note_end(watched, code, now)
                elif watched.service.beats:
                    if was_frozen:
                        watched.beat_at = now
                    self._kill_if_silent(watched, now)
            elif now >= watched.start_at:
                self._start_again(watched, now)

    def _kill_if_silent(self, watched: _Watched, now: float) -> None:
        name = watched.service.name
        beat = last_beat_ns(self._layout, name)
        if beat != watched.beat:
            watched.beat, watched.beat_at = beat, now
        within_s = _FIRST_BEAT_WITHIN_S if watched.beat is None else SILENT_AFTER_S
        if now - watched.beat_at >= within_s:
            say(f"{name} sent no heartbeat for {within_s} s and is killed")
            # A frozen process reacts to no other signal. The next check records its end.
            watched.process.kill()
            watched.beat_at = now

    def _note_end(self, watched: _Watched, code: int, now: float) -> None:
        name = watched.service.name
        watched.code, watched.ran_s = code, now - watched.started_at
        pause_s = watched.backoff.pause_s(ran_s=watched.ran_s)
        watched.start_at = now + pause_s
        log = self._layout.log_of(name)
        say(f"{name} ended ({how_it_ended(code)}); restart in {pause_s} s; its log: {log}")
        if record := read_record(self._layout.run, name):
            processes.kill_leftovers(record, self._layout)

    def _start_again(self, watched: _Watched, now: float) -> None:
        if watched.service.name == "postgres":
            postgres.running_server(postgres.locate_home(self._layout.postgres))
        watched.process = self._begin(watched.service)
        watched.began(now)
        say(f"{watched.service.name} restarted")

    def check_before_ready(self) -> None:
        """Raise LauncherError for a service that keeps ending before Tidegate is first ready."""
        for name, watched in self._watched.items():
            if watched.code == _REFUSED or watched.backoff.endings >= _ENDINGS_BEFORE_READY:
                self.quote_log(name)
                raise LauncherError(
                    f"{name} does not start. The last lines of its log are above. The whole log: "
                    f"{self._layout.log_of(name)}."
                )

    def quote_log(self, name: str) -> None:
        """Print the last lines of a service's log."""
        for line in logs.last_lines(self._layout.log_of(name)):
            show(f"          | {line}")

    def bound_logs(self) -> None:
        """Shorten logs that have grown too large. Call it about once a minute."""
        for name in self._watched:
            logs.keep_bounded(self._layout.log_of(name))
