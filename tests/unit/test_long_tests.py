"""What takes long is started first."""

from __future__ import annotations

from long_tests import HERE, LONG_FILES, LONG_FOLDERS, by_length


def test_the_longest_come_first_and_the_short_ones_last() -> None:
    """Planted: a file that is in no list comes first; a folder counts before the longest files."""
    short, waiting = HERE / "unit/jobs/test_jobs_api.py", HERE / "kube/test_kube_cores.py"
    mixed = [short, waiting, *reversed(LONG_FILES)]
    assert sorted(mixed, key=by_length) == [*LONG_FILES, waiting, short]


def test_what_is_called_long_is_there() -> None:
    """A file that was renamed would come late. Planted: a file that is not there."""
    assert [path for path in LONG_FILES if not path.is_file()] == []
    assert [path for path in LONG_FOLDERS if not path.is_dir()] == []
