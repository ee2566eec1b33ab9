"""Logs of Pods: read from the files in which they are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.kube_log_cluster import (
    chunk_of,
)
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.kubernetes.logs import log_files
from connectors.kubernetes.logs.log_positions import Position
from connectors.kubernetes.logs.log_reading import read_log
from connectors.protocol import LogChunk


def kept(tmp_path: Path, data: bytes, *, is_complete: bool = True) -> None:
    directory = tmp_path / "logs" / "tg-a"
    directory.mkdir(parents=True)
    (directory / "0.log").write_bytes(data)
    opened = os.open(directory, os.O_RDONLY)
    log_files.write_state(opened, 0, Position(size=len(data), is_complete=is_complete))
    os.close(opened)


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, 100, LogChunk(b"0123456789", 0, 10, is_final=True, is_truncated=False)),
        (0, 4, LogChunk(b"0123", 0, 4, is_final=False, is_truncated=False)),
        (8, 4, LogChunk(b"89", 8, 10, is_final=True, is_truncated=False)),
        (99, 4, LogChunk(b"", 10, 10, is_final=True, is_truncated=False)),
        (-3, 2, LogChunk(b"78", 7, 9, is_final=False, is_truncated=False)),
        (-99, 2, LogChunk(b"01", 0, 2, is_final=False, is_truncated=False)),
        (0, -1, LogChunk(b"", 0, 0, is_final=False, is_truncated=False)),
    ],
)
def test_reading_by_offset(tmp_path: Path, offset: int, limit: int, expected: LogChunk) -> None:
    kept(tmp_path, b"0123456789")
    root = str(tmp_path / "logs")
    chunk = read_log(root, "tg-a", rank=0, stream="stdout", offset=offset, limit=limit)
    assert chunk == expected


@pytest.mark.parametrize(
    ("key", "rank", "stream", "why"),
    [
        ("tg-a", 1, "stdout", "tg-a has no output of rank 1, or not yet"),
        ("tg-a", -1, "stdout", "there is no rank -1"),
        ("tg-a", 10**9, "stdout", "there is no rank 1000000000"),
        ("tg-a", 0, "stderr", "Kubernetes writes both streams into one: read stdout"),
        ("tg-a", 0, "../0.json", "there is no stream '../0.json'; use stdout"),
        ("../logs/tg-a", 0, "stdout", "../logs/tg-a has no output of rank 0, or not yet"),
        ("..", 0, "stdout", ".. has no output of rank 0, or not yet"),
        ("", 0, "stdout", " has no output of rank 0, or not yet"),
    ],
)
def test_what_there_is_no_log_of(
    tmp_path: Path, key: str, rank: int, stream: str, why: str
) -> None:
    kept(tmp_path, b"x")
    with pytest.raises(LogUnavailable) as refused:
        read_log(str(tmp_path / "logs"), key, rank=rank, stream=stream, offset=0, limit=9)
    assert str(refused.value) == why


def test_without_a_root_there_are_no_logs() -> None:
    with pytest.raises(LogUnavailable, match="keeps no outputs: its option log_root is not set"):
        read_log(None, "tg-a", rank=0, stream="stdout", offset=0, limit=9)


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Mutant: opened without O_NOFOLLOW; the secret was read."""
    kept(tmp_path, b"x")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    directory = tmp_path / "logs" / "tg-a"
    (directory / "1.log").symlink_to(secret)
    (directory / "2.log").mkdir()
    os.mkfifo(directory / "3.log")
    (tmp_path / "logs" / "tg-link").symlink_to(directory)
    for key, rank in (("tg-a", 1), ("tg-a", 2), ("tg-a", 3), ("tg-link", 0)):
        with pytest.raises((LogUnavailable, ClusterUnavailable)):
            read_log(str(tmp_path / "logs"), key, rank=rank, stream="stdout", offset=0, limit=9)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"is_complete": true}', '{"size": "x"}'])
def test_a_damaged_note_ends_nothing(tmp_path: Path, note: str) -> None:
    kept(tmp_path, b"x")
    (tmp_path / "logs" / "tg-a" / "0.json").write_text(note)
    chunk = chunk_of(tmp_path)
    assert chunk == LogChunk(b"x", 0, 1, is_final=False, is_truncated=False)
