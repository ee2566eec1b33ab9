"""The launcher as a real process: how the script is started, told, ended, and what is told of it.

Every shell that an image may have as /bin/sh: dash (Debian), bash (Red Hat), BusyBox (Alpine, with
nothing beside it). As process 1 of a PID namespace it is what it is in a container.

The mutants that these tests ended: TERM not passed on, the notice sent again, the script's own code
after a notice, no kill at the limit, 0 for a script that TERM ended.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import a_workload
from connectors.kubernetes.manifests.pod_template import launcher_words
from connectors.workload_checks import SCRIPT_BYTES_MAX

DEADLINE_S = 30
_NAMESPACE = (shutil.which("unshare") or "", "--pid", "--fork", "--mount-proc", "--kill-child")


def _can_unshare() -> bool:
    if not _NAMESPACE[0]:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def _shell(name: str, *words: str) -> Any:
    is_missing = shutil.which(words[0]) is None
    return pytest.param(
        words, id=name, marks=pytest.mark.skipif(is_missing, reason=f"there is no {words[0]}")
    )


@pytest.fixture(
    scope="module",
    params=[
        _shell("dash", "dash"),
        _shell("bash", "bash", "--posix"),
        _shell("busybox", "busybox", "ash"),
    ],
)
def shell(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[tuple[str, ...], str]:
    """The words that start a shell, and the only PATH that it has."""
    words: tuple[str, ...] = request.param
    if words[0] != "busybox":
        return words, "/usr/bin:/bin"
    applets = tmp_path_factory.mktemp("applets")
    busybox = shutil.which("busybox")
    assert busybox is not None
    subprocess.run([busybox, "--install", "-s", str(applets)], check=True)
    return (busybox, "ash"), str(applets)


@dataclass
class Rank:
    """One container: the launcher, its files and what it wrote."""

    process: subprocess.Popen[bytes]
    notice: Path
    longer: Path
    message: Path
    output: Path
    started_at: float

    def give_notice(self) -> None:
        self.notice.write_text("given")

    def until_output(self, word: str) -> None:
        """Until the script wrote `word`."""
        self._until(lambda: word in self.output.read_text())

    def end(self) -> tuple[int, Any]:
        """The exit code and the termination message, at the end."""
        code = self.process.wait(timeout=DEADLINE_S)
        text = self.message.read_text()
        assert text.endswith("\n")
        return code, json.loads(text)

    def seconds(self) -> float:
        return time.monotonic() - self.started_at

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self.output.read_text()
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.02)


@dataclass
class Container:
    """Starts launchers of one shell; what is left of them is killed in the end."""

    shell: Sequence[str]
    path: str
    directory: Path
    ranks: list[Rank]

    def run(
        self,
        script: str | None,
        *,
        signal_name: str = "TERM",
        grace_s: int = 1,
        limit_s: int | None = None,
        signals_shell_only: bool = False,
        first_rank: int = 0,
        environment: Mapping[str, str] | None = None,
        is_process_1: bool = False,
    ) -> Rank:
        """The launcher with `script`; None is a script that never reached the container."""
        workload = a_workload(
            notice_signal=signal_name,
            grace_s=grace_s,
            time_limit_s=limit_s,
            signals_shell_only=signals_shell_only,
        )
        files = [
            self.directory / name for name in ("script", "notice", "limit", "message", "output")
        ]
        if script is not None:
            files[0].write_text(script)
        for file in files[1:]:
            file.write_text("")
        words = launcher_words(workload, first_rank)
        command = [*self.shell, *words[1:-4], *map(str, files[:4])]
        with files[4].open("wb") as output:
            process = subprocess.Popen(
                [*_NAMESPACE, *command] if is_process_1 else command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": self.path, "TIDEGATE_POD_INDEX": "0"} | dict(environment or {}),
                start_new_session=True,
                preexec_fn=_heed_all_signals,
            )
        rank = Rank(process, files[1], files[2], files[3], files[4], time.monotonic())
        self.ranks.append(rank)
        return rank


def _heed_all_signals() -> None:
    """As a container begins, also below nohup: a shell cannot trap what was ignored before it."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def container(shell: tuple[tuple[str, ...], str], tmp_path: Path) -> Iterator[Container]:
    container = Container(shell[0], shell[1], tmp_path, [])
    yield container
    for rank in container.ranks:
        if rank.process.poll() is None:
            os.killpg(rank.process.pid, signal.SIGKILL)
            rank.process.wait()
        if rank.process.stdin is not None:
            rank.process.stdin.close()


