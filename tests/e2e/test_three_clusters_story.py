"""The company's story on three clusters at once: 480 GPUs of one pool, 192 of this machine, 128 of
Slurm and 160 of Kubernetes.

The whole installation runs as `make up` starts it and joins both beds as `make slurm-bed-join` and
`make kube-bed-join` do. Production's guarantee is used wherever there is room, on all three;
beyond it production borrows on Kubernetes what research leaves idle. Research's gang of 128 takes
that back and starts there, whole. Each team has one row of the report, over all three clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from builders.installation import Caller, Tidegate, settle
from connectors.kubernetes.objects.naming import team_namespace
from kube.own_bed import a_kube_bed_beside
from kube_bed import KubeBed
from slurm.own_bed import a_bed_beside
from slurm_bed import SlurmBed

# The beds are the test's own: others of this worker are not started for it.
pytestmark = [pytest.mark.story, pytest.mark.timeout(1200), pytest.mark.flaky(reruns=1)]

GRACE_S = 12
#: Classes of use in the order of `_rows`.
CLASSES = ("guaranteed", "borrowed", "fault")
#: Nodes of 8 GPUs.
NODES = {"local": 24, "slurm": 16, "kubernetes": 20}
NODE_MGPU = 8_000
POLITE = "trap 'exit 0' TERM\nsleep 900 &\nwait"
STUBBORN = "trap '' TERM\nsleep 900 &\nwait"
NLP, VISION = "ai-company/research/nlp", "ai-company/research/vision"
INFERENCE, TRAINING = "ai-company/production/inference", "ai-company/production/training"
SANDBOX = "ai-company/exploration/sandbox"
#: Nodes that are guaranteed, what is lowered first. Departments keep their percentages: 24, 24, 12.
GUARANTEED = {
    "ai-company": 60,
    "ai-company/research/speech": 2,
    VISION: 6,
    NLP: 16,
    INFERENCE: 16,
    TRAINING: 8,
}


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmBed]:
    """16 nodes of 8 H100."""
    with a_bed_beside("story") as own:
        yield own


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[KubeBed]:
    """20 nodes of 8 H100."""
    with a_kube_bed_beside("story", nodes=NODES["kubernetes"]) as own:
        yield own


@pytest.fixture(scope="module")
def company(slurm: SlurmBed, kubernetes: KubeBed, tidegate: Tidegate) -> Tidegate:
    """The installation with the beds as its second and third cluster."""
    tidegate.manage(
        "shell",
        "-c",
        "from clusters.models import Cluster\n"
        "from quotas.models import PriorityClass, OrganizationPolicy\n"
        f"PriorityClass.objects.update(grace_period_s={GRACE_S})\n"
        f"OrganizationPolicy.objects.update(grace_period_s={GRACE_S})\n"
        "local = Cluster.objects.get(name='local')\n"
        f"local.options['nodes'][0]['count'] = {NODES['local']}\n"
        "local.save()",
    )
    admin = tidegate.caller("admin")
    for node, nodes in GUARANTEED.items():
        (quota,) = admin.get("/quotas", node=node, pool="h100")["items"]
        changed = admin.http.patch(
            f"/quotas/{quota['id']}",
            json={"guaranteed_mgpu": nodes * NODE_MGPU, "reason": "Three clusters"},
            headers={"If-Match": f'"v{quota["version"]}"'},
        )
        assert changed.is_success, changed.text
    tidegate.join("deploy/slurm-bed/join.py", "--settle-s", "0", TIDEGATE_SLURM_BED=slurm.folder)
    tidegate.join("deploy/kube-bed/join.py", TIDEGATE_KUBE_BED=kubernetes.folder)
    wanted = {name: nodes * NODE_MGPU for name, nodes in NODES.items()}
    settle(lambda: _capacity(admin) == wanted)
    return tidegate


def _capacity(caller: Caller) -> dict[str, int]:
    return {
        cluster["name"]: sum(pool["healthy_mgpu"] for pool in cluster["pools"])
        for cluster in caller.get("/clusters")["items"]
    }


def test_the_company_runs_on_three_clusters(company: Tidegate, kubernetes: KubeBed) -> None:
    names = ("olga", "ana", "leo", "vera", "ivan", "sam", "fiona")
    cast = SimpleNamespace(**{name: company.caller(f"{name}@ai-company") for name in names})
    cast.olga.end_all()
    began = datetime.now(UTC)
    # Exploration and training fill this machine up to 4 nodes, vision Slurm up to 10.
    own = [
        cast.sam.submit(SANDBOX, nodes=12, gpus=8, script=POLITE, cluster="local"),
        cast.olga.submit(TRAINING, nodes=8, gpus=8, script=POLITE, cluster="local"),
        cast.vera.submit(VISION, nodes=6, gpus=8, script=POLITE, cluster="slurm"),
    ]
    for job in own:
        _until(cast.olga, job, "running")

    # One guarantee, used wherever there is room: nobody tells these where to run.
    for nodes, cluster in ((4, "local"), (8, "slurm"), (4, "kubernetes")):
        job = cast.ivan.submit(INFERENCE, nodes=nodes, gpus=8, script=POLITE)
        _until(cast.ivan, job, "running")
        assert _cluster(cast.ivan, job) == cluster
        own.append(job)
    use = cast.olga.use(INFERENCE)
    assert (use["in_use_mgpu"], use["borrowed_mgpu"]) == (128_000, 0)

    # Beyond it production borrows what research leaves idle: 128 GPUs there, 16 on Slurm.
    gentle = cast.ivan.submit(INFERENCE, nodes=8, gpus=8, script=POLITE, name="gentle")
    _until(cast.ivan, gentle, "running")
    stubborn = cast.ivan.submit(INFERENCE, nodes=8, gpus=8, script=STUBBORN, name="stubborn")
    _until(cast.ivan, stubborn, "running")
    small = cast.ivan.submit(INFERENCE, nodes=2, gpus=8, script=POLITE, name="small")
    _until(cast.ivan, small, "running")
    assert [_cluster(cast.ivan, job) for job in (gentle, stubborn, small)] == [
        *("kubernetes", "kubernetes", "slurm"),
    ]
    production = cast.olga.use("ai-company/production")
    assert (production["in_use_mgpu"], production["borrowed_mgpu"]) == (336_000, 144_000)
    assert cast.olga.use("ai-company")["in_use_mgpu"] == 480_000
    assert cast.olga.use("ai-company/research")["lent_mgpu"] == 144_000
    assert _pods_of(kubernetes, INFERENCE) == 20

    # Some seconds in which nothing changes: each team's row is exact, over all three clusters.
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    end = start + timedelta(seconds=5)
    settle(lambda: datetime.now(UTC) > end)
    report = _report(cast.fiona, start, end)
    assert report["check"]["is_equal"]
    assert _rows(report) == {
        INFERENCE: (5 * 128_000, 5 * 144_000, 0),
        TRAINING: (5 * 64_000, 0, 0),
        VISION: (5 * 48_000, 0, 0),
        SANDBOX: (5 * 96_000, 0, 0),
    }
    (pool,) = _report(cast.fiona, start, end, "/reports/chargeback/idle")["pools"]
    unused = pool["idle_mgpu_s"] + pool["spare_mgpu_s"]
    assert (pool["capacity_mgpu_s"], unused) == (5 * 480_000, 0)

    # Research's gang of 128 takes both back; the 16 on Slurm are no help to it and are left alone.
    gang = cast.ana.submit(
        NLP, nodes=16, gpus=8, name="pretrain", script='echo "rank $RANK of $WORLD_SIZE"\nsleep 5'
    )
    why = settle(lambda: _reclaim(cast.olga, gang))
    assert {one["job"] for one in why["victims"]} == {gentle["id"], stubborn["id"]}
    _until(cast.ana, gang, "succeeded")
    (attempt,) = cast.ana.get(f"/jobs/{gang['id']}/attempts")["items"]
    assert (attempt["cluster"], attempt["borrowed_mgpu"]) == ("kubernetes", 0)
    assert [slot["mgpu"] for slot in attempt["slots"]] == [NODE_MGPU] * 16
    assert len({slot["node"] for slot in attempt["slots"]}) == 16
    assert attempt["exit_codes"] == {str(rank): 0 for rank in range(16)}
    for rank in (0, 15):
        log = settle(lambda rank=rank: _whole_log(cast.ana, gang, rank))
        assert log == f"rank {rank} of 16\n"
    assert cast.ivan.job(small["id"])["attempt"] == 1

    # Who exits on notice frees at once; who ignores it is stopped at the end of the grace. Both
    # come back where they were once the gang is done.
    for job, waits_out in ((gentle, False), (stubborn, True)):
        (first, *_) = cast.ivan.get(f"/jobs/{job['id']}/attempts")["items"]
        took_s = (_at(first, "released_at") - _at(first, "notice_at")).total_seconds()
        assert (took_s >= GRACE_S) == waits_out
        again = _until(cast.ivan, job, "running")
        assert (again["attempt"], _cluster(cast.ivan, job)) == (2, "kubernetes")
        # Nothing of the gang's began before the last of these had ended.
        assert _at(attempt, "started_at") >= _at(first, "released_at")

    for job in (open_jobs := [*own, gentle, stubborn, small]):
        cast.olga.post(f"/jobs/{job['id']}/cancel")
    for job in open_jobs:
        _until(cast.olga, job, "cancelled")
    settle(lambda: _pods_of(kubernetes, INFERENCE) + _pods_of(kubernetes, NLP) == 0)

    # Finance's report over all of it, against every attempt: one row for each team.
    report = _report(cast.fiona, began - timedelta(seconds=5), datetime.now(UTC))
    assert report["check"]["is_equal"]
    used: Counter[str] = Counter()
    clusters: dict[str, set[str]] = {}
    for job in [*open_jobs, gang]:
        for one in cast.olga.get(f"/jobs/{job['id']}/attempts")["items"]:
            seconds = (_at(one, "released_at") - _at(one, "started_at")).total_seconds()
            used[job["team"]] += one["mgpu"] * seconds
            clusters.setdefault(job["team"], set()).add(one["cluster"])
    rows = _rows(report)
    assert {team: sum(row) for team, row in rows.items()} == dict(used)
    assert [team for team, (_, borrowed, _) in rows.items() if borrowed] == [INFERENCE]
    assert [team for team, (_, _, free) in rows.items() if free] == [INFERENCE]
    assert clusters == {
        INFERENCE: {"local", "slurm", "kubernetes"},
        NLP: {"kubernetes"},
        SANDBOX: {"local"},
        TRAINING: {"local"},
        VISION: {"slurm"},
    }


def _until(caller: Caller, job: Any, *states: str) -> Any:
    return caller.until(job["id"], *states, deadline_s=150)


def _cluster(caller: Caller, job: Any) -> str:
    return str(caller.job(job["id"])["current_attempt"]["cluster"])


def _at(attempt: Any, name: str) -> datetime:
    return datetime.fromisoformat(attempt[name])


def _reclaim(caller: Caller, job: Any) -> Any:
    """Why the job waits, once it waits for what others give back."""
    why = caller.get(f"/jobs/{job['id']}/explanation")
    return why if why["code"] == "waiting_for_reclaim" and len(why["victims"]) == 2 else None


def _whole_log(caller: Caller, job: Any, rank: int) -> str | None:
    """All that the rank wrote, once that is known to be all."""
    log = caller.get(f"/jobs/{job['id']}/logs", rank=rank, stream="stdout", offset=0)
    return str(log["text"]) if log["is_final"] else None


def _pods_of(bed: KubeBed, team: str) -> int:
    """How many Pods the team has on the bed that have not ended."""
    pods = bed.api.call("GET", f"/api/v1/namespaces/{team_namespace(team)}/pods")["items"]
    return sum(pod["status"]["phase"] not in ("Succeeded", "Failed") for pod in pods)


def _report(
    caller: Caller, start: datetime, end: datetime, path: str = "/reports/chargeback"
) -> Any:
    form = "%Y-%m-%dT%H:%M:%SZ"
    whole_end = end.replace(microsecond=0) + timedelta(seconds=1 if end.microsecond else 0)
    return caller.get(path, start=start.strftime(form), end=whole_end.strftime(form))


def _rows(report: Any) -> dict[str, tuple[int, int, int]]:
    """Guaranteed, borrowed and free milli-GPU-seconds of each team that has used any.

    What is taken back within ten minutes of its start is free.
    """
    teams = report["rows"]
    rows = {row["keys"]["team"]: tuple(row[f"{kind}_mgpu_s"] for kind in CLASSES) for row in teams}
    assert len(rows) == len(teams)
    return {team: row for team, row in rows.items() if row != (0, 0, 0)}
