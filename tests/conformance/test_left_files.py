"""The files that jobs leave in their folders, and the ways out of these folders."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from builders.connector_builders import a_workload, until_released
from conformance.rigs import LocalRig, Rig, SlurmRig
from connectors import job_folders
from connectors.errors import ClusterUnavailable
from connectors.job_folders import LATEST_S, FilesUnavailable, JobFile
from connectors.local.job_files import LocalFiles
from connectors.registry import kind_named

OWN = """
mkdir -p out/deep; printf one > out/a.txt; printf three > out/deep/b.bin; printf four > c
"""


class Left:
    """The files that a script of a real job left."""

    def __init__(self, rig: Rig, script: str) -> None:
        workload = a_workload(f'#!/bin/bash\ncd "$TIDEGATE_OUTPUT_DIR" || exit 9\n{script}')
        rig.start(workload)
        until_released(rig.connector, workload.key)
        self.key = workload.key
        opener = kind_named(rig.kind).open_files
        assert opener is not None
        self.reader = opener(rig.options, rig.cluster_id)
        self.cluster_user = rig.cluster_user

    def names(self) -> list[str]:
        """The names of the listed files."""
        return [file.name for file in self.list().files]

    def list(self) -> job_folders.JobFolder:
        """The listing."""
        return self.reader.list_files(self.key, folder=None, cluster_user=self.cluster_user)

    def read(self, name: str, *, offset: int = 0, limit: int = 1_000) -> bytes:
        """The content of a file."""
        return self.reader.read_file(
            self.key, name, offset=offset, limit=limit, cluster_user=self.cluster_user
        ).data


@pytest.fixture(params=["local", "isolated", pytest.param("slurm", marks=pytest.mark.slurm)])
def rig(request: pytest.FixtureRequest) -> Rig:
    found: Rig = request.getfixturevalue(f"{request.param}_rig")
    return found


def test_files_are_listed_by_name_and_read_in_parts(rig: Rig) -> None:
    """Planted: files of folders below are missing."""
    left = Left(rig, OWN)
    assert [(file.name, file.size_bytes) for file in left.list().files] == [
        ("c", 4),
        ("out/a.txt", 3),
        ("out/deep/b.bin", 5),
    ]
    assert (left.read("out/deep/b.bin"), left.read("c", offset=1, limit=2)) == (b"three", b"ou")
    assert left.read("c", offset=9) == b""


def test_pages_continue_by_the_whole_name(local_rig: LocalRig) -> None:
    """ "run.log" comes before "run/0.log". Planted: the order of the walk."""
    left = Left(local_rig, "mkdir run; touch run/0.log run.log")
    assert left.names() == ["run.log", "run/0.log"]


@pytest.mark.parametrize(("set_by_the_job", "shown_s"), [(3e11, LATEST_S), (-5.0, 0), (7.9, 7)])
def test_times_fit_a_date(set_by_the_job: float, shown_s: int) -> None:
    """Some file systems keep any time. Planted: the time as it is."""
    found = os.stat_result((0,) * 7 + (0, set_by_the_job, 0))
    assert job_folders._modified_s(found) == shown_s
    assert datetime.fromtimestamp(shown_s, UTC).year <= 9999


def test_links_lead_nowhere(rig: Rig, tmp_path: Path) -> None:
    """Planted: the last part of a name, or a folder on the way, is followed as a link."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "secret").write_text("secret")
    left = Left(
        rig, f"{OWN} ln -s {tmp_path}/secret link; ln -s {tmp_path}/folder way; ln -s c own"
    )
    assert (left.names(), left.list().left_out) == (["c", "out/a.txt", "out/deep/b.bin"], 3)
    for name in ("link", "way/secret", "own"):
        with pytest.raises(FilesUnavailable):
            left.read(name)


@pytest.mark.parametrize(
    "name",
    ["../script", "../../x", "out/../../script", "/etc/passwd", "", ".", "out/", "a//b", "./c"],
)
def test_no_name_leaves_the_folder(local_rig: LocalRig, name: str) -> None:
    """Planted: names are joined to the folder's path."""
    left = Left(local_rig, OWN)
    with pytest.raises(FilesUnavailable, match="a name has folders and a file"):
        left.read(name)


