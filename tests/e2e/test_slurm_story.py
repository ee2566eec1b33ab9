"""The company's story on two clusters at once: 400 GPUs, 272 of this machine and 128 of Slurm.

The whole installation runs as `make up` starts it, with the minter, and joins a Slurm as
`make slurm-bed-join` does. Production borrows on both clusters what research leaves idle; nlp
takes it back on both; one person of vision works past the portal, by `sbatch`. Everybody's row of
the report is the sum over both clusters, and Slurm's own accounting says the same seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from builders.installation import Caller, Tidegate, settle
from slurm.own_bed import a_bed_beside
from slurm_bed import SlurmBed

pytestmark = [pytest.mark.slurm, pytest.mark.story, pytest.mark.timeout(900)]

GRACE_S = 12
#: Classes of use in the order of `_rows`.
CLASSES = ("guaranteed", "borrowed", "fault")
LOCAL_NODES = 34
POLITE = "trap 'exit 0' TERM\nwhile :; do sleep 0.2; done"
STUBBORN = "trap '' TERM\nwhile :; do sleep 0.2; done"
NLP, VISION = "ai-company/research/nlp", "ai-company/research/vision"
INFERENCE, TRAINING = "ai-company/production/inference", "ai-company/production/training"
SANDBOX = "ai-company/exploration/sandbox"
ACCOUNT = "ai-company_research_vision"


@pytest.fixture(scope="module")
def bed(slurm_bed: SlurmBed) -> Iterator[SlurmBed]:
    """16 nodes of 8 H100: what others run on the shared bed would be in the figures."""
    with a_bed_beside("story") as own:
        yield own


@pytest.fixture(scope="module")
def both(tidegate: Tidegate, bed: SlurmBed) -> Tidegate:
    """The installation with 34 local nodes and the bed as its second cluster."""
    tidegate.manage(
        "shell",
        "-c",
        "from clusters.models import Cluster\n"
        "from quotas.models import PriorityClass, OrganizationPolicy\n"
        f"PriorityClass.objects.update(grace_period_s={GRACE_S})\n"
        f"OrganizationPolicy.objects.update(grace_period_s={GRACE_S})\n"
        "local = Cluster.objects.get(name='local')\n"
        f"local.options['nodes'][0]['count'] = {LOCAL_NODES}\n"
        "local.save()",
    )
    admin = tidegate.caller("admin")
    (quota,) = admin.get("/quotas", node="ai-company", pool="h100")["items"]
    changed = admin.http.patch(
        f"/quotas/{quota['id']}",
        json={"guaranteed_mgpu": 400_000, "reason": "Two clusters"},
        headers={"If-Match": f'"v{quota["version"]}"'},
    )
    assert changed.is_success, changed.text
    tidegate.join("deploy/slurm-bed/join.py", "--settle-s", "0", TIDEGATE_SLURM_BED=bed.folder)
    settle(lambda: _capacity(admin) == {"local": 272_000, "slurm": 128_000})
    return tidegate


def _capacity(caller: Caller) -> dict[str, int]:
    return {
        cluster["name"]: sum(pool["healthy_mgpu"] for pool in cluster["pools"])
        for cluster in caller.get("/clusters")["items"]
    }


def test_the_company_runs_on_two_clusters(both: Tidegate, bed: SlurmBed) -> None:
    names = ("olga", "ana", "leo", "vera", "ivan", "sam", "fiona")
    cast = SimpleNamespace(**{name: both.caller(f"{name}@ai-company") for name in names})
    cast.olga.end_all()
    began = datetime.now(UTC)
    # Everybody's own guarantee first. Slurm lets each team hold its share of the guarantee there
    # (128 of 400 GPUs). Olga has no user on Slurm, so training's job can only go to `local`.
    own = [
        cast.sam.submit(SANDBOX, nodes=7, gpus=8, script=POLITE, cluster="local"),
        cast.sam.submit(SANDBOX, nodes=3, gpus=8, script=POLITE, cluster="slurm"),
        cast.vera.submit(VISION, nodes=5, gpus=8, script=POLITE, cluster="local"),
        cast.olga.submit(TRAINING, nodes=6, gpus=8, script=POLITE),
        cast.ivan.submit(INFERENCE, nodes=10, gpus=8, script=POLITE, cluster="local"),
        cast.ivan.submit(INFERENCE, nodes=4, gpus=8, script=POLITE, cluster="slurm"),
    ]
    native = _sbatch(bed, "tg-vera")
    for job in own:
        cast.olga.until(job["id"], "running")
    assert [_cluster(cast.olga, job) for job in own] == [
        *("local", "slurm", "local", "local", "local", "slurm"),
    ]
    # The native job of a first try has ended.
    (beside,) = settle(
        lambda: cast.vera.get("/jobs", origin="native", state="queued,running")["items"]
    )
    assert (beside["team"], beside["user"], beside["mgpu"]) == (VISION, "vera", 8_000)
    assert beside["current_attempt"]["native_id"] == native

    # Production borrows what research leaves idle: 64 GPUs on Slurm, then 48 on `local`.
    on_slurm = cast.ivan.submit(INFERENCE, nodes=8, gpus=8, script=STUBBORN, name="on-slurm")
    cast.ivan.until(on_slurm["id"], "running")
    on_local = cast.ivan.submit(INFERENCE, nodes=6, gpus=8, script=POLITE, name="on-local")
    cast.ivan.until(on_local["id"], "running")
    assert (_cluster(cast.ivan, on_slurm), _cluster(cast.ivan, on_local)) == ("slurm", "local")
    production = cast.olga.use("ai-company/production")
    assert (production["in_use_mgpu"], production["borrowed_mgpu"]) == (272_000, 112_000)
    assert cast.olga.use("ai-company")["in_use_mgpu"] == 400_000
    assert cast.olga.use("ai-company/research")["lent_mgpu"] == 112_000

    # Some seconds in which nothing changes: each team's row is exact, over both clusters.
    start = _whole(datetime.now(UTC)) + timedelta(seconds=2)
    end = start + timedelta(seconds=5)
    settle(lambda: datetime.now(UTC) > end)
    report = _report(cast.fiona, start, end)
    assert report["check"]["is_equal"]
    assert _rows(report) == {
        INFERENCE: (5 * 112_000, 5 * 112_000, 0),
        TRAINING: (5 * 48_000, 0, 0),
        VISION: (5 * 48_000, 0, 0),
        SANDBOX: (5 * 80_000, 0, 0),
    }
    (pool,) = _report(cast.fiona, start, end, "/reports/chargeback/idle")["pools"]
    unused = pool["idle_mgpu_s"] + pool["spare_mgpu_s"]
    assert (pool["capacity_mgpu_s"], unused) == (5 * 400_000, 0)

    # nlp takes back 72 of its 80: six nodes are cheapest on `local`, three are left on Slurm.
    large = cast.ana.submit(NLP, nodes=6, gpus=8, name="pretrain", script=POLITE)
    _waits_for(cast.olga, large, on_local)
    small = cast.leo.submit(NLP, nodes=3, gpus=8, name="tune", script="sleep 4")
    _waits_for(cast.olga, small, on_slurm)
    cast.leo.until(small["id"], "succeeded")
    for job, cluster in ((large, "local"), (small, "slurm")):
        (attempt,) = cast.leo.get(f"/jobs/{job['id']}/attempts")["items"]
        assert _cluster_of(attempt) == cluster
        assert attempt["borrowed_mgpu"] == 0
    cast.ana.post(f"/jobs/{large['id']}/cancel")
    # Who exits on notice frees at once; who ignores it is stopped at the end of the grace.
    for job, waits_out in ((on_local, False), (on_slurm, True)):
        (first, *_) = cast.ivan.get(f"/jobs/{job['id']}/attempts")["items"]
        took_s = (_at(first, "released_at") - _at(first, "notice_at")).total_seconds()
        assert (took_s >= GRACE_S) == waits_out
        again = cast.ivan.until(job["id"], "running")
        assert (again["attempt"], _cluster(cast.ivan, job)) == (2, _cluster_of(first))

    # Everything ends, by the portal what `sbatch` brought too.
    open_jobs = [*own, on_slurm, on_local, beside]
    for job in open_jobs:
        cast.olga.post(f"/jobs/{job['id']}/cancel")
    for job in [*open_jobs, large]:
        cast.olga.until(job["id"], "cancelled")
    everything = [*open_jobs, large, small]

    # Finance's report over all of it, against every attempt and against Slurm's own accounting.
    attempts = {
        job["id"]: cast.olga.get(f"/jobs/{job['id']}/attempts")["items"] for job in everything
    }
    report = _report(cast.fiona, began - timedelta(seconds=5), datetime.now(UTC))
    assert report["check"]["is_equal"]
    used: dict[str, float] = {}
    for job in everything:
        for attempt in attempts[job["id"]]:
            seconds = (_at(attempt, "released_at") - _at(attempt, "started_at")).total_seconds()
            used[job["team"]] = used.get(job["team"], 0) + attempt["mgpu"] * seconds
    rows = _rows(report)
    assert {team: sum(row) for team, row in rows.items()} == used
    assert [team for team, (_, borrowed, _) in rows.items() if borrowed] == [INFERENCE]
    assert [team for team, (_, _, free) in rows.items() if free] == [INFERENCE]
    there = {
        attempt["native_id"]: tuple(
            int(_at(attempt, name).timestamp()) for name in ("started_at", "released_at")
        )
        for found in attempts.values()
        for attempt in found
        if attempt["cluster"] == "slurm"
    }
    assert len(there) == 6
    assert settle(lambda: _accounted(bed, there)) == there


def _cluster(caller: Caller, job: Any) -> str:
    return _cluster_of(caller.job(job["id"])["current_attempt"])


def _cluster_of(attempt: Any) -> str:
    return str(attempt["cluster"])


def _at(attempt: Any, name: str) -> datetime:
    return datetime.fromisoformat(attempt[name])


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def _waits_for(caller: Caller, job: Any, victim: Any) -> None:
    """The job waits for the GPUs of this one victim."""
    why = settle(
        lambda: (
            explanation
            if (explanation := caller.get(f"/jobs/{job['id']}/explanation"))
            and explanation["code"] == "waiting_for_reclaim"
            else None
        )
    )
    assert [one["job"] for one in why["victims"]] == [victim["id"]]


def _report(
    caller: Caller, start: datetime, end: datetime, path: str = "/reports/chargeback"
) -> Any:
    form = "%Y-%m-%dT%H:%M:%SZ"
    return caller.get(
        path,
        start=start.strftime(form),
        end=(_whole(end) + timedelta(seconds=1 if end.microsecond else 0)).strftime(form),
    )


def _rows(report: Any) -> dict[str, tuple[int, int, int]]:
    """Guaranteed, borrowed and free milli-GPU-seconds of each team that has used any.

    What is taken back within ten minutes of its start is free.
    """
    teams = report["rows"]
    rows = {row["keys"]["team"]: tuple(row[f"{kind}_mgpu_s"] for kind in CLASSES) for row in teams}
    assert len(rows) == len(teams)
    return {team: row for team, row in rows.items() if row != (0, 0, 0)}


def _sbatch(bed: SlurmBed, user: str) -> str:
    """One node of 8 GPUs for vision, given to Slurm past the portal; the job's number."""
    return bed.run(
        [
            *("runuser", "-u", user, "--", "sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null"),
            *("-p", "h100", "-A", ACCOUNT, "-q", f"g-{ACCOUNT}", "--gres=gpu:h100:8", "--mem=10"),
            *("--wrap", "sleep 600"),
        ]
    ).strip()


def _accounted(
    bed: SlurmBed, wanted: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]] | None:
    """Start and end of these jobs by sacct, once it has them all."""
    printed = bed.run(
        [
            *("env", "SLURM_TIME_FORMAT=%s", "sacct", "-nPXDa", "-j", ",".join(wanted)),
            "--format=JobIDRaw,Start,End",
        ]
    )
    found = {}
    for line in printed.splitlines():
        native_id, *times = line.split("|")
        if all(time.isdecimal() for time in times):
            found[native_id] = tuple(map(int, times))
    return found if found.keys() == wanted.keys() else None
