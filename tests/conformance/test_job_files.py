"""The folder and the output files that a job's author named, on clusters whose nodes have files."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.connector_builders import a_workload, eventually, until_released
from conformance.rigs import Rig
from connectors.errors import LogUnavailable
from connectors.protocol import ENDING_S, BatchLaunch, JobFiles, Outcome
from connectors.registry import kind_named

VALUES = {"A": "77", "a": "4294967294", "j": "77", "x": "pre train"}


@pytest.fixture(params=["local", "isolated", pytest.param("slurm", marks=pytest.mark.slurm)])
def files_rig(request: pytest.FixtureRequest) -> Rig:
    rig: Rig = request.getfixturevalue(f"{request.param}_rig")
    assert kind_named(rig.kind).writes_own_files
    return rig


def run(
    rig: Rig,
    script: str,
    *,
    ranks: int = 1,
    is_batch: bool = True,
    notice_signal: str = "TERM",
    **files: object,
) -> str:
    batch = BatchLaunch(77) if is_batch else None
    given = JobFiles(values=VALUES, **files)  # type: ignore[arg-type]
    workload = a_workload(
        f"#!/bin/bash\n{script}",
        ranks=ranks,
        mgpu=1000,
        notice_signal=notice_signal,
        batch=batch,
        files=given,
    )
    rig.start(workload)
    return workload.key


def until_ended_by_itself(rig: Rig, key: str) -> None:
    """Wait until nothing of `key` is left, for less time than what is left over has before KILL."""

    def look() -> bool:
        seen = rig.connector.observe().seen(key, None)
        return seen is not None and seen.is_released

    eventually(look, deadline_s=ENDING_S * 2 / 3)


def log_now(rig: Rig, key: str) -> str:
    try:
        return rig.log(key)
    except LogUnavailable:
        return ""


def folder_of(rig: Rig) -> Path:
    folder = rig.scratch / "own"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder


def test_output_and_errors_go_to_the_authors_file_in_order_and_to_the_log(files_rig: Rig) -> None:
    """Planted: errors in a file of their own."""
    folder = folder_of(files_rig)
    script = "echo one; echo two >&2; echo three"
    key = run(files_rig, script, output=f"{folder}/logs/%x-%4t-%s-%a.out")
    until_released(files_rig.connector, key)
    found = folder / "logs" / "pre train-0000-batch-4294967294.out"
    assert found.read_text() == "one\ntwo\nthree\n"
    assert files_rig.log(key) == "one\ntwo\nthree\n"
    assert files_rig.log(key, stream="stderr") == ""


def test_errors_may_have_a_file_of_their_own(files_rig: Rig) -> None:
    folder = folder_of(files_rig)
    key = run(files_rig, "echo out; echo err >&2", error=f"{folder}/e\\%j.err")
    until_released(files_rig.connector, key)
    assert [path.name for path in folder.iterdir()] == ["e%j.err"]
    assert (folder / "e%j.err").read_text() == "err\n"
    assert files_rig.log(key) == "out\n"
    assert files_rig.log(key, stream="stderr") == "err\n"


@pytest.mark.parametrize(("appends", "text"), [(True, "old\nnew\n"), (False, "new\n")])
def test_a_file_is_emptied_or_added_to(files_rig: Rig, appends: bool, text: str) -> None:
    """Planted: a log that begins with what an earlier job wrote into the file."""
    folder = folder_of(files_rig)
    (folder / "all.out").write_text("old\n")
    (folder / "all.out").chmod(0o666)
    key = run(files_rig, "echo new", folder=str(folder), output="all.out", appends=appends)
    until_released(files_rig.connector, key)
    assert (folder / "all.out").read_text() == text
    assert files_rig.log(key) == "new\n"


def test_the_log_is_read_while_the_job_runs(files_rig: Rig) -> None:
    """Planted: a copy at the end only."""
    folder = folder_of(files_rig)
    script = f"echo begun; until [ -e {folder}/go ]; do sleep 0.05; done; echo done"
    key = run(files_rig, script, output=f"{folder}/run.out")
    eventually(lambda: (folder / "run.out").exists() and log_now(files_rig, key) == "begun\n")
    (folder / "go").touch()
    until_released(files_rig.connector, key)
    assert files_rig.log(key) == "begun\ndone\n" == (folder / "run.out").read_text()


def test_what_a_child_writes_after_the_script_is_in_the_log(files_rig: Rig) -> None:
    """Planted: a copy that ends with the script's shell."""
    folder = folder_of(files_rig)
    script = (
        "exec 2> /dev/null\n"
        f"( trap '' TERM; touch {folder}/ready\n"
        "while kill -0 $$; do sleep 0.05; done; sleep 0.5; echo late ) &\nexec sleep 100\n"
    )
    key = run(files_rig, script, output=f"{folder}/late.out")
    eventually((folder / "ready").exists)
    files_rig.connector.notify(key)
    until_released(files_rig.connector, key)
    assert files_rig.log(key) == "late\n"


