"""Places of a rank's view that another rank of the job makes at the same moment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from connectors.local import sandbox


def another_first(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever `os.NAME` makes, another process has made just before."""
    real = getattr(os, name)

    def make(path: str, *words: Any, **options: Any) -> Any:
        if name == "mkdir":
            real(path, *words, **options)
        elif words[0] & os.O_CREAT:
            os.close(real(path, *words, **options))
        return real(path, *words, **options)

    monkeypatch.setattr(sandbox.os, name, make)


@pytest.mark.parametrize(("maker", "makes"), [("mkdir", "folder"), ("open", "file")])
def test_a_place_that_another_rank_makes_first_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: str, makes: str
) -> None:
    """Planted: an error where the place exists by then."""
    another_first(monkeypatch, maker)
    with sandbox._place(str(tmp_path), "/project/.venv", makes=makes) as place:
        assert os.path.samefile(place.path, tmp_path / "project/.venv")


def test_a_link_that_another_rank_makes_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sandbox.os, "mkdir", lambda name, mode, dir_fd: os.symlink("/etc", name, dir_fd=dir_fd)
    )
    with pytest.raises(OSError, match="a symbolic link is in the way of the sandbox"):
        sandbox._place(str(tmp_path), "/project/etc", makes="folder")
    assert os.readlink(tmp_path / "project") == "/etc"
