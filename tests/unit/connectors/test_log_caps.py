from pathlib import Path

import pytest

from connectors.local.log_caps import cut_log, log_size


def test_a_log_within_its_cap_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "0.stdout"
    path.write_bytes(b"12345")
    assert (cut_log(str(path), 5), log_size(str(path), 5)) == (False, (5, False))


def test_more_than_the_cap_is_never_shown_even_before_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "0.stdout"
    path.write_bytes(b"123456")
    assert log_size(str(path), 5) == (5, True)
    assert cut_log(str(path), 5) is True
    assert (path.read_bytes(), log_size(str(path), 5)) == (b"12345", (5, True))
    assert cut_log(str(path), 5) is False


def test_a_writer_goes_on_after_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "0.stdout"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"123456")
        cut_log(str(path), 5)
        writer.write(b"789")
    assert path.read_bytes() == b"12345789"
    assert cut_log(str(path), 5) is True


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert cut_log(str(tmp_path / "0.stdout"), 5) is False
    with pytest.raises(FileNotFoundError):
        log_size(str(tmp_path / "0.stdout"), 5)
