"""The bed refuses what cannot work, in a sentence, before it touches anything."""

import os
import subprocess
from pathlib import Path

import pytest

import slurm_bed
from slurm_bed import FOLDER_VARIABLE, SCRIPTS, NoSlurm, start_bed, the_folder


def _refusal(script: str, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [str(SCRIPTS / script), *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BASE", "80", "BASE is '80' and must be a whole number from 1024 to 64000."),
        ("H100_NODES", "0", "H100_NODES is '0' and must be a whole number from 1 to 200."),
        ("A100_NODES", "many", "A100_NODES is 'many' and must be a whole number from 1 to 90."),
        ("SLICED_NODES", "10", "SLICED_NODES is '10' and must be a whole number from 0 to 9."),
        ("MIN_JOB_AGE", "-5", "MIN_JOB_AGE is '-5' and must be a whole number from 2 to 86400."),
        ("CLUSTER", "My Bed", "CLUSTER is 'My Bed' and must be small letters and digits"),
        ("SERVICE_LEVEL", "God", "SERVICE_LEVEL is 'God' and must be None, Operator or Admin"),
        ("NAMES", "odd", "NAMES is 'odd' and must be private or shared."),
    ],
)
def test_a_setting_that_makes_no_sense(name: str, value: str, said: str, tmp_path: Path) -> None:
    # The folder's name must be short, and pytest's may not be.
    folder = f"/tmp/tidegate-no-bed-{os.getpid()}"
    told = _refusal("start.sh", **{FOLDER_VARIABLE: folder, name: value})
    assert told.startswith(f"Slurm bed: {said}")
    assert not Path(folder).exists()


@pytest.mark.parametrize("folder", ["relative/place", "/tmp/a b", "/tmp/x;y", "/" + "x" * 80])
def test_a_folder_that_would_break_sockets_or_files(folder: str) -> None:
    told = _refusal("start.sh", **{FOLDER_VARIABLE: folder})
    assert told.startswith(
        f"Slurm bed: the folder '{folder}' must be an absolute path of at most 70"
    )


def test_without_root_there_is_no_bed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(slurm_bed.os, "geteuid", lambda: 1000)
    with pytest.raises(NoSlurm, match="Slurm's daemons need root"):
        start_bed(tmp_path)


def test_the_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, "/srv/bed")
    assert the_folder() == Path("/srv/bed")
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("TMPDIR", "/srv/tmp")
    assert the_folder() == Path("/srv/tmp/tidegate-slurm-bed")
