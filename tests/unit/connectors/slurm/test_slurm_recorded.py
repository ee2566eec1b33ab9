"""What real answers of every version mean."""

from typing import Any

import pytest

from builders.slurm_rest_builders import RECORDINGS, STRUCTURED, recorded, recording
from connectors.errors import ClusterUnavailable
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Association, HistoryJob, SlurmJob, SlurmNode, SlurmPartition

#: What the clock of each recording said when the first job was submitted, started and ended.
CLOCKS = {
    "v0.0.38": (1795242291, 1795242292, 1795242294),
    "v0.0.40": (1795306173, 1795306173, 1795306176),
    "v0.0.41": (1795242187, 1795242187, 1795242189),
    "v0.0.42": (1795241994, 1795241996, 1795241998),
    "v0.0.43": (1795242025, 1795242026, 1795242028),
    "v0.0.44": (1795242213, 1795242214, 1795242216),
    "v0.0.45": (1795242081, 1795242082, 1795242084),
}
FIRST_JOB = {
    "v0.0.38": 1,
    "v0.0.40": 1,
    "v0.0.41": 1,
    "v0.0.42": 1,
    "v0.0.43": 208,
    "v0.0.44": 208,
    "v0.0.45": 622,
}
NODES = tuple(f"g{number:02}" for number in range(1, 17))


def a_first_job(version: str, **changes: Any) -> SlurmJob:
    """The first job of each recording, as it was submitted."""
    submitted, _, _ = CLOCKS[version]
    values: dict[str, Any] = {
        "job_id": FIRST_JOB[version],
        "name": f"{run_of(version)}-hold",
        "user": "ana",
        "account": "teama",
        "partition": "gpu",
        "qos": "normal",
        "comment": f"tidegate:{run_of(version)}-hold",
        "state": "PENDING",
        "state_flags": frozenset(),
        "reason": "JobHeldUser",
        "is_held": True,
        "submit_time": submitted,
        "start_time": None,
        "end_time": None,
        "exit_code": None,
        "exit_signal": None,
        "node_count": 1,
        "nodes": (),
        "gpus_requested": {"": 2},
        "gpus_allocated": {},
        "gpus_by_node": {},
        "time_limit_s": 600,
    }
    return SlurmJob(**{**values, **changes})


def run_of(version: str) -> str:
    name: str = recorded(version, "POST", "/job/submit")["request"]["body"]["job"]["name"]
    return name.removesuffix("-hold")


def a_job(version: str, at: int) -> SlurmJob:
    answer = recorded(version, "GET", f"/job/{FIRST_JOB[version]}", at=at)["response"]
    assert len(answer["jobs"]) == 1
    return DIALECTS[version].job(answer["jobs"][0])


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_job_from_its_hold_to_its_end(version: str) -> None:
    _, started, ended = CLOCKS[version]
    there = {
        **{"nodes": ("g01",), "gpus_allocated": {"h100": 2}},
        **{"gpus_by_node": {"g01": 2}, "types_by_node": {"g01": {"h100": 2}}},
    }
    assert a_job(version, 0) == a_first_job(version)
    assert a_job(version, 1) == a_first_job(version, reason="JobHeldAdmin")
    assert a_job(version, 3) == a_first_job(
        version,
        state="RUNNING",
        reason="None",
        is_held=False,
        start_time=started,
        end_time=started + 600,
        **there,
    )
    assert a_job(version, 4) == a_first_job(
        version,
        state="FAILED",
        reason="NonZeroExitCode",
        is_held=False,
        start_time=started,
        end_time=ended,
        exit_code=3,
        **there,
    )


