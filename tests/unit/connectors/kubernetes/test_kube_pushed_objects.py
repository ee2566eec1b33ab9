"""What a push writes on a cluster without any pool of cores, byte by byte: pools of cores beside it
must not change a single object of the clusters that have none.

The documents stand in `golden_push/`. After a change that is meant, `TIDEGATE_WRITE_GOLDEN=1
pytest` on this file writes them again: read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from builders.kube_quota_builders import H100_LABELS, a_company_tree, kube_shape
from connectors.kubernetes.objects import Shape
from connectors.kubernetes.settings import for_apply, manifest
from connectors.kubernetes.wanted_objects import wanted_items

GOLDEN = Path(__file__).parent / "golden_push"
POOLS = {
    "h100": {
        "node_selector": H100_LABELS,
        "topology_name": "fabric",
        "topology_levels": ["example.com/block", "kubernetes.io/hostname"],
    },
    "slices": {
        "node_selector": {"nvidia.com/gpu.product": "A100"},
        "resource": "nvidia.com/mig-1g.5gb",
        "mgpu_per_unit": 125,
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
}


def written(shape: Shape) -> str:
    """Every object of the company's tree as it is applied, in the order of the push."""
    bodies = [
        for_apply(manifest(item.thing, item.name, item.settings, shape))
        for item in wanted_items(a_company_tree(), shape)
    ]
    return json.dumps(bodies, indent=1) + "\n"


@pytest.mark.parametrize("mode", ["arbiter", "shared"])
def test_without_a_pool_of_cores_a_push_writes_what_it_always_wrote(mode: str) -> None:
    text = written(kube_shape(mode, pools=POOLS))
    path = GOLDEN / f"{mode}.json"
    if os.environ.get("TIDEGATE_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
