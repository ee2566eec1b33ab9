"""The shell of a job of one rank, which needs nothing of Slurm but its variables and `scontrol`."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from pathlib import Path

from builders.connector_builders import a_workload
from connectors.protocol import BatchLaunch, JobFiles, Workload
from connectors.slurm.batch import batch_script
from connectors.slurm.logs import read_log


def logs_of(workload: Workload, folder: Path, *, scontrol: str = "exit 1") -> tuple[str, str]:
    """Run `workload` here, and return its output and its errors."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "scontrol").write_text(f"#!/bin/sh\n{scontrol}\n")
    (programs / "scontrol").chmod(0o755)
    script = batch_script(
        workload,
        tag="a-tag",
        directory=str(folder / "logs"),
        gpus_per_node=1,
        path=f"{programs}:{os.defpath}",
    )
    subprocess.run(
        ["/bin/bash", "-c", script],
        env={
            **{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURMD_NODENAME": "node-001"},
            **{"HOME": str(folder), "TMPDIR": str(folder)},
        },
        timeout=60,
        check=False,
    )
    out, err = (folder / "logs" / f"{workload.key}.0.{name}" for name in ("stdout", "stderr"))
    return out.read_text(), err.read_text()


def test_each_line_has_the_time_of_the_second_in_which_it_was_written(tmp_path: Path) -> None:
    """Planted: one look, at the end."""
    script = "#!/bin/bash\necho one\nsleep 2.5\nprintf two\nsleep 2.5\n"
    workload = a_workload(script, batch=BatchLaunch(77))
    begin_s = int(time.time())
    assert logs_of(workload, tmp_path) == ("one\ntwo", "")
    end_s = time.time()
    assert not (tmp_path / "logs" / f"{workload.key}.0.stderr.times").exists()
    chunk = read_log(
        str(tmp_path / "logs"),
        key=workload.key,
        user=pwd.getpwuid(os.geteuid()).pw_name,
        rank=0,
        stream="stdout",
        offset=0,
        limit=100,
        cap_bytes=100,
    )
    assert (chunk.data, chunk.is_final) == (b"one\ntwo", True)
    assert [mark.until for mark in chunk.times] == [4, 7]
    first_s, second_s = ((mark.at_ms or 0) // 1_000 for mark in chunk.times)
    assert begin_s <= first_s <= second_s - 2
    assert second_s <= end_s - 1


def test_a_job_finds_a_folder_for_its_files(tmp_path: Path) -> None:
    workload = a_workload('#!/bin/bash\nprintf x > "$TIDEGATE_OUTPUT_DIR/a"\n')
    assert logs_of(workload, tmp_path) == ("", "")
    assert (tmp_path / "logs" / f"{workload.key}-files" / "a").read_text() == "x"


def test_a_scontrol_that_does_not_answer_delays_no_notice(tmp_path: Path) -> None:
    """Planted: a question that is asked when the notice is due, and waits for 15 s."""
    script = (
        "#!/bin/bash\ntrap 'echo heard; exit 0' USR1\n"
        "for n in {1..60}; do sleep 0.1; done\necho never\n"
    )
    workload = a_workload(
        script, time_limit_s=8, signal_ahead_s=4, notice_signal="USR1", batch=BatchLaunch(77)
    )
    # The signal may also end a `sleep`, of which bash says so among the errors.
    assert logs_of(workload, tmp_path, scontrol="exec sleep 5")[0] == "heard\n"


def test_a_sentence_to_the_author_hides_nothing_of_the_errors(tmp_path: Path) -> None:
    """Planted: what the shell wrote into the log, counted among what was copied from the file."""
    script = (
        "#!/bin/bash\nuntil pkill -STOP -x -P $PPID tail; do sleep 0.05; done 2> /dev/null\n"
        "for n in {1..9}; do echo line $n >&2; done\n"
    )
    files = JobFiles(output="/proc/no/x.out", error=f"{tmp_path}/x.err")
    out, err = logs_of(a_workload(script, batch=BatchLaunch(77), files=files), tmp_path)
    told, *lines = err.splitlines()
    assert out == ""
    assert told.startswith("tidegate: cannot use /proc/no/x.out on node node-001")
    assert lines == [f"line {n}" for n in range(1, 10)]