@pytest.mark.parametrize("version", RECORDINGS)
def test_the_list_holds_the_same_jobs(version: str) -> None:
    """With flags=ALL on the newer versions, which leave out the cores."""
    parameters = recorded(version, "GET", "/jobs", at=0)["request"]["params"]
    assert (parameters or {}) == DIALECTS[version].job_list_parameters
    jobs = [
        DIALECTS[version].job(record)
        for record in recorded(version, "GET", "/jobs", at=0)["response"]["jobs"]
    ]
    ended = next(job for job in jobs if job.job_id == 1)
    assert (ended.state, ended.exit_code, ended.nodes) == ("FAILED", 3, ("g01",))
    assert ended.gpus_by_node == {"g01": 2}


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_cancelled_job_completes_first(version: str) -> None:
    name = f"{run_of(version)}-cancel"
    seen = [
        DIALECTS[version].job(job)
        for at in range(5, 20)
        for job in jobs_of(version, at)
        if job["name"] == name
    ]
    assert [(job.state, job.state_flags, job.exit_code, job.exit_signal) for job in seen] == [
        ("CANCELLED", frozenset({"COMPLETING"}), None, None),
        ("CANCELLED", frozenset(), None, 15),
    ]


def jobs_of(version: str, at: int) -> list[dict[str, Any]]:
    try:
        exchange = recorded(version, "GET", "", at=at)
    except IndexError:
        return []
    if "/slurm/" not in exchange["request"]["path"]:
        return []
    jobs: list[dict[str, Any]] = exchange["response"].get("jobs", [])
    return jobs


def test_v38_shows_a_flag_in_place_of_the_state() -> None:
    seen = [
        DIALECTS["v0.0.38"].job(record)
        for at in (0, 1)
        for record in recorded("v0.0.38", "GET", "/job/4", at=at)["response"]["jobs"]
    ]
    assert [(job.state, job.state_flags, job.exit_signal) for job in seen] == [
        ("RUNNING", frozenset({"COMPLETING"}), None),
        ("CANCELLED", frozenset(), 15),
    ]


@pytest.mark.parametrize("version", RECORDINGS)
def test_nodes(version: str) -> None:
    records = recorded(version, "GET", "/nodes")["response"]["nodes"]
    assert DIALECTS[version].node(records[0]) == SlurmNode(
        name="g01",
        state="IDLE",
        state_flags=frozenset(),
        reason="",
        partitions=("gpu", "debug"),
        features=("h100", "ib"),
        gpus={"h100": 8},
        cpus=64,
        memory_mb=1_000_000,
    )
    assert DIALECTS[version].node(records[0]).takes_work


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_drained_node_takes_no_work(version: str) -> None:
    record = recorded(version, "GET", "/node/g16")["response"]["nodes"][0]
    node = DIALECTS[version].node(record)
    assert (node.state, node.state_flags, node.reason) == ("IDLE", frozenset({"DRAIN"}), "smoke")
    assert not node.takes_work


def test_a_drained_node_of_v38() -> None:
    record = recorded("v0.0.38", "GET", "/nodes")["response"]["nodes"][0]
    node = DIALECTS["v0.0.38"].node(
        {
            **record,
            "state": "mixed",
            "state_flags": ["DRAIN"],
        }
    )
    assert (node.state, node.state_flags) == ("MIXED", frozenset({"DRAIN"}))
    assert not node.takes_work


@pytest.mark.parametrize("version", RECORDINGS)
def test_partitions(version: str) -> None:
    records = recorded(version, "GET", "/partitions")["response"]["partitions"]
    assert [DIALECTS[version].partition(record) for record in records] == [
        SlurmPartition("gpu", "UP", NODES, 604_800, {"h100": 128}),
        SlurmPartition("debug", "UP", ("g01",), 1_800, {"h100": 8}),
    ]


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_requeued_job_has_two_runs_in_the_history(version: str) -> None:
    name = f"{run_of(version)}-requeue"
    first, second = next(
        [DIALECTS[version].history(job) for job in exchange["response"]["jobs"]]
        for exchange in history_of(version)
        if exchange["response"]["jobs"] and exchange["response"]["jobs"][0]["name"] == name
    )
    assert (first.job_id, first.name, first.user, first.account) == (
        second.job_id,
        name,
        "ana",
        "teama",
    )
    assert (first.state, first.state_flags) == ("PENDING", frozenset({"REQUEUED"}))
    assert (second.state, second.end_time, second.exit_code) == ("RUNNING", None, None)
    assert first.exit_code == (None if version == "v0.0.38" else 85)
    assert first.end_time is not None
    assert first.start_time is not None
    assert first.end_time > first.start_time
    assert first.submit_time < second.submit_time


