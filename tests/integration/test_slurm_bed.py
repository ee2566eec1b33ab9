"""The bed itself: jobs really run on their nodes, and the switches of its daemons work.

What a connector makes of it is tested elsewhere; these tests speak Slurm's own commands.
"""

import json
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from slurm_bed import SlurmBed, start_bed

pytestmark = [pytest.mark.slurm]

ACCOUNT = "bed-check"
USER = "tg-sam"
RANKS = "srun --ntasks-per-node=1 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME $(id -un)'"


def _until(is_so: Callable[[], bool], what: str, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.1)


def _make_sure(bed: SlurmBed, *entity: str) -> None:
    """Add an account or user that another worker may have added."""
    try:
        with bed.account_writing():
            bed.run(["sacctmgr", "-i", "add", *entity])
    except AssertionError as refusal:
        if "Nothing new added" not in str(refusal):
            raise


@pytest.fixture
def bed(slurm_bed: SlurmBed, _slurm_turn: None) -> SlurmBed:
    """The bed, with an account for which USER may run jobs. Made in the test's turn: a moment
    before, somebody else may have a daemon down."""
    _make_sure(slurm_bed, "account", ACCOUNT)
    _make_sure(slurm_bed, "user", USER, f"account={ACCOUNT}")
    return slurm_bed


def _submit(bed: SlurmBed, script: str, *options: str) -> tuple[str, Path]:
    """Job id and output file of a batch script that USER hands in."""
    folder = Path(bed.output_root.format(user=USER))
    words = ["sbatch", "--parsable", "--no-requeue", "--mem=1000", "-A", ACCOUNT]
    command = shlex.join([*words, "-o", f"{folder}/bed.%j.out", *options, "--wrap", script])
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "sh", "-c"]
    home = bed.working_directory.format(user=USER)
    job_id = bed.run([*as_user, f"cd {home} && {command}"]).strip()
    return job_id, folder / f"bed.{job_id}.out"


def _state(bed: SlurmBed, job_id: str) -> str:
    return bed.run(["squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T"]).strip()


def _ended(bed: SlurmBed, job_id: str) -> str:
    live = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
    _until(lambda: _state(bed, job_id) not in live, f"job {job_id} ends")
    return _state(bed, job_id)


def _ping(bed: SlurmBed) -> httpx.Response:
    return httpx.get(
        f"{bed.url}/slurm/v0.0.38/ping",
        headers={
            "X-SLURM-USER-NAME": bed.service_user,
            "X-SLURM-USER-TOKEN": bed.token(bed.service_user),
        },
        timeout=5,
    )


def test_two_jobs_over_several_nodes_run_their_ranks_at_the_same_time(bed: SlurmBed) -> None:
    meet = f"{RANKS}; touch here.$SLURM_JOB_ID"
    wait = 'for _ in $(seq 300); do [ "$(ls here.* | wc -l)" -ge 2 ] && exit 0; sleep 0.1; done'
    for left in Path(bed.working_directory.format(user=USER)).glob("here.*"):
        left.unlink()
    options = ["-N", "2", "--gres=gpu:h100:8", "-p", "h100"]
    jobs = [_submit(bed, f"{meet}; {wait}; exit 1", *options) for _ in range(2)]
    for job_id, output in jobs:
        assert _ended(bed, job_id) == "COMPLETED"
        ranks = [line.split() for line in sorted(output.read_text().splitlines())]
        assert [rank[0] for rank in ranks] == ["0", "1"]
        assert len({rank[1] for rank in ranks}) == 2
        assert {rank[2] for rank in ranks} == {USER}


def test_the_service_may_read_what_a_job_wrote_and_others_may_not(bed: SlurmBed) -> None:
    job_id, output = _submit(bed, "echo secret; exit 3", "-p", "a100", "--gres=gpu:a100:1")
    assert _ended(bed, job_id) == "FAILED"
    assert output.read_text() == "secret\n"
    assert output.owner() == USER
    assert output.group() == bed.service_user
    assert not stat.S_IMODE(output.parent.stat().st_mode) & stat.S_IRWXO


def test_a_second_start_changes_no_process(bed: SlurmBed) -> None:
    before = json.loads((bed.folder / "bed.json").read_text())["pids"]
    assert start_bed(bed.folder) == bed
    assert json.loads((bed.folder / "bed.json").read_text())["pids"] == before
    nodes = sum(partition.node_count for partition in bed.partitions.values())
    nodes += bed.cores.node_count
    assert len(before) == nodes + len(["munge", "sql", "dbd", "ctld", "rest"])


@pytest.mark.disturbs_slurm
def test_rest_stops_freezes_is_killed_and_comes_back(bed: SlurmBed) -> None:
    assert _ping(bed).json()["errors"] == []
    with bed.without("rest"), pytest.raises(httpx.ConnectError):
        _ping(bed)
    assert _ping(bed).status_code == 200
    with bed.frozen("rest"), pytest.raises(httpx.ReadTimeout):
        _ping(bed)
    assert _ping(bed).status_code == 200
    bed.kill9("rest")
    with pytest.raises(httpx.ConnectError):
        _ping(bed)
    bed.start("rest")
    assert _ping(bed).status_code == 200


@pytest.mark.disturbs_slurm
def test_a_killed_controller_knows_the_jobs_that_it_had_written_down(bed: SlurmBed) -> None:
    """Only those: Slurm writes its state every few seconds, and forgets what came after."""
    job_id, output = _submit(bed, "echo began; sleep 10; echo went on", "-p", "a100")
    _until(lambda: output.exists() and "began" in output.read_text(), "the job starts")
    began = output.stat().st_mtime
    written = bed.folder / "state" / "job_state"
    _until(lambda: written.exists() and written.stat().st_mtime > began, "it is written down")
    bed.kill9("ctld")
    bed.start("ctld")
    assert _ended(bed, job_id) == "COMPLETED"
    assert output.read_text() == "began\nwent on\n"


@pytest.mark.disturbs_slurm
def test_a_crashed_node_takes_its_ranks_along(bed: SlurmBed) -> None:
    if not bed.has_private_names:
        pytest.skip("this machine gives nodes no names of their own")
    job_id, output = _submit(bed, f"{RANKS}; srun sleep 300", "-p", "a100", "-w", "a02")
    _until(lambda: output.exists() and "a02" in output.read_text(), "the job starts")
    bed.crash("a02")
    try:
        folders = [path for path in Path("/proc").glob("[0-9]*") if _is_of(path, job_id)]
        assert folders == []
    finally:
        bed.start("a02")
        bed.run(["scancel", job_id])


@pytest.mark.disturbs_slurm
def test_a_drained_node_is_named_with_its_reason_and_put_to_work_again(bed: SlurmBed) -> None:
    bed.empty()
    bed.run(["scontrol", "update", "node=a03", "state=DRAIN", "reason=new fans"])
    assert bed.nodes_without_work() == ["a03 (drained, new fans)"]
    bed.until_nodes_take_work()
    assert bed.nodes_without_work() == []


def _is_of(process: Path, job_id: str) -> bool:
    try:
        environment = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return (
        f"SLURM_JOB_ID={job_id}".encode() in environment and b"SLURMD_NODENAME=a02" in environment
    )
