"""The sizes of jobs that a person could start now in a team. The arbiter decides each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from arbiter.api.plan import Code
from clusters.models import Pool
from jobs.arbitration.snapshots import one_instant
from jobs.submission.fitting import Fleet
from jobs.submission.offers import offer_to
from jobs.submission.requests import read_job_request
from jobs.submission.submission import resolve
from jobs.whatif.heavy_answers import SIZES, worked_out
from jobs.whatif.preview import Preview, Previews, read_moment
from primitives.errors import InvalidRequest
from primitives.units import MGPU_PER_GPU, DeviceKind
from tenants.access import Actor
from tenants.models import Node

#: The most sizes of a pool: powers of two, the first is one device.
SIZES_MAX = 11
#: A placeholder, as the arbiter needs no script.
_SCRIPT = "true\n"


class StartKind(StrEnum):
    """The way in which a job of a size would start."""

    GUARANTEED = "guaranteed"
    BORROWED = "borrowed"
    RECLAIM = "reclaim"
    WAITS = "waits"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SizeStart:
    """The start of a job of `devices` on `nodes` nodes, were it submitted now.

    GUARANTEED and BORROWED start now; `borrowed_mgpu` of it is beyond the guarantee. RECLAIM starts
    by `latest`, when victims have released their GPUs. WAITS has the code of its reason. REFUSED
    would not be accepted. `sentence` says why.
    """

    devices: int
    nodes: int
    kind: StartKind
    borrowed_mgpu: int
    cluster: str | None
    latest: str | None
    code: str
    sentence: str


def starts_by_size(
    team: Node, pools: Sequence[Pool], *, actor: Actor, now: datetime
) -> Mapping[UUID, Sequence[SizeStart]]:
    """Return the starts of all sizes in `pools`, for a job without special needs; by pool.

    Sizes are powers of two up to the capacity of the largest cluster. Each of them is decided as if
    it alone were submitted. Must be outside of transactions. Raises TooManyRequests while those of
    another team are computed, and Forbidden without the right to submit.
    """
    with worked_out(SIZES):
        with one_instant():
            moment = read_moment(now)
            offer = offer_to(team, actor.user)
        previews = Previews(moment, actor=actor, now=now)
        return {
            pool.pk: [
                _start_of(team, pool, devices, nodes, previews, actor)
                for devices, nodes in sizes_of(offer.fleet(pool))
            ]
            for pool in pools
        }


def sizes_of(fleet: Fleet) -> list[tuple[int, int]]:
    """Return the sizes to try in a pool, as (devices, nodes), the smallest first.

    A job takes as few nodes as possible, with equal parts.
    """
    largest = (fleet.largest_node_mgpu() or 0) // MGPU_PER_GPU
    found: list[tuple[int, int]] = []
    for power in range(SIZES_MAX):
        devices = 1 << power
        nodes = 1
        while devices // nodes > largest and nodes < devices:
            nodes *= 2
        if devices // nodes > largest or fleet.nodes_with(devices // nodes * MGPU_PER_GPU) < nodes:
            break
        found.append((devices, nodes))
    return found


def _start_of(
    team: Node, pool: Pool, devices: int, nodes: int, previews: Previews, actor: Actor
) -> SizeStart:
    member = "cpus_per_node" if pool.kind is DeviceKind.CPU else "gpus_per_node"
    body: dict[str, Any] = {
        "team": team.display_path,
        "pool": pool.name,
        member: devices // nodes,
        "nodes": nodes,
        "script": _SCRIPT,
    }
    try:
        preview = previews.of(resolve(read_job_request(body), actor=actor))
    except InvalidRequest as error:
        return SizeStart(devices, nodes, StartKind.REFUSED, 0, None, None, "refused", str(error))
    kind = _kind_of(preview)
    estimate = preview.explanation.get("estimated_start")
    return SizeStart(
        devices,
        nodes,
        kind,
        borrowed_mgpu=preview.mgpu - preview.guaranteed_mgpu if preview.would_start_now else 0,
        cluster=preview.cluster if preview.would_start_now else None,
        latest=None if estimate is None else estimate["latest"],
        code=preview.explanation["code"],
        sentence=preview.explanation["sentence"],
    )


def _kind_of(preview: Preview) -> StartKind:
    if preview.would_start_now:
        is_guaranteed = preview.guaranteed_mgpu == preview.mgpu
        return StartKind.GUARANTEED if is_guaranteed else StartKind.BORROWED
    if not preview.fits:
        return StartKind.REFUSED
    is_reclaim = preview.explanation["code"] == Code.WAITING_FOR_RECLAIM
    return StartKind.RECLAIM if is_reclaim else StartKind.WAITS