#: A loop that a trap interrupts; the shell would tell on stderr how the sleep ended.
LOOP = "exec 2> /dev/null; while :; do sleep 0.1; done"
TOLD_ONCE = """
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(print("child", flush=True)))
print("ready", flush=True)
while True:
    signal.pause()
"""
HEEDLESS = f"""#!{sys.executable}
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
while True:
    signal.pause()
"""
needs_namespaces = pytest.mark.skipif(not _can_unshare(), reason="no PID namespaces here")
both = pytest.mark.parametrize(
    "is_process_1", [False, pytest.param(True, marks=needs_namespaces)], ids=["child", "process-1"]
)


@both
@pytest.mark.parametrize("code", [0, 9, 127, 128])
def test_an_exit_code_is_told(container: Container, code: int, is_process_1: bool) -> None:
    assert container.run(f"exit {code}", is_process_1=is_process_1).end() == (code, {"exit": code})


@pytest.mark.parametrize(("name", "number"), [("TERM", 15), ("KILL", 9), ("SEGV", 11)])
def test_a_signal_that_ended_the_script_is_told(
    container: Container, name: str, number: int
) -> None:
    rank = container.run(f"kill -s {name} $$; sleep 60")

    assert rank.end() == (128 + number, {"signal": number})


@pytest.mark.parametrize("option", ["-l", "--login", "-el"])
def test_a_login_shell_finds_the_programs_of_a_batch_job(
    container: Container, tmp_path: Path, option: str
) -> None:
    """`/etc/profile` sets PATH anew. Planted: the script run as its first line says."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / ".bash_profile").write_text("PATH=/usr/bin:/bin\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "srun").write_text("#!/bin/sh\necho placed\n")
    (programs / "srun").chmod(0o755)
    rank = container.run(
        f"#!{shutil.which('bash')} {option}\nsrun\necho $0\nexit 4\n",
        environment={"TIDEGATE_PROGRAMS": str(programs), "HOME": str(tmp_path)},
    )
    assert rank.end() == (4, {"exit": 4})
    assert rank.output.read_text() == f"placed\n{tmp_path / 'script'}\n"


@pytest.mark.parametrize(("limit_s", "seconds"), [(90, 90), (None, 31_536_000)])
def test_a_batch_script_knows_how_long_it_may_run(
    container: Container, tmp_path: Path, limit_s: int | None, seconds: int
) -> None:
    """Against: variables of jobs that are no batch jobs."""
    script = (
        "echo $((SLURM_JOB_END_TIME - SLURM_JOB_START_TIME)) "
        "$((SLURM_JOB_START_TIME > 1700000000)) $SLURM_JOB_UID $SLURM_JOB_GID\n"
    )
    rank = container.run(
        script, limit_s=limit_s, environment={"TIDEGATE_PROGRAMS": str(tmp_path / "none")}
    )
    assert rank.end() == (0, {"exit": 0})
    assert rank.output.read_text() == f"{seconds} 1 {os.getuid()} {os.getgid()}\n"


def test_the_script_has_no_input_and_its_own_output(container: Container) -> None:
    rank = container.run("cat; echo out; echo err >&2")

    assert rank.end() == (0, {"exit": 0})
    assert rank.output.read_text() == "out\nerr\n"


def test_the_rank_is_the_first_of_its_pods_and_its_index(container: Container) -> None:
    rank = container.run(
        "echo $RANK $NODE_RANK ${TIDEGATE_POD_INDEX-none}",
        first_rank=8,
        environment={"TIDEGATE_POD_INDEX": "3"},
    )

    assert rank.end()[0] == 0
    assert rank.output.read_text() == "11 11 none\n"


def test_the_script_finds_the_environment_as_it_was(container: Container) -> None:
    rank = container.run(
        'echo "$PATH $A"', environment={"PATH": f"/nowhere:{container.path}", "A": "b  c*"}
    )

    rank.end()
    assert rank.output.read_text() == f"/nowhere:{container.path} b  c*\n"


def test_the_interpreter_gets_its_argument_as_one(container: Container, tmp_path: Path) -> None:
    interpreter = tmp_path / "interpreter"
    interpreter.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    interpreter.chmod(0o755)

    rank = container.run(f"#! \t{interpreter}  -a 'b c' \nnot run")

    assert rank.end() == (0, {"exit": 0})
    assert rank.output.read_text() == f"<-a 'b c'>\n<{tmp_path}/script>\n"


@pytest.mark.parametrize("script", ["echo plain", "#!\necho plain", "#! \t\necho plain"])
def test_a_script_without_interpreter_is_a_shell_script(container: Container, script: str) -> None:
    rank = container.run(script)

    assert rank.end() == (0, {"exit": 0})
    assert rank.output.read_text() == "plain\n"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("#!/no/such/python -u\n", "/no/such/python is no program in the image"),
        ("#!/usr/bin/env no-such-program\n", "no-such-program is no program in the image"),
        ("#!/tmp\n", "/tmp is no program in the image"),
        ('#!/no/"such\\thing\n', "the interpreter of the script is no program in the image"),
        ("#!/" + "a" * 300, "/" + "a" * 199 + " is no program in the image"),
        (
            "#!/bin/sh\r\necho x\r\n",
            "the lines of the script end with carriage returns: save it with Unix line ends",
        ),
        (None, "the script did not reach the container"),
    ],
)
def test_what_cannot_start_says_why(container: Container, script: str | None, why: str) -> None:
    rank = container.run(script)

    assert rank.end() == (127, {"start_failed": why})
    assert rank.output.read_text() == f"tidegate: {why}\n"


def test_env_with_more_than_a_name_is_left_to_env(container: Container) -> None:
    rank = container.run("#!/usr/bin/env FIRST=1 sh\n")
    assert rank.end()[1].keys() == {"exit"}


@both
def test_a_notice_reaches_the_whole_group_once(container: Container, is_process_1: bool) -> None:
    # The child is no shell: what that one has just forked would obey its trap too.
    rank = container.run(
        "exec 2> /dev/null; trap 'echo parent' USR1\n"
        f"{sys.executable} -c '{TOLD_ONCE}' &\n"
        "wait; wait\nsleep 2.5; echo saved; exit 3",
        signal_name="USR1",
        is_process_1=is_process_1,
    )
    rank.until_output("ready")
    rank.give_notice()

    assert rank.end() == (0, {"exit": 3, "noticed": True})
    assert sorted(rank.output.read_text().split()) == ["child", "parent", "ready", "saved"]


def test_a_notice_from_before_the_start_is_given_too(container: Container) -> None:
    rank = container.run("trap 'echo told; exit 0' HUP; " + LOOP, signal_name="HUP")
    rank.give_notice()

    assert rank.end() == (0, {"exit": 0, "noticed": True})


def test_a_script_that_heeds_no_notice_ends_at_its_limit(container: Container) -> None:
    # No shell: the child that one has just forked would obey its trap too.
    rank = container.run(HEEDLESS, limit_s=3)

    assert rank.end() == (0, {"signal": 9, "noticed": True, "timed_out": True})
    assert rank.output.read_text() == "told\n"
    assert rank.seconds() >= 3


@pytest.mark.parametrize("code", [0, 5, 143])
def test_what_ends_after_the_notice_of_its_limit_is_timed_out(
    container: Container, code: int
) -> None:
    """Against: `due` set by no notice; each was said to have ended by itself."""
    rank = container.run(f"trap 'exit {code}' TERM; " + LOOP, limit_s=4, grace_s=3)

    said = {"signal": 15} if code == 143 else {"exit": code}
    assert rank.end() == (0, {**said, "noticed": True, "timed_out": True})
    # The notice never comes before half the limit.
    assert rank.seconds() >= 2


SAVING = f"""{sys.executable} -c '
import signal, sys, time
def save(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: signal.pause()
'"""


@both
def test_a_shell_without_a_handler_outlives_the_notice(
    container: Container, is_process_1: bool
) -> None:
    """Planted: the shell signalled like the others; the script was not gone on with."""
    rank = container.run(f"{SAVING}\necho after", grace_s=9, is_process_1=is_process_1)
    rank.until_output("ready")
    rank.give_notice()

    assert rank.end() == (0, {"exit": 0, "noticed": True})
    assert rank.output.read_text() == "ready\nsaved\nafter\n"


@both
def test_what_outlives_its_shell_has_the_rest_of_the_grace(
    container: Container, is_process_1: bool
) -> None:
    """Planted: the group killed at the end of the script; nothing was saved."""
    script = f"trap 'exit 3' TERM\n{SAVING} &\nwait\nwait"
    rank = container.run(script, grace_s=9, is_process_1=is_process_1)
    rank.until_output("ready")
    rank.give_notice()

    assert rank.end() == (0, {"exit": 3, "noticed": True})
    assert rank.output.read_text() == "ready\nsaved\n"


@both
def test_the_shell_alone_hears_it_where_that_was_asked(
    container: Container, is_process_1: bool
) -> None:
    """Planted: `whom` not looked at; the program heard it, too."""
    script = f"trap 'echo shell; kill $!; wait; exit 0' USR1\n{SAVING} &\nwait"
    rank = container.run(
        script,
        signal_name="USR1",
        grace_s=9,
        signals_shell_only=True,
        is_process_1=is_process_1,
    )
    rank.until_output("ready")
    rank.give_notice()

    assert rank.end() == (0, {"exit": 0, "noticed": True})
    assert rank.output.read_text() == "ready\nshell\nsaved\n"


def test_what_ends_after_another_notice_is_not_timed_out(container: Container) -> None:
    """Against: `expect` that sets `due` although a notice was given before."""
    rank = container.run(f"trap 'sleep 3; exit 5' TERM; {LOOP}", limit_s=6, grace_s=3)
    rank.give_notice()

    assert rank.end() == (0, {"exit": 5, "noticed": True})


@both
def test_the_group_is_killed_at_the_limit_with_its_children(
    container: Container, is_process_1: bool
) -> None:
    rank = container.run(
        "trap '' TERM HUP; (sleep 60; echo survived) & sleep 60",
        limit_s=1,
        grace_s=0,
        is_process_1=is_process_1,
    )

    assert rank.end()[1]["timed_out"] is True
    assert rank.output.read_text() == ""


@both
def test_term_is_passed_on_and_the_code_is_the_scripts(
    container: Container, is_process_1: bool
) -> None:
    rank = container.run(
        "trap 'echo term; exit 7' TERM; echo ready; " + LOOP,
        signal_name="USR1",
        is_process_1=is_process_1,
    )
    rank.until_output("ready")
    os.kill(_launcher_pid(rank, is_process_1=is_process_1), signal.SIGTERM)

    assert rank.end() == (7, {"exit": 7})
    assert rank.output.read_text() == "ready\nterm\n"


@both
def test_a_script_that_saves_and_ends_at_term_has_not_succeeded(
    container: Container, is_process_1: bool
) -> None:
    rank = container.run(
        "trap 'echo saved; exit 0' TERM; echo ready; " + LOOP,
        signal_name="USR1",
        is_process_1=is_process_1,
    )
    rank.until_output("ready")
    os.kill(_launcher_pid(rank, is_process_1=is_process_1), signal.SIGTERM)

    assert rank.end() == (143, {"exit": 0})
    assert rank.output.read_text() == "ready\nsaved\n"


def test_what_ends_after_a_notice_and_term_has_saved(container: Container) -> None:
    rank = container.run(
        "trap 'echo told' USR1; trap 'echo saved; exit 0' TERM; echo ready; " + LOOP,
        signal_name="USR1",
        is_process_1=True,
    )
    rank.until_output("ready")
    rank.give_notice()
    rank.until_output("told")
    os.kill(_launcher_pid(rank, is_process_1=True), signal.SIGTERM)

    assert rank.end() == (0, {"exit": 0, "noticed": True})


def test_a_script_that_suspends_itself_is_waited_for(container: Container) -> None:
    rank = container.run("echo ready; kill -s STOP $$; echo resumed", signal_name="USR2")
    rank.until_output("ready")
    started = time.process_time()
    (pid,) = _children(rank.process.pid, "script")
    deadline = time.monotonic() + DEADLINE_S
    while _state(pid) != "T":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(pid, signal.SIGCONT)

    assert rank.end() == (0, {"exit": 0})
    assert time.process_time() - started < 5


@needs_namespaces
def test_what_leaves_the_group_ends_with_the_container(container: Container) -> None:
    rank = container.run(
        "setsid sh -c 'trap \"\" TERM; echo left; sleep 60' & sleep 1; exit 4", is_process_1=True
    )

    assert rank.end() == (4, {"exit": 4})


def test_what_is_left_of_the_group_is_killed(container: Container) -> None:
    rank = container.run("(trap '' TERM HUP; sleep 60; echo survived) & echo $$")

    assert rank.end() == (0, {"exit": 0})
    group = int(rank.output.read_text())
    deadline = time.monotonic() + DEADLINE_S
    while _group_lives(group):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_namespaces
def test_children_that_lose_their_parent_do_not_stay_as_zombies(container: Container) -> None:
    rank = container.run(
        "for i in 1 2 3 4 5; do (sleep 0.1 &); done; sleep 1.5\n"
        "grep -l '^State:.Z' /proc/[0-9]*/status; exit 0",
        is_process_1=True,
    )

    assert rank.end() == (0, {"exit": 0})
    assert rank.output.read_text() == ""


def test_the_largest_script_runs(container: Container) -> None:
    head = "echo begun; : '"
    script = head + "x" * (SCRIPT_BYTES_MAX - len(head) - 12) + "'\necho ended"
    assert len(script) == SCRIPT_BYTES_MAX
    rank = container.run(script)

    assert rank.end() == (0, {"exit": 0})
    assert rank.output.read_text() == "begun\nended\n"


def test_no_file_but_the_message_is_written(container: Container, tmp_path: Path) -> None:
    container.run("exit 0").end()

    names = {path.name for path in tmp_path.iterdir()} - {"interpreter"}
    assert names == {"script", "notice", "limit", "message", "output"}


def test_a_message_that_cannot_be_written_leaves_the_code(container: Container) -> None:
    rank = container.run(
        "rm -f $M; mkdir $M; exit 6", environment={"M": str(container.directory / "message")}
    )

    assert rank.process.wait(timeout=DEADLINE_S) == 6


def _launcher_pid(rank: Rank, *, is_process_1: bool) -> int:
    """The number, as we see it, of the launcher."""
    if not is_process_1:
        return rank.process.pid
    (pid,) = _all_children(rank.process.pid)
    return pid


def _all_children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _children(pid: int, name: str) -> list[int]:
    """The children of `pid` whose last word is a path that ends with `name`."""
    found = []
    for child in _all_children(pid):
        words = Path(f"/proc/{child}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        if words[-1].endswith(f"/{name}".encode()):
            found.append(child)
    return found


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _group_lives(group: int) -> bool:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_the_script_alone_has_the_private_variables(container: Container, tmp_path: Path) -> None:
    """Each is a file. Where there is none, the script starts without.

    Against: the last line of a file that has no newline, as Secrets have none, is dropped.
    """
    private = tmp_path / "private"
    private.mkdir()
    script = 'echo "[${A-}] [${TIDEGATE_PRIVATE-}]"'
    environment = {"TIDEGATE_PRIVATE": str(private)}
    without = container.run(script, environment=environment)
    assert without.end() == (0, {"exit": 0})
    assert without.output.read_text() == "[] []\n"
    (private / "A").write_text("a $b 'c")
    given = container.run(script, environment=environment)
    assert given.end() == (0, {"exit": 0})
    assert given.output.read_text() == "[a $b 'c] []\n"
