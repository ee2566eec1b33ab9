import fcntl
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from builders.deploy_scripts import deploy_script
from embedded.__main__ import port_of
from embedded.errors import LauncherError
from embedded.layout import REPO, Layout
from embedded.ports import a_free_port, holder_of, is_free
from embedded.startup import check_port, up
from embedded.supervisor import Backoff, how_it_ended


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_said_with_its_holder_and_the_way_out(taken_port: int) -> None:
    assert not is_free(taken_port)
    command = " ".join(Path("/proc/self/cmdline").read_text().split("\0")).strip()[:80]
    with pytest.raises(LauncherError) as refused:
        check_port(taken_port)
    assert str(refused.value) == (
        f"Port {taken_port} is taken by process {os.getpid()} ({command}): stop that process, "
        f"or choose another port, for example `make up TIDEGATE_PORT={taken_port + 1}`."
    )


def test_a_preferred_port_is_used_when_it_is_free(taken_port: int) -> None:
    free = a_free_port()
    assert is_free(free)
    assert holder_of(free) is None
    assert a_free_port(free) == free
    assert a_free_port(taken_port) != taken_port
    check_port(free)


@pytest.mark.parametrize(
    ("running_on", "asked", "told"),
    [
        (
            8321,
            8322,
            "Tidegate is running already, on port 8321, and port 8322 is not used: to change the "
            "port, run `make down` first.",
        ),
        (8321, 8321, "Tidegate is running already."),
        (0, 8322, "Tidegate is running already."),
    ],
)
def test_a_second_up_says_which_port_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], running_on: int, asked: int, told: str
) -> None:
    layout = Layout(tmp_path / "state")
    layout.prepare()
    with layout.supervisor_lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        layout.phase_file.write_text(f"ready {os.getpid()} {running_on}\n")
        assert up(layout, port=asked) == 0
    assert told in capsys.readouterr().out.splitlines()[0]
    assert layout.phase_file.read_text() == f"ready {os.getpid()} {running_on}\n"


@pytest.mark.parametrize("text", ["0", "65536", "-1", "80a", "", "8000 ", "²", "1" * 40])
def test_a_bad_port_is_refused(text: str) -> None:
    with pytest.raises(LauncherError, match="A port is a whole number from 1 to 65535, not "):
        port_of(text)


def test_a_good_port_is_taken() -> None:
    assert [port_of("1"), port_of("8000"), port_of("65535")] == [1, 8000, 65535]


def test_pauses_grow_to_half_a_minute_and_start_over_after_a_steady_minute() -> None:
    backoff = Backoff()
    assert [backoff.pause_s(ran_s=0.1) for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert backoff.pause_s(ran_s=60) == 1
    assert backoff.pause_s(ran_s=59.9) == 2


def test_how_a_process_ended_is_said_in_words() -> None:
    assert how_it_ended(1) == "exit code 1"
    assert how_it_ended(-signal.SIGKILL) == "killed by SIGKILL"
    assert how_it_ended(-300) == "killed by signal 300"


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    return deploy_script("bootstrap")


def test_bootstrap_uses_the_standard_library_only() -> None:
    words = (REPO / "deploy" / "bootstrap.py").read_text().splitlines()
    imported = {
        line.split()[1].split(".")[0] for line in words if line.startswith(("import ", "from "))
    }
    assert imported <= sys.stdlib_module_names


@pytest.mark.parametrize(
    "output",
    [
        "gcc: internal compiler error: Killed (program cc1)",
        "include/python3.11/Python.h:23:12: fatal error: stdlib.h: No such file or directory",
    ],
)
def test_other_failures_of_a_compiler_are_not_explained(bootstrap: ModuleType, output: str) -> None:
    assert bootstrap.explain(output) is None


@pytest.mark.parametrize(
    ("output", "start"),
    [
        ("ERROR: Could not find a version that satisfies uv", "The package index cannot be"),
        ("error: Failed to fetch: `https://example.org/simple`", "The package index cannot be"),
        ("npm error code ENOTFOUND", "The package index cannot be"),
        ("npm error code EAI_AGAIN", "The package index cannot be"),
        ("OSError: [Errno 28] No space left on device", "The disk of "),
        ("npm error ENOSPC: no space left", "The disk of "),
        ("error: command 'gcc' failed: No such file", "There is no C compiler"),
        ("error: [Errno 2] No such file or directory: 'gcc'", "There is no C compiler"),
        ("unable to execute 'x86_64-linux-gnu-gcc': No such file", "There is no C compiler"),
        ("fatal error: Python.h: No such file or directory", "The headers of this Python are"),
    ],
)
def test_usual_failures_of_an_installation_are_explained(
    bootstrap: ModuleType, output: str, start: str
) -> None:
    assert bootstrap.explain(output).startswith(start)


def test_an_unknown_failure_is_not_explained_away(bootstrap: ModuleType) -> None:
    assert bootstrap.explain("SyntaxError: invalid syntax") is None


def test_an_old_python_is_refused(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 10, 2))
    with pytest.raises(bootstrap.BootstrapError, match=r"^Python 3\.11 or newer is needed"):
        bootstrap.check_machine(installs=False)