def test_only_regular_files_are_read(rig: Rig) -> None:
    """Planted: a pipe is opened, and the reader waits for ever. Planted: a folder is read."""
    socket = "import socket as s; s.socket(1).bind('sock')"
    left = Left(rig, f'{OWN} mkfifo pipe; python3 -c "{socket}"')
    assert (left.names(), left.list().left_out) == (["c", "out/a.txt", "out/deep/b.bin"], 2)
    for name in ("pipe", "sock", "out", "none", "c/d", "x" * 300):
        with pytest.raises(FilesUnavailable):
            left.read(name)


@pytest.mark.skipif(os.getuid() != 0, reason="needs files of another user")
def test_files_of_other_users_are_not_read(local_rig: LocalRig) -> None:
    """Planted: the owner is not compared."""
    left = Left(local_rig, OWN)
    folder = Path(local_rig.options["root"]) / "attempts" / left.key / "work"
    os.chown(folder / "c", 4_321, 4_321)
    assert (left.names(), left.list().left_out) == (["out/a.txt", "out/deep/b.bin"], 1)
    with pytest.raises(FilesUnavailable, match="no file of the job's user"):
        left.read("c")


def test_names_that_cannot_be_shown_are_counted(local_rig: LocalRig) -> None:
    """Planted: such a name breaks the listing."""
    left = Left(local_rig, OWN + r"""touch $'\xff' $'a\nb' $'\u202egpj' ä""")
    assert (left.names(), left.list().left_out) == (
        ["c", "out/a.txt", "out/deep/b.bin", "ä"],
        3,
    )


def test_a_listing_is_bounded(local_rig: LocalRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: no bound of files, of entries, or of folders in folders."""
    left = Left(local_rig, OWN)
    for name, most, files in (("FILES_MAX", 2, 2), ("ENTRIES_MAX", 1, 0), ("DEPTH_MAX", 2, 2)):
        with monkeypatch.context() as patched:
            patched.setattr(job_folders, name, most)
            found = left.list()
        assert (len(found.files) <= files, found.is_cut) == (True, True)
    assert left.list().is_cut is False


def test_what_has_no_folder(local_rig: LocalRig) -> None:
    """Planted: the folder that the author named is read instead of the job's own."""
    left = Left(local_rig, OWN)
    assert left.list().files[0]._replace(modified_s=0) == JobFile("c", 4, 0)
    assert left.reader.list_files(left.key, folder="/etc") == left.list()
    none = Left(local_rig, "true")
    with pytest.raises(FilesUnavailable, match="the job ran in /etc, and its files are there"):
        none.reader.list_files(none.key, folder="/etc")
    with pytest.raises(FilesUnavailable, match="it does not exist"):
        left.reader.list_files("tg-unknown", folder=None)
    another = LocalFiles(Path(local_rig.options["root"]), "another")
    with pytest.raises(ClusterUnavailable):
        another.list_files(left.key, folder=None)


@pytest.mark.slurm
def test_a_job_of_slurm_without_files(slurm_rig: SlurmRig) -> None:
    """Against: another user's folder of the same name; a folder that is a link is followed."""
    user = slurm_rig.cluster_user
    assert user is not None
    home = slurm_rig.bed.working_directory.replace("{user}", user)
    none = Left(slurm_rig, "true")
    with pytest.raises(FilesUnavailable, match=f"the job ran in {home}, and its files are there"):
        none.list()
    with pytest.raises(FilesUnavailable, match="UNIX user is unknown"):
        none.reader.list_files(none.key, folder=None, cluster_user="tg-nobody")
    other = slurm_rig.bed.users[1]
    with pytest.raises(FilesUnavailable, match="it does not exist"):
        none.reader.list_files(none.key, folder=None, cluster_user=other)
    linked = Left(slurm_rig, 'cd .. && rmdir "$TIDEGATE_OUTPUT_DIR" && ln -s /etc "$OLDPWD"')
    with pytest.raises(FilesUnavailable, match="it does not exist, or is a link"):
        linked.list()
    with pytest.raises(FilesUnavailable, match="it does not exist, or is a link"):
        linked.read("passwd")
