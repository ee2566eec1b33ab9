"""How soon the next gang is granted, and runs, when a preempted one has ended: the whole product.

    python tests/performance/bench_kube_reclaim.py [--smoke]

Runs on the bed of `make kube-bed`; without one it says so and takes no figures. Arbiter and
observer are processes, as `make up` starts them, and the Pods are real processes. A team without a
guarantee fills the H100 with gangs; another asks for its guarantee, one gang at a time, and each
takes one of the others back. Measured is from the moment at which the API server tells of the end
of the last victim's Pod to the one at which the next gang's attempt stands in the database, and to
the one at which all its Pods run: once for victims that save and end at their notice, once for
such as do not listen and are killed after their grace.

Targets: granted within 1 s, running within 3 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bed import a_database, running_kube_bed, wait_until
from web_bed import verdict

if TYPE_CHECKING:
    from jobs.models import Attempt, Job

GRANTED_WITHIN_S = 1.0
RUNNING_WITHIN_S = 3.0
GPUS_PER_NODE = 8
#: It saves, as a job does that takes its notice seriously, and ends.
SAVES = "trap 'exit 0' USR1 TERM; sleep 3600 & wait"
DEAF = "trap '' USR1 TERM; sleep 3600"
#: Seconds that the deaf ones get.
SHORT_GRACE_S = 2


@dataclass(frozen=True)
class Sizes:
    """How many gangs fill the nodes, and how many nodes each has."""

    gangs: int
    nodes: int


FULL = Sizes(gangs=4, nodes=16)
SMOKE = Sizes(gangs=1, nodes=2)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small numbers: that it runs")
    sizes = SMOKE if parser.parse_args().smoke else FULL
    bed = running_kube_bed()
    if bed is None:
        return
    os.environ["TIDEGATE_KUBECONFIGS"] = str(bed.portal_kubeconfig)
    with a_database(), a_portal(bed, sizes) as portal:
        portal.measure()


class Portal:
    """Two teams that share some nodes of the bed, one of which is guaranteed all of them."""

    kind = "kubernetes"
    granted_within_s = GRANTED_WITHIN_S
    saves = SAVES
    short_grace_s = SHORT_GRACE_S

    def __init__(self, rig: Any, sizes: Sizes) -> None:
        from builders.portal_builders import (
            a_cluster,
            a_pool,
            a_priority_class,
            a_quota,
            a_team,
            a_user,
            an_organization,
        )

        self.rig = rig
        self.sizes = sizes
        self.pool = a_pool()
        cluster = a_cluster(f"{self.kind}-{time.time_ns()}", kind=self.kind, seen_at=None)
        cluster.options = rig.options
        cluster.save()
        self.cluster = cluster
        organization = an_organization()
        self.lender, self.borrower = a_team(organization), a_team(organization)
        gpus = sizes.gangs * sizes.nodes * GPUS_PER_NODE
        # Without borrowing the organization has no more than this, however many nodes there are.
        a_quota(organization, self.pool, gpus, borrow_gpus=0)
        a_quota(self.lender, self.pool, gpus)
        a_quota(self.borrower, self.pool, 0)
        a_priority_class(organization)
        a_priority_class(organization, "deaf", grace_period_s=self.short_grace_s)
        self.user = a_user(organization)
        self.let_in()

    def let_in(self) -> None:
        """Give both teams what they need on the cluster."""
        from builders.kube_queues import a_team as its_queue

        for team in (self.lender, self.borrower):
            its_queue(self.rig.admin, team.path.rstrip("/"), "h100")

    def measure(self) -> None:
        """Fill the nodes and take them back gang by gang, with each kind of victim."""
        from slurm.portal_processes import portal_processes

        with (
            tempfile.TemporaryDirectory() as folder,
            portal_processes(Path(folder) / "log") as started,
        ):
            for role in ("arbiter", "observer"):
                started.start(role)
            wait_until(self.is_seen, within_s=60)
            self.take_back("that end at their notice", self.saves, "normal")
            self.take_back("that must be killed", DEAF, "deaf")

    def take_back(self, victims: str, script: str, priority_class: str) -> None:
        """Fill the nodes with gangs of `script`, take them back, and leave the nodes empty."""
        jobs = [self.submit(self.borrower, script, priority_class) for _ in range(self.sizes.gangs)]
        for job in jobs:
            self.until_running(job)
        granted, running = [], []
        for _ in range(self.sizes.gangs):
            next_gang = self.submit(self.lender, self.saves)
            jobs.append(next_gang)
            wait_until(lambda: self.victim_of(next_gang) is not None, within_s=30)  # noqa: B023
            victim = self.victim_of(next_gang)
            assert victim is not None
            ended: list[float] = []
            watcher = threading.Thread(target=self.note_end, args=(victim, ended))
            watcher.start()
            wait_until(next_gang.attempts.exists, within_s=60)
            granted_at = time.perf_counter()
            watcher.join()
            self.until_running(next_gang)
            running.append(time.perf_counter() - ended[0])
            granted.append(granted_at - ended[0])
        self.cancel(jobs)
        most = max(granted)
        print(
            f"next gang of {self.sizes.nodes * GPUS_PER_NODE} GPUs after victims {victims}\n"
            f"{'':<28}granted after the last one's end: median {statistics.median(granted):.2f} s, "
            f"largest {most:.2f} s; at most {self.granted_within_s:.0f} s: "
            f"{verdict(most <= self.granted_within_s)}\n"
            f"{'':<28}running after it: median {statistics.median(running):.2f} s, "
            f"largest {max(running):.2f} s; at most {RUNNING_WITHIN_S:.0f} s: "
            f"{verdict(max(running) <= RUNNING_WITHIN_S)}"
        )

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all that is left of them; the victims, which wait again, before their heirs."""
        from jobs.actions.cancellation import cancel_job
        from primitives.clock import SystemClock
        from tenants.access import actor_of

        for job in jobs:
            cancel_job(job.pk, actor=actor_of(self.user), now=SystemClock().now())

        def are_over() -> bool:
            for job in jobs:
                job.refresh_from_db()
            return all(job.state == "cancelled" for job in jobs)

        wait_until(are_over, within_s=60)

    def leave(self) -> None:
        """End what still runs: it is the portal's own, which is not there any more."""
        for team in (self.lender, self.borrower):
            self.rig.bed.drop_namespace(self.namespace_of(team))
        wait_until(
            lambda: not any(self.pods_of(team) for team in (self.lender, self.borrower)),
            within_s=60,
        )

    def is_seen(self) -> bool:
        """Whether the observer knows the cluster's nodes."""
        self.cluster.refresh_from_db()
        return self.cluster.seen_at is not None and self.cluster.nodes.exists()

    def submit(self, team: Any, script: str, priority_class: str = "normal") -> Job:
        """A gang."""
        from django.db import transaction

        from builders.loop_builders import a_job
        from live.waking import wake

        with transaction.atomic():
            job = a_job(
                team,
                self.user,
                self.pool,
                gpus=GPUS_PER_NODE,
                nodes=self.sizes.nodes,
                script=script,
                priority_class=priority_class,
                notice_signal="USR1",
            )
            wake("arbiter")
        return job

    def until_running(self, job: Job) -> None:
        """Return when all ranks run."""

        def is_running() -> bool:
            job.refresh_from_db()
            return job.state == "running"

        wait_until(is_running, within_s=120)

    def victim_of(self, job: Job) -> Attempt | None:
        """The attempt that is stopped for the job."""
        from jobs.models import Attempt

        return Attempt.objects.filter(reclaim__job=job).first()

    def note_end(self, victim: Attempt, ended: list[float]) -> None:
        """Note when no Pod of the attempt is alive any more, as the API server tells."""
        from connectors.kubernetes.objects.naming import workload_name

        selector = f"batch.kubernetes.io/job-name={workload_name(victim.key)}"
        wait_until(
            lambda: all(
                pod["status"]["phase"] in ("Succeeded", "Failed")
                for pod in self.pods_of(self.borrower, selector)
            ),
            within_s=60,
        )
        ended.append(time.perf_counter())

    def namespace_of(self, team: Any) -> str:
        """Where the team's Pods are."""
        from connectors.kubernetes.objects.naming import team_namespace

        return team_namespace(team.path.rstrip("/"))

    def pods_of(self, team: Any, selector: str = "") -> list[dict[str, Any]]:
        """The team's Pods, as the API server tells."""
        path = f"/api/v1/namespaces/{self.namespace_of(team)}/pods"
        return self.rig.admin.list(path, labels=selector).items


@contextmanager
def a_portal(bed: Any, sizes: Sizes) -> Iterator[Portal]:
    """A portal whose jobs on the bed end with the block."""
    from conformance.rigs import KubernetesRig

    rig = KubernetesRig(bed)
    try:
        portal = Portal(rig, sizes)
        try:
            yield portal
        finally:
            portal.leave()
    finally:
        rig.close()


if __name__ == "__main__":
    main()
