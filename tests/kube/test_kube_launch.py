"""Jobs and JobSets as we build them run: every rank finds its place, the others, and its end."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from builders.bed_pods import read_log
from builders.kubernetes_builders import CLUSTER_ID, a_kube_workload, some_options
from connectors.kubernetes.manifests.building import objects_for, owned
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import resource_of
from connectors.protocol import RankSlot
from kube_bed import KubeBed, until

pytestmark = pytest.mark.kube

#: Rank 0 waits for the others' words on its port, so that all must find it by name.
SCRIPT = """#!/usr/bin/env python3
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(place)
    server.settimeout(60)
    told = sorted(server.accept()[0].recv(100).decode() for _ in range(world - 1))
    print(",".join(told), os.getcwd(), os.environ["HOME"], flush=True)
else:
    word = f"{rank}/{os.environ['TIDEGATE_GPUS_PER_NODE']}".encode()
    for _ in range(300):
        try:
            socket.create_connection(place).sendall(word)
            break
        except OSError:
            time.sleep(0.2)
raise SystemExit(0 if os.environ["A"] == "$(HOME) $X" else 1)
"""


@pytest.mark.parametrize(
    ("kind", "sizes"), [("job", (1000, 1000, 1000)), ("jobset", (2000, 1000, 1000))]
)
def test_a_gang_runs_as_it_is_built(
    kube_bed: KubeBed, kube_namespace: str, kind: str, sizes: tuple[int, ...]
) -> None:
    workload = a_kube_workload(
        SCRIPT,
        slots=tuple(RankSlot("", mgpu) for mgpu in sizes),
        environment={"A": "$(HOME) $X"},
    )
    options = some_options(kind=kind)
    objects = objects_for(workload, options, cluster_id=CLUSTER_ID)

    def create(item: Any) -> dict[str, Any]:
        body = copy.deepcopy(dict(item))
        body["metadata"]["namespace"] = kube_namespace
        return kube_bed.api.call("POST", resource_of(body).collection(kube_namespace), body)

    main = copy.deepcopy(dict(objects.main))
    # Without a queue Kueue leaves it alone, and nobody else suspends it.
    del main["metadata"]["labels"][naming.QUEUE_LABEL]
    main["spec"]["suspend"] = False
    answered = create(main)
    for other in objects.others:
        create(owned(other, answered))

    pods_path = f"/api/v1/namespaces/{kube_namespace}/pods"

    def ended() -> dict[int, Any]:
        pods = kube_bed.api.call("GET", pods_path)["items"]
        found = {naming.rank_of(pod): pod for pod in pods}
        phases = {pod["status"].get("phase") for pod in pods}
        return found if len(found) == len(sizes) and phases <= {"Succeeded", "Failed"} else {}

    pods = until(ended, "the ranks have not ended", within_s=120)
    messages = {}
    for rank, pod in pods.items():
        (status,) = pod["status"]["containerStatuses"]
        messages[rank] = json.loads(status["state"]["terminated"]["message"])
        assert naming.key_of(pod, CLUSTER_ID) == workload.key
    assert messages == {rank: {"exit": 0} for rank in range(len(sizes))}
    log = read_log(kube_bed, kube_namespace, pods[0]["metadata"]["name"])
    others = ",".join(f"{rank}/{mgpu // 1000}" for rank, mgpu in enumerate(sizes) if rank)
    assert log == f"{others} /run/tidegate/work /run/tidegate/work\n"
