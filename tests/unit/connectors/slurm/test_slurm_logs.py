"""Reading outputs: only regular files of the job's user, never through a link of his."""

import os
import pwd
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.protocol import LogChunk, LogTime
from connectors.slurm import logs
from connectors.slurm.logs import RankExits, read_exits, read_log, within

USER = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The directory of the one who runs the tests, as the user of a job."""
    directory = tmp_path / USER / "out"
    directory.mkdir(parents=True)
    return directory


def read(tmp_path: Path, *, stream: str = "stdout", rank: int = 0, cap: int = 100) -> LogChunk:
    return read_log(
        f"{tmp_path}/{{user}}/out",
        key="key",
        user=USER,
        rank=rank,
        stream=stream,
        offset=0,
        limit=100,
        cap_bytes=cap,
    )


def test_a_stream_ends_with_its_rank(tmp_path: Path, outputs: Path) -> None:
    (outputs / "key.0.stdout").write_text("abc")
    assert read(tmp_path) == LogChunk(b"abc", 0, 3, is_final=False, is_truncated=False)
    (outputs / "key.0.exit").write_text("0\n")
    assert read(tmp_path) == LogChunk(b"abc", 0, 3, is_final=True, is_truncated=False)
    assert read(tmp_path, cap=2) == LogChunk(b"ab", 0, 2, is_final=True, is_truncated=True)


@pytest.mark.parametrize(
    ("later", "times"),
    [
        (b"000000000000003 1700000001\n", ((2, 1_700_000_000_000), (3, 1_700_000_001_000))),
        (b"x" * 27, ((2, 1_700_000_000_000),)),
        (b"000000000000002 1700000001\n", ((2, 1_700_000_000_000),)),
    ],
)
def test_a_file_of_times_is_read_up_to_the_first_line_that_is_no_mark(
    tmp_path: Path,
    outputs: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: bytes,
    times: tuple[tuple[int, int], ...],
) -> None:
    """The job may write 100,000 lines there, whose sizes may not grow. The search of the first
    line reads 17 of them.

    Planted: all lines were read.
    """
    (outputs / "key.0.stdout").write_text("abcd")
    (outputs / "key.0.exit").write_text("0\n")
    (outputs / "key.0.stdout.times").write_bytes(b"000000000000002 1700000000\n" + later * 100_000)
    numbers: list[int] = []
    mark_at = logs._mark_at

    def counted(file: int, number: int) -> LogTime | None:
        numbers.append(number)
        return mark_at(file, number)

    monkeypatch.setattr(logs, "_mark_at", counted)
    assert read(tmp_path).times == times
    assert len(numbers) <= 20


def to_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def to_pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def to_directory(path: Path, secret: Path) -> None:
    path.mkdir()


def to_nothing(path: Path, secret: Path) -> None:
    """Nobody wrote it yet."""


def to_device(path: Path, secret: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [to_link, to_pipe, to_directory, to_nothing, to_device])
def test_what_is_no_regular_file_is_not_read(
    tmp_path: Path, outputs: Path, make: Callable[[Path, Path], None]
) -> None:
    """Mutant: without O_NOFOLLOW the secret was shown."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    make(outputs / "key.0.stdout", secret)
    make(outputs / "key.0.exit", secret)
    with pytest.raises(LogUnavailable):
        read(tmp_path)
    root = f"{tmp_path}/{{user}}/out"
    assert read_exits(root, key="key", user=USER, ranks=1) == RankExits()


def test_a_directory_that_its_user_made_a_link_is_not_followed(tmp_path: Path) -> None:
    """Mutant: only the last part of the path was opened without following links."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "key.0.stdout").write_text("secret")
    (tmp_path / USER).mkdir()
    (tmp_path / USER / "out").symlink_to(elsewhere)
    with pytest.raises(LogUnavailable, match=r"^key.0.stdout is a link, or below one$"):
        read(tmp_path)


def test_a_link_in_the_administrator_s_part_is_followed(tmp_path: Path, outputs: Path) -> None:
    (outputs / "key.0.stdout").write_text("abc")
    (tmp_path / "link").symlink_to(tmp_path)
    assert read(tmp_path / "link").data == b"abc"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_not_read(tmp_path: Path, outputs: Path) -> None:
    """Mutant: the owner was not compared; a hard link to another's file was shown."""
    (outputs / "key.0.stdout").write_text("secret")
    os.chown(outputs / "key.0.stdout", 65534, 65534)
    with pytest.raises(LogUnavailable, match="no file of the job's user"):
        read(tmp_path)


@pytest.mark.parametrize("user", ["..", "a/b", "", "no-such-user-here"])
def test_who_is_no_user_has_no_output(tmp_path: Path, user: str) -> None:
    with pytest.raises(LogUnavailable):
        read_log(
            f"{tmp_path}/{{user}}",
            key="key",
            user=user,
            rank=0,
            stream="stdout",
            offset=0,
            limit=1,
            cap_bytes=1,
        )


def test_exits_of_ranks(tmp_path: Path, outputs: Path) -> None:
    for rank, word in enumerate(("0", "-9", "not started: /x is no program\x1b[2J", "x", "1000")):
        (outputs / f"key.{rank}.exit").write_text(f"{word}\n")
    assert read_exits(f"{tmp_path}/{{user}}/out", key="key", user=USER, ranks=7) == RankExits(
        {0: 0, 1: -9}, "rank 2: /x is no program?[2J"
    )


def test_a_file_system_that_hangs_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_readers", threading.BoundedSemaphore(1))
    go = threading.Event()
    with pytest.raises(ClusterUnavailable, match="did not answer in 0 s"):
        within(0, go.wait)
    with pytest.raises(ClusterUnavailable, match="does not answer"):
        within(0, lambda: 1)
    go.set()
    logs._readers.acquire(timeout=10)
    logs._readers.release()
    assert within(10, lambda: 1) == 1