def test_a_python_without_venv_is_refused(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", tmp_path / ".venv/bin/python")
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(bootstrap.BootstrapError) as refused:
        bootstrap.make_venv()
    assert str(refused.value) == (
        "This Python cannot make virtual environments: install its venv module (Debian and "
        f"Ubuntu: `apt install python3.{sys.version_info[1]}-venv`) and try again."
    )


def test_a_nearly_full_disk_is_refused_before_anything_is_installed(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "REPO", tmp_path)
    monkeypatch.setattr(bootstrap, "STATE", tmp_path / "var")
    usage = SimpleNamespace(free=1_900_000_000)
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda path: usage)
    bootstrap.check_machine(installs=False)
    with pytest.raises(bootstrap.BootstrapError) as refused:
        bootstrap.check_machine(installs=True)
    assert str(refused.value) == (
        f"Only 1.9 GB are free on the disk of {tmp_path}, and Tidegate needs 2 GB to install "
        "itself: make room and try again."
    )


def test_a_folder_that_cannot_be_written_is_refused(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "var").touch()
    monkeypatch.setattr(bootstrap, "REPO", tmp_path)
    monkeypatch.setattr(bootstrap, "STATE", tmp_path / "var")
    with pytest.raises(
        bootstrap.BootstrapError, match=r"^Cannot write to .*/var \(File exists\): "
    ):
        bootstrap.check_machine(installs=False)


@pytest.mark.parametrize(("exit_code", "made_again"), [(0, []), (1, ["venv", "pip"])])
def test_an_environment_where_uv_cannot_run_is_made_again(
    bootstrap: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    exit_code: int,
    made_again: list[str],
) -> None:
    """A killed installation leaves one. Planted: whatever is there is taken."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    python.chmod(0o755)
    ran: list[str] = []
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", python)
    monkeypatch.setattr(bootstrap, "STATE", tmp_path)
    monkeypatch.setattr(bootstrap, "run_tool", lambda *words, **_: ran.append(words[2]))
    bootstrap.make_venv()
    assert ran == made_again


def test_uv_is_told_the_mirror_that_pip_has(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Planted: the file of pip wins over its variables; pip's mirror wins over uv's own, by either
    of its names."""
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://b.example/simple\n")
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", Path(sys.executable))
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://a.example/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels /more")
    told = bootstrap.uv_settings()
    assert told["UV_DEFAULT_INDEX"] == "https://a.example/simple"
    assert told["UV_FIND_LINKS"] == "/wheels,/more"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://c.example/simple")
    assert bootstrap.uv_settings()["UV_DEFAULT_INDEX"] == "https://c.example/simple"
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    monkeypatch.setenv("UV_INDEX_URL", "https://d.example/simple")
    told = bootstrap.uv_settings()
    assert (told["UV_INDEX_URL"], told.get("UV_DEFAULT_INDEX")) == (
        "https://d.example/simple",
        None,
    )
    assert told["UV_FIND_LINKS"] == "/wheels,/more"


def test_an_environment_is_not_ready_after_a_failure_with_another_lock(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The failed installation may have replaced packages. Planted: the stamp stays meanwhile."""
    lock, is_failing, synced = tmp_path / "requirements-dev.lock", False, []

    def run_tool(*words: object, **_: object) -> None:
        if "sync" in words:
            synced.append(lock.read_text())
            if is_failing:
                raise bootstrap.BootstrapError("The Python packages could not be installed.")

    (tmp_path / ".venv").mkdir()
    for name, value in {
        "VENV": tmp_path / ".venv",
        "STATE": tmp_path / "var",
        "LOCK": lock,
        "run_tool": run_tool,
        "check_machine": lambda **_: None,
        "make_venv": lambda: None,
        "link_node": lambda: None,
        "uv_settings": dict,
    }.items():
        monkeypatch.setattr(bootstrap, name, value)
    lock.write_text("a")
    bootstrap.make_environment()
    bootstrap.make_environment()
    assert synced == ["a"]
    lock.write_text("b")
    is_failing = True
    with pytest.raises(bootstrap.BootstrapError):
        bootstrap.make_environment()
    is_failing = False
    lock.write_text("a")
    bootstrap.make_environment()
    assert synced == ["a", "b", "a"]


def test_uv_is_installed_by_the_hashes_of_the_lock(bootstrap: ModuleType) -> None:
    lines = bootstrap.locked_requirement("uv").splitlines()
    assert lines[0].startswith("uv==")
    assert all(line.strip().startswith("--hash=sha256:") for line in lines[1:])
    with pytest.raises(bootstrap.BootstrapError, match="does not name no-such-package"):
        bootstrap.locked_requirement("no-such-package")


def test_a_failing_tool_shows_its_last_lines(
    bootstrap: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bootstrap, "LOG", tmp_path / "log" / "bootstrap.log")
    program = "print('first'); print('why it failed'); raise SystemExit(4)"
    with pytest.raises(bootstrap.BootstrapError) as refused:
        bootstrap.run_tool(sys.executable, "-c", program, on_failure="It failed.")
    assert str(refused.value) == f"It failed. The whole output is in {tmp_path}/log/bootstrap.log."
    assert capsys.readouterr().out.splitlines()[-1] == "          | why it failed"


def test_the_lines_shown_begin_at_the_first_error(bootstrap: ModuleType) -> None:
    noise = [f"at frame {number}" for number in range(30)]
    assert bootstrap.telling_lines("\n".join(noise)) == noise[-12:]
    lines = ["reading", "Error: no such module", *noise]
    assert bootstrap.telling_lines("\n".join(lines)) == lines[1:13]


def test_stamps_change_with_content_and_with_the_order_of_parts(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("one")
    first = bootstrap.digest(tmp_path / "a", "two")
    assert bootstrap.digest("one", "two") == first
    assert bootstrap.digest("onet", "wo") != first
    stamp = tmp_path / "stamp"
    assert not bootstrap.is_stamped(stamp, first)
    stamp.write_text(first)
    assert bootstrap.is_stamped(stamp, first)
