import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.connector_builders import eventually
from connectors.local.attempt_files import (
    CorruptRecord,
    integer,
    integer_or_none,
    is_locked,
    read_json,
    text,
    try_lock,
    wake,
    write_json,
)


def test_a_lock_is_exclusive_until_its_last_descriptor_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert is_locked(path) is False
    held = try_lock(path)
    assert held is not None
    copy = os.dup(held)
    assert (is_locked(path), try_lock(path)) == (True, None)
    os.close(held)
    assert is_locked(path) is True
    os.close(copy)
    assert is_locked(path) is False


def test_looking_at_a_lock_never_takes_it(tmp_path: Path) -> None:
    """A look that locked for a moment would make a supervisor that starts just then give up.

    Mutant killed: the look locked and unlocked."""
    path = tmp_path / "lock"
    path.touch()
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from connectors.local.attempt_files import is_locked\n"
            "print('looking', flush=True)\n"
            "for _ in range(20_000): is_locked(sys.argv[1])\n",
            str(path),
        ],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "platform")},
        stdout=subprocess.PIPE,
    )
    assert looker.stdout is not None
    looker.stdout.readline()
    while looker.poll() is None:
        held = try_lock(str(path))
        assert held is not None
        os.close(held)
    assert looker.returncode == 0
    looker.stdout.close()


def test_a_lock_goes_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try_lock(path)
        os.write(writer, b"!")
        os.close(writer)
        while True:
            os.read(reader, 1)
    assert eventually(lambda: is_locked(path))
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    assert is_locked(path) is False


def test_records_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "record.json")
    for durable in (False, True):
        write_json(path, {"a": 1, "b": None, "c": "ü"}, is_durable=durable)
        record = read_json(path)
        assert (integer(record, "a"), integer_or_none(record, "b"), text(record, "c")) == (
            1,
            None,
            "ü",
        )
    assert os.listdir(tmp_path) == ["record.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b'{"a"', b"\xff\xfe"])
def test_what_is_no_record(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(CorruptRecord, match=r"record\.json"):
        read_json(str(tmp_path / "record.json"))


@pytest.mark.parametrize("value", ["1", 1.5, True, None, [1]])
def test_what_is_no_integer(value: object) -> None:
    with pytest.raises(CorruptRecord):
        integer(json.loads(json.dumps({"a": value})), "a")


def test_waking_nobody_is_fine(tmp_path: Path) -> None:
    wake(str(tmp_path / "absent"))
    os.mkfifo(tmp_path / "control")
    wake(str(tmp_path / "control"))
