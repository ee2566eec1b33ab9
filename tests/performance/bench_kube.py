"""Jobs that go to a real Kubernetes with Kueue: how soon they run, and what that asks of its API.

    python tests/performance/bench_kube.py [--smoke]

Runs on the bed of `make kube-bed`; without one it says so and takes no figures. What is measured is
the connector: submissions from 8 threads as by the dispatcher, releases and looks as by the
observer. The bed's fake nodes play the Pods, so that no process of a job takes part; etcd, the API
server, Kueue and this share the machine, and the API server is the bound.

The same jobs are first created bare, as their Jobs and ConfigMaps alone, with votes at once by 4
threads. Targets: through Tidegate they take at most 1.2 times as long until all run; what is
stopped is told as released within 1 s of its last Pod's end.
"""

from __future__ import annotations

import argparse
import copy
import resource
import statistics
import threading
import time
import tracemalloc
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bed import running_kube_bed, wait_until
from web_bed import verdict

if TYPE_CHECKING:
    from conformance.rigs import KubernetesRig
    from connectors.protocol import Workload

RATIO_MAX = 1.2
RELEASED_WITHIN_S = 1.0
SUBMITTERS = 8
#: The product's observer rests so long between two looks (`jobs.loops.cluster_agent`).
LOOK_AGAIN_S = 0.2
VOTERS = 4
GPUS_PER_NODE = 8
GANG_RANKS = 4
#: What has such an annotation is played by the bed.
PLAYED = "bed.tidegate.io/start-seconds"
STOPS_IN = "bed.tidegate.io/stop-seconds"
PODS_PER_GANG = 8


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    jobs: int
    one_by_one: int
    gangs: int
    pods: int


FULL = Sizes(jobs=500, one_by_one=10, gangs=5, pods=5_000)
SMOKE = Sizes(jobs=10, one_by_one=2, gangs=1, pods=80)


def main() -> None:
    """Print the figures."""
    from conformance.rigs import KubernetesRig

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small numbers: that it runs")
    sizes = SMOKE if parser.parse_args().smoke else FULL
    bed = running_kube_bed()
    if bed is None:
        return
    room = len(bed.h100_nodes) * GPUS_PER_NODE
    sizes = replace(sizes, jobs=min(sizes.jobs, room))
    for measure in (measure_burst, measure_one_by_one, measure_stops):
        rig = KubernetesRig(bed)
        try:
            play(rig.connector, {PLAYED: "0", STOPS_IN: "2"})
            measure(rig, sizes)
        finally:
            rig.close()
    measure_looks(sizes)


def play(connector: Any, annotations: Mapping[str, str]) -> None:
    """Have the bed play the Pods of what `connector` creates."""
    create = connector.api.create

    def created(path: str, body: Any, **more: Any) -> Any:
        return create(path, played(body, annotations), **more)

    connector.api.create = created


def played(body: Any, annotations: Mapping[str, str]) -> Any:
    """`body`, with these annotations on its Pods where it is a Job."""
    if body["kind"] != "Job":
        return body
    body = copy.deepcopy(body)
    body["spec"]["template"]["metadata"].setdefault("annotations", {}).update(annotations)
    return body


def a_job(rig: KubernetesRig, ranks: int = 1, mgpu: int = 1_000) -> Workload:
    """A workload that the bed plays until it is stopped."""
    from builders.connector_builders import a_workload

    return replace(a_workload("exit 0", ranks=ranks, mgpu=mgpu), **rig.asked)


def measure_burst(rig: KubernetesRig, sizes: Sizes) -> None:
    """Many jobs at once, bare and through us."""
    bare_s = bare_burst(rig, sizes.jobs)
    connector: Any = rig.connector
    connector.observe()
    before = connector.api.calls
    began = time.perf_counter()
    sent: dict[str, str] = {}

    def submit(workload: Workload) -> None:
        sent[workload.key] = connector.submit(workload, is_first=True)

    released: set[str] = set()
    looks = 0
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        jobs = [pool.submit(submit, a_job(rig)) for _ in range(sizes.jobs)]
        while True:
            connector.news.clear()
            looked_at = time.perf_counter()
            observations = connector.observe().observations
            looks += 1
            for key, native_id in list(sent.items()):
                seen = observations.get(key)
                # As the product's settling does: whatever is listed as held is let go.
                if seen is not None and seen.phase == "held" and key not in released:
                    connector.release(key, native_id)
                    released.add(key)
            running = sum(
                observations[key].phase == "running" for key in sent if key in observations
            )
            if running == sizes.jobs:
                break
            # As the product's observer does: half of its time, at most, it looks.
            looked_s = time.perf_counter() - looked_at
            time.sleep(max(LOOK_AGAIN_S, looked_s))
            connector.news.wait(0.5)
        for job in jobs:
            job.result()
    took_s = time.perf_counter() - began
    calls = (connector.api.calls - before) / sizes.jobs
    ratio = took_s / bare_s
    print(
        f"{f'{sizes.jobs} jobs at once':<28}bare {bare_s:.1f} s, through the connector "
        f"{took_s:.1f} s, {ratio:.2f} times; at most {RATIO_MAX}: {verdict(ratio <= RATIO_MAX)}\n"
        f"{'':<28}{calls:.1f} requests for each, {looks} looks"
    )


