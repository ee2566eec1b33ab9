"""A small pool of its own in a running installation, in which a guarantee takes GPUs back."""

from __future__ import annotations

from builders.installation import Caller, Tidegate, settle

POOL = "lab"
#: The team with the whole guarantee, and one that borrows all of it.
OWNER, BORROWER = "ai-company/research/nlp", "ai-company/production/inference"
NODES = 2


def a_lab(tidegate: Tidegate, *folders: str) -> None:
    """Add 2 nodes of 1 virtual GPU to the demo's cluster: nlp's by guarantee, inference borrows.

    Jobs see `folders`, which the operator must list.
    """
    admin = tidegate.caller("admin")
    admin.post("/pools", {"name": POOL})
    (cluster,) = admin.get("/clusters")["items"]
    options = admin.get(f"/clusters/{cluster['id']}")["options"]
    groups = options["nodes"] if isinstance(options["nodes"], list) else [options["nodes"]]
    lab = {"count": NODES, "gpus": 1, "pool": POOL, "prefix": "lab-"}
    changed = admin.http.patch(
        f"/clusters/{cluster['id']}",
        json={"options": {**options, "nodes": [*groups, lab], "folders": list(folders)}},
    )
    assert changed.is_success, changed.text
    guaranteed = {OWNER: NODES * 1000, BORROWER: 0}
    for team, mgpu in guaranteed.items():
        for node in _with_parents(team):
            _guarantee(admin, node, mgpu)
    settle(lambda: POOL in [pool["pool"] for pool in admin.get("/clusters")["items"][0]["pools"]])


def take_back(tidegate: Tidegate, deadline_s: float = 90) -> None:
    """Let the owner of the guarantee have all GPUs of the pool, for a moment."""
    owner = tidegate.caller("ana@ai-company")
    taken = owner.submit(OWNER, nodes=NODES, gpus=1, script="exit 0", pool=POOL)
    owner.until(taken["id"], "succeeded", deadline_s=deadline_s)


def _with_parents(team: str) -> list[str]:
    parts = team.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _guarantee(admin: Caller, node: str, mgpu: int) -> None:
    if not admin.get("/quotas", node=node, pool=POOL)["items"]:
        quota = {"node": node, "pool": POOL, "guaranteed_mgpu": mgpu, "reason": "a lab"}
        admin.post("/quotas", quota)