def history_of(version: str) -> list[dict[str, Any]]:
    found = []
    for at in range(40):
        try:
            exchange = recorded(version, "GET", "", at=at)
        except IndexError:
            break
        path = exchange["request"]["path"]
        if path.startswith("/slurmdb/") and "/job/" in path:
            found.append(exchange)
    return found


def test_the_history_of_one_run_of_v38() -> None:
    record = recorded("22.05-v0.0.38-accounting", "GET", "db/v0.0.38/job/28", at=1)["response"][
        "jobs"
    ][0]
    assert DIALECTS["v0.0.38"].history(record) == HistoryJob(
        job_id=28,
        name="tg-11111111-1111-4111-8111-111111111111-0123456789ab",
        user="eva",
        account="science",
        cluster="tidegate",
        partition="h100",
        qos="normal",
        comment="tidegate",
        state="CANCELLED",
        state_flags=frozenset(),
        reason="None",
        submit_time=1795268433,
        eligible_time=1795268434,
        start_time=1795268434,
        end_time=1795268442,
        nodes=("h001", "h002", "h003"),
        gpus={"h100": 6},
        exit_code=None,
        exit_signal=None,
        time_limit_s=180,
    )


@pytest.mark.parametrize("version", STRUCTURED)
def test_the_history_of_one_run_of_the_newer_versions(version: str) -> None:
    """The recordings lack the ends of the resources, so they are put back here."""
    submitted, started, ended = CLOCKS[version]
    answer = next(
        exchange["response"]
        for at in range(40)
        if (exchange := recorded(version, "GET", "/jobs", at=at))["request"]["path"].startswith(
            "/slurmdb/"
        )
    )
    record = answer["jobs"][0]
    record["tres"]["allocated"] = [
        {"type": "cpu", "name": "", "id": 1, "count": 1},
        {"type": "energy", "name": "", "id": 3, "count": -2},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
        {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 2},
    ]
    run = DIALECTS[version].history(record)
    assert run == HistoryJob(
        job_id=FIRST_JOB[version],
        name=f"{run_of(version)}-hold",
        user="ana",
        account="teama",
        cluster="tide",
        partition="gpu",
        qos="normal",
        comment=f"tidegate:{run_of(version)}-hold",
        state="FAILED",
        state_flags=frozenset(),
        reason="None",
        submit_time=submitted,
        eligible_time=run.eligible_time,
        start_time=started,
        end_time=ended,
        nodes=("g01",),
        gpus={"h100": 2},
        exit_code=3,
        exit_signal=None,
        time_limit_s=600,
    )
    assert run.eligible_time is not None
    assert submitted <= run.eligible_time <= started


@pytest.mark.parametrize("version", RECORDINGS)
def test_an_accounts_association(version: str) -> None:
    exchange = recorded(version, "GET", "/associations")
    account = exchange["request"]["params"]["account"]
    assert [
        DIALECTS[version].read_association(record)
        for record in exchange["response"]["associations"]
    ] == [
        Association(
            account,
            "tide",
            parent_account="org",
            group_tres={"gres/gpu": 16},
            qos=("normal",),
            shares=1,
        )
    ]


@pytest.mark.parametrize("version", RECORDINGS)
def test_ping(version: str) -> None:
    assert DIALECTS[version].is_responding(recorded(version, "GET", "/ping")["response"]["pings"])


@pytest.mark.parametrize(
    ("version", "ping"),
    [
        ("v0.0.38", {"ping": "DOWN"}),
        ("v0.0.44", {"pinged": "DOWN", "responding": False}),
        ("v0.0.45", {"responding": False}),
    ],
)
def test_a_ping_of_a_dead_controller(version: str, ping: dict[str, Any]) -> None:
    assert not DIALECTS[version].is_responding([ping])