def bare_burst(rig: KubernetesRig, count: int) -> float:
    """Seconds until the same jobs all run that nobody but their voters looks after."""
    from connectors.kubernetes.admission.admission_check import (
        KUEUE_VERSION,
        vote_of,
        workload_path,
    )
    from connectors.kubernetes.manifests.building import objects_for, owned
    from connectors.kubernetes.objects.reading import is_true
    from connectors.kubernetes.objects.resources import resource_of

    connector: Any = rig.connector
    admin = rig.admin
    namespace = rig.namespace
    bodies = [objects_for(a_job(rig), connector.options, cluster_id="bare") for _ in range(count)]
    workloads = f"/apis/{KUEUE_VERSION}/namespaces/{namespace}/workloads"

    def create(objects: Any) -> None:
        main = played(objects.main, {PLAYED: "0"})
        made = admin.create(resource_of(main).collection(namespace), main)
        for other in objects.others:
            admin.create(resource_of(other).collection(namespace), owned(other, made))

    def vote(workload: Any) -> None:
        said = {
            "name": "tidegate",
            "state": "Ready",
            "message": "granted",
            "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
        name = workload["metadata"]["name"]
        admin.apply(
            workload_path(workload),
            {
                "apiVersion": KUEUE_VERSION,
                "kind": "Workload",
                "metadata": {"name": name, "namespace": namespace},
                "status": {"admissionChecks": [said]},
            },
            force=True,
            subresource="status",
        )

    began = time.perf_counter()
    voted: set[str] = set()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    selector = f"tidegate.io/cluster={bodies[0].main['metadata']['labels']['tidegate.io/cluster']}"
    with ThreadPoolExecutor(SUBMITTERS) as makers, ThreadPoolExecutor(VOTERS) as voters:
        made = [makers.submit(create, one) for one in bodies]
        while len(voted) < count or running_of(admin, pods, selector) < count:
            if len(voted) < count:
                for workload in admin.list(workloads).items:
                    uid = workload["metadata"]["uid"]
                    waits = is_true(workload, "QuotaReserved") and vote_of(workload) == "Pending"
                    if waits and uid not in voted:
                        voted.add(uid)
                        voters.submit(vote, workload)
            time.sleep(0.3)
        for one in made:
            one.result()
    took_s = time.perf_counter() - began
    for one in bodies:
        kind = resource_of(one.main)
        path = kind.path(namespace, one.main["metadata"]["name"])
        admin.delete(path, propagation="Background")
    wait_until(lambda: not admin.list(pods, labels=selector).items, within_s=300)
    return took_s


def running_of(admin: Any, pods: str, selector: str) -> int:
    """How many Pods run."""
    return len(admin.list(pods, labels=selector, fields="status.phase=Running").items)


def measure_one_by_one(rig: KubernetesRig, sizes: Sizes) -> None:
    """One job at a time, on a cluster that has nothing else to do."""
    connector: Any = rig.connector
    waits, starts = [], []
    for _ in range(sizes.one_by_one):
        workload = a_job(rig)
        began = time.perf_counter()
        native_id = connector.submit(workload, is_first=True)
        admitted_s = None
        while True:
            connector.news.clear()
            seen = connector.observe().observations[workload.key]
            now = time.perf_counter()
            if seen.phase == "held":
                connector.release(workload.key, native_id)
            if admitted_s is None and seen.started_at is not None:
                admitted_s = now
            if seen.phase == "running":
                break
            connector.news.wait(0.05)
        assert admitted_s is not None
        waits.append(now - admitted_s)
        starts.append(now - began)
        connector.stop(workload.key)
    print(
        f"{'one by one':<28}submitted to running: median {statistics.median(starts):.2f} s; of it "
        f"admitted to running: median {statistics.median(waits):.2f} s, largest {max(waits):.2f} s"
    )


def measure_stops(rig: KubernetesRig, sizes: Sizes) -> None:
    """How soon it is known that the GPUs of what was stopped are free."""
    connector: Any = rig.connector
    late = []
    for _ in range(sizes.gangs):
        workload = a_job(rig, ranks=GANG_RANKS)
        native_id = connector.submit(workload, is_first=True)
        wait_until(lambda: phase_of(connector, workload.key) == "held", within_s=60)  # noqa: B023
        connector.release(workload.key, native_id)
        wait_until(lambda: phase_of(connector, workload.key) == "running", within_s=60)  # noqa: B023
        gone_at: list[float] = []
        watcher = threading.Thread(target=until_no_pod, args=(rig, workload.key, gone_at))
        connector.stop(workload.key)
        watcher.start()
        while True:
            connector.news.clear()
            if connector.observe().observations[workload.key].is_released:
                break
            connector.news.wait(0.5)
        told_at = time.perf_counter()
        watcher.join()
        late.append(told_at - gone_at[0])
    most = max(late)
    print(
        f"{f'stop of {GANG_RANKS} Pods':<28}released after the last Pod's end: median "
        f"{statistics.median(late):.2f} s, largest {most:.2f} s; at most "
        f"{RELEASED_WITHIN_S:.0f} s: {verdict(most <= RELEASED_WITHIN_S)}"
    )


def phase_of(connector: Any, key: str) -> str:
    """Where the workload stands."""
    seen = connector.observe().observations.get(key)
    return "" if seen is None else str(seen.phase)


def until_no_pod(rig: KubernetesRig, key: str, gone_at: list[float]) -> None:
    """Note when no Pod of the workload is alive any more."""
    from connectors.kubernetes.objects.naming import workload_name

    pods = f"/api/v1/namespaces/{rig.namespace}/pods"
    selector = f"batch.kubernetes.io/job-name={workload_name(key)}"
    wait_until(
        lambda: all(
            pod["status"]["phase"] in ("Succeeded", "Failed")
            for pod in rig.admin.list(pods, labels=selector).items
        ),
        within_s=60,
    )
    gone_at.append(time.perf_counter())


def measure_looks(sizes: Sizes) -> None:
    """What it takes to say what a cluster with many Pods has, from what the watches keep."""
    from builders.kube_states import CLUSTER_ID, of_one, pools_of, recorded
    from connectors.kubernetes.objects.cluster_state import KubeState
    from connectors.kubernetes.workloads.observing import listing_of

    tracemalloc.start()
    started = recorded("started")
    item, workload, pods = of_one(started, "tg-gang")
    objects, workloads, all_pods = [], [], []
    for gang in range(sizes.pods // PODS_PER_GANG):
        uid = f"uid-{gang}"
        owner = [{"kind": "Job", "uid": uid, "controller": True}]
        one, its = copy.deepcopy(item), copy.deepcopy(workload)
        one["metadata"] |= {"uid": uid, "name": f"tg-{gang}"}
        one["metadata"]["annotations"]["tidegate.io/key"] = f"tg-{gang}"
        its["metadata"] |= {"uid": f"w-{gang}", "ownerReferences": owner}
        its["spec"]["podSets"][0]["count"] = PODS_PER_GANG
        objects.append(one)
        workloads.append(its)
        for rank in range(PODS_PER_GANG):
            pod = copy.deepcopy(pods[0])
            pod["metadata"] |= {"uid": f"p-{gang}-{rank}", "ownerReferences": owner}
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = str(rank)
            all_pods.append(pod)
    state = KubeState(
        tuple(objects), tuple(workloads), tuple(all_pods), started.nodes, started.observed_at
    )
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    times, cpu_times = [], []
    for _ in range(5):
        began, cpu_began = time.perf_counter(), time.process_time()
        listing = listing_of(state, cluster_id=CLUSTER_ID, pools=pools_of())
        times.append(time.perf_counter() - began)
        cpu_times.append(time.process_time() - cpu_began)
    assert len(listing.observations) == sizes.pods // PODS_PER_GANG
    assert all(one.phase == "running" for one in listing.observations.values())
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{f'a look at {sizes.pods:,} Pods':<28}median {statistics.median(times) * 1_000:.0f} ms, "
        f"{statistics.median(cpu_times) * 1_000:.0f} ms of CPU; "
        f"what the watches keep {kept / (1 << 20):.0f} MiB, this process at most {largest} MiB"
    )


if __name__ == "__main__":
    main()