def test_output_and_errors_may_name_one_file_in_two_ways(files_rig: Rig) -> None:
    """Planted: followers that wait for each other, as readers of the file."""
    folder = folder_of(files_rig)
    key = run(
        files_rig,
        "echo out; echo err >&2",
        output=f"{folder}/a.out",
        error=f"{folder}/./a.out",
        appends=True,
    )
    until_ended_by_itself(files_rig, key)
    assert (folder / "a.out").read_text() == "out\nerr\n"


def test_a_job_ends_while_another_writes_to_its_file(files_rig: Rig) -> None:
    """Planted: a follower that waits for the writers of other jobs."""
    folder = folder_of(files_rig)
    script = f"touch {folder}/ready; until [ -e {folder}/go ]; do sleep 0.05; done; echo last"
    last = run(files_rig, script, output=f"{folder}/all.out", appends=True)
    eventually((folder / "ready").exists)
    (folder / "all.out").chmod(0o666)
    first = run(files_rig, "echo first", output=f"{folder}/all.out", appends=True)
    until_ended_by_itself(files_rig, first)
    assert files_rig.log(first) == "first\n"
    (folder / "go").touch()
    until_released(files_rig.connector, last)
    assert (folder / "all.out").read_text() == "first\nlast\n"


@pytest.mark.parametrize("rig_name", ["local_rig", "isolated_rig"])
def test_a_program_that_waits_for_all_its_children_ends(
    rig_name: str, request: pytest.FixtureRequest
) -> None:
    """Planted: a follower that is a child of the rank."""
    rig: Rig = request.getfixturevalue(rig_name)
    program = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    output = f"{folder_of(rig)}/w.out"
    key = run(rig, f'exec /usr/bin/python3 -c "{program}"', output=output)
    until_released(rig.connector, key)
    assert rig.log(key) == "none\n"


def test_each_node_has_a_file_where_its_name_says_so(files_rig: Rig) -> None:
    """Planted: the same file for all ranks."""
    folder = folder_of(files_rig)
    key = run(
        files_rig,
        "echo $RANK; echo err $RANK >&2",
        ranks=2,
        is_batch=False,
        output=f"{folder}/%t-%n.out",
        error=f"{folder}/%x.err",
    )
    until_released(files_rig.connector, key)
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {"0-0.out": "0\n", "1-1.out": "1\n", "pre train.err": "err 0\n"}
    assert [files_rig.log(key, rank=rank) for rank in (0, 1)] == ["0\n", "1\n"]


def test_the_script_starts_in_the_folder(files_rig: Rig) -> None:
    folder = folder_of(files_rig)
    key = run(files_rig, "pwd", folder=str(folder), output="here.out")
    until_released(files_rig.connector, key)
    assert (folder / "here.out").read_text() == f"{folder}\n"
    below = run(files_rig, 'pwd | sed "s|.*/||"; touch x', folder="a/b c")
    until_released(files_rig.connector, below)
    assert files_rig.log(below) == "b c\n"


def test_a_folder_that_is_not_there_fails_the_job_with_a_sentence(files_rig: Rig) -> None:
    """Planted: a failure of the node, for which the job would be started again elsewhere."""
    key = run(files_rig, "echo never", folder="/nowhere/at all")
    seen = until_released(files_rig.connector, key)
    assert (seen.outcome, dict(seen.exit_codes)) == (Outcome.FAILED, {0: 1})
    assert files_rig.log(key) == ""
    assert "tidegate: cannot use /nowhere/at all" in files_rig.log(key, stream="stderr")


@pytest.mark.parametrize("path", ["/proc/no/x.out", "/"])
def test_a_file_that_cannot_be_used_is_told_and_the_log_has_its_text(
    files_rig: Rig, path: str
) -> None:
    """Planted: errors that go to the log of the output."""
    key = run(files_rig, "echo out; echo err >&2", output=path)
    seen = until_released(files_rig.connector, key)
    assert (seen.outcome, dict(seen.exit_codes)) == (Outcome.SUCCEEDED, {0: 0})
    assert files_rig.log(key) == "out\n"
    told, error = files_rig.log(key, stream="stderr").splitlines()
    assert error == "err"
    assert told.startswith("tidegate: cannot use /")
    assert told.endswith("; the output is in the log alone")


def test_a_notice_does_not_end_the_copying(files_rig: Rig) -> None:
    """Planted: a follower that hears the notice."""
    folder = folder_of(files_rig)
    script = (
        f"exec 2> /dev/null\ntrap 'echo heard; sleep 0.3; echo saved; exit 0' USR1\n"
        f"touch {folder}/ready\nwhile :; do sleep 0.05; done"
    )
    key = run(files_rig, script, notice_signal="USR1", output=f"{folder}/n.out")
    eventually((folder / "ready").exists)
    files_rig.connector.notify(key)
    until_released(files_rig.connector, key)
    assert files_rig.log(key) == "heard\nsaved\n" == (folder / "n.out").read_text()