def a_running_job(version: str, **changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = recorded(version, "GET", f"/job/{FIRST_JOB[version]}", at=3)[
        "response"
    ]["jobs"][0]
    return {**record, **changes}


WHOLE = "cpu=4,gres/gpu=6,gres/gpu:h100=6"


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
@pytest.mark.parametrize(
    ("changes", "by_node"),
    [
        (
            {"gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:6,7)"]},
            {"g01": 4, "g02": 2},
        ),
        ({"gres_detail": [], "tres_per_node": "gres/gpu:h100:3"}, {"g01": 3, "g02": 3}),
        ({"gres_detail": [], "tres_per_node": "gres:gpu:3"}, {"g01": 3, "g02": 3}),
        ({"gres_detail": [], "tres_per_node": "", "tres_per_job": "gres/gpu:6"}, {}),
        ({"gres_detail": ["gpu:h100:4(IDX:0-3)", ""], "tres_per_node": ""}, {}),
        ({"gres_detail": [], "tres_per_node": "", "nodes": "g07"}, {"g07": 6}),
    ],
)
def test_who_holds_the_gpus(version: str, changes: dict[str, Any], by_node: dict[str, int]) -> None:
    record = a_running_job(
        version, **{"nodes": "g[01-02]", "tres_alloc_str": WHOLE, "tres_per_node": "", **changes}
    )
    assert DIALECTS[version].job(record).gpus_by_node == by_node


@pytest.mark.parametrize(
    ("shown", "state", "flags"),
    [
        ("SPECIAL_EXIT", "PENDING", {"SPECIAL_EXIT"}),
        ("REQUEUE_HOLD", "PENDING", {"REQUEUE_HOLD"}),
        ("SIGNALING", "RUNNING", {"SIGNALING"}),
        ("CONFIGURING", "RUNNING", {"CONFIGURING"}),
        ("REVOKED", "REVOKED", set()),
    ],
)
def test_words_of_v38(shown: str, state: str, flags: set[str]) -> None:
    """A word that nobody knows stays what the cluster said."""
    job = DIALECTS["v0.0.38"].job(a_running_job("v0.0.38", job_state=shown))
    assert (job.state, job.state_flags) == (state, flags)


def test_unlimited_and_unset_numbers_are_none() -> None:
    infinite = {"set": False, "infinite": True, "number": 0}
    assert (
        DIALECTS["v0.0.44"].job(a_running_job("v0.0.44", time_limit=infinite)).time_limit_s is None
    )
    for unset in (None, 0xFFFFFFFF, 0xFFFFFFFE):
        job = DIALECTS["v0.0.38"].job(a_running_job("v0.0.38", time_limit=unset))
        assert job.time_limit_s is None


@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": None},
        {"job_id": "42"},
        {"job_id": True},
        {"job_state": None},
        {"job_state": [7]},
        {"name": 7},
        {"nodes": "g[1"},
        {"tres_alloc_str": "nonsense"},
        {"submit_time": 1.5},
        {"submit_time": None},
    ],
)
@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_record_that_makes_no_sense_is_no_job(version: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ClusterUnavailable):
        DIALECTS[version].job(a_running_job(version, **changes))


@pytest.mark.parametrize("version", RECORDINGS)
def test_what_was_queued_anew_and_what_a_waiting_job_asks_for(version: str) -> None:
    """What every version tells of a job that has not begun, by which it is known again."""
    waiting = [
        DIALECTS[version].job(record)
        for exchange in recording(RECORDINGS[version])
        if isinstance(exchange["response"], dict)
        for record in exchange["response"].get("jobs", ())
        if "PENDING" in record.get("job_state", ()) and "restart_cnt" in record
    ]
    asked = {
        (job.comment.rpartition("-")[2], job.restarts, job.node_count, *job.gpus_requested.values())
        for job in waiting
    }
    assert ("hold", 0, 1, 2) in asked
    again = {("requeue", 1, 1, 1), ("requeue2", 1, 1, 1)}
    assert asked - {("hold", 0, 1, 2)} <= again
    assert version == "v0.0.40" or asked & again
