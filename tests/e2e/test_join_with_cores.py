"""`deploy/kube-bed/join.py --cores`: what a person does who tries pools of CPU cores by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.installation import Tidegate
from kube.own_bed import a_kube_bed_beside
from kube_bed import KubeBed

# The bed is the test's own: others of this worker are not started for it.
pytestmark = [pytest.mark.story, pytest.mark.timeout(600), pytest.mark.flaky(reruns=1)]


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[KubeBed]:
    """One node of 8 H100, and what joining adds."""
    with a_kube_bed_beside("cores", nodes=1) as own:
        yield own


def join(tidegate: Tidegate, bed: KubeBed) -> str:
    """Return what the script says."""
    words = ("--mode", "shared", "--cores", "cpu")
    return tidegate.join("deploy/kube-bed/join.py", *words, TIDEGATE_KUBE_BED=bed.folder)


def test_joining_with_cores_makes_a_pool_that_runs_jobs(
    tidegate: Tidegate, kubernetes: KubeBed
) -> None:
    """And again, which changes nothing. Mutants: nobody has quota in it; its nodes are not those
    that its option names."""
    join(tidegate, kubernetes)
    again = join(tidegate, kubernetes)
    assert again.splitlines()[-1] == "Kubernetes bed: quotas: 0 changes made"
    (quota,) = tidegate.caller("admin").get("/quotas", node="ai-company", pool="cpu")["items"]
    assert quota["guaranteed_mgpu"] == 128_000
    leo = tidegate.caller("leo@ai-company")
    job = leo.post(
        "/jobs",
        {
            "team": "ai-company/research/nlp",
            "pool": "cpu",
            "cpus_per_node": 16,
            "nodes": 2,
            "script": "echo $TIDEGATE_CPUS_PER_NODE on $TIDEGATE_NODE",
        },
    )
    ended = leo.until(job["id"], "succeeded", "failed")
    assert (ended["state"], ended["current_attempt"]["cluster"]) == ("succeeded", "kubernetes")
