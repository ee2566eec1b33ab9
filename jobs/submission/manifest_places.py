"""Where a manifest may run: the pools and clusters that have what its Pods ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from arbiter.api.snapshot import Level
from clusters.models import Cluster, Pool
from connectors.kinds import ManifestPlace
from connectors.registry import kind_named
from jobs.submission.offers import Offer
from jobs.submission.pool_places import PoolPlace
from jobs.submission.requests import JobRequest
from jobs.submission.sbatch_notes import Note, Verdict
from jobs.submission.sizes import Size
from manifests.jobs import ManifestJob
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind

_LISTED_MAX = 3


def pools_for(job: ManifestJob, offer: Offer) -> tuple[str, ...]:
    """Return the offered pools in which some cluster runs `job`.

    Raises InvalidRequest, with the reason of each cluster, if there is none.
    """
    fleets = {name: offer.fleet(pool).sizes.keys() for name, pool in offer.pools.items()}
    known = {
        str(one.pk): one
        for one in Cluster.objects.filter(
            pk__in={pk for clusters in fleets.values() for pk in clusters}, archived_at=None
        ).order_by("name")
    }
    places = {
        (name, pk): _place_on(known[pk], name, job)
        for name, clusters in fleets.items()
        for pk in sorted(clusters, key=lambda pk: known[pk].name if pk in known else "")
        if pk in known
    }
    fitting = tuple(dict.fromkeys(name for (name, _), place in places.items() if not place.refusal))
    selected = {offer.pool_named(value) for value in _products(job)}
    if both := tuple(name for name in fitting if name in selected):
        fitting = both
    if not fitting:
        raise _refused({f"{known[pk].name}: {one.refusal}": one for (_, pk), one in places.items()})
    return fitting


def _products(job: ManifestJob) -> Iterator[str]:
    """Yield the GPU types that the Pods select, such as "NVIDIA-H100-80GB-HBM3"."""
    for pods in job.holders:
        for label, value in pods.needs.node_selector.items():
            if label.endswith("/gpu.product"):
                yield value


class Placed(NamedTuple):
    """The request with the manifest's size and topology in its pools, and the places there.

    `note` says how the Pods are planned.
    """

    request: JobRequest
    note: Note
    places: list[PoolPlace]


def placed(
    request: JobRequest, job: ManifestJob, offer: Offer, places: Sequence[PoolPlace]
) -> Placed:
    """Return `places` without the clusters that do not run `job`, and its size there.

    A unit of its resource is a part of a GPU in some pools. Raises InvalidRequest if a pool has no
    cluster left, or if the pools have units of several sizes.
    """
    left: list[PoolPlace] = []
    units: dict[int, None] = {}
    first: ManifestPlace | None = None
    for place in places:
        pool, _, clusters, known = place
        found = {
            pk: (cluster, _place_on(cluster, pool.name, job))
            for pk, (cluster, _) in known.items()
            if clusters is None or pk in clusters
        }
        running = {pk: one for pk, one in found.items() if not one[1].refusal}
        if not running:
            raise _refused(
                {f"{cluster.name}: {one.refusal}": one for cluster, one in found.values()},
                "" if place.cluster is None else _elsewhere(job, offer, pool),
            )
        for cluster, one in running.values():
            units[kind_named(cluster.kind).gpu_unit_mgpu(cluster.options, pool.name)] = None
            first = first or one
        left.append(place._replace(clusters=frozenset(running)))
    assert first is not None
    assert job.gpus is not None
    if len(units) > 1:
        detail = (
            f"a {job.gpus.name} is a GPU in one pool or cluster and a part of one in another; name "
            "one pool, or one cluster"
        )
        raise InvalidRequest(f"pool: {detail}", errors=[FieldError("/pool", detail)])
    each_mgpu = job.gpus.units * next(iter(units))
    largest_mgpu = min(
        (
            largest
            for place in left
            if (largest := offer.fleet(place.pool).largest_node_mgpu(place.clusters)) is not None
        ),
        default=each_mgpu,
    )
    size = _grouped(job, each_mgpu, largest_mgpu)
    sized = request.model_copy(
        update={
            "size": size,
            "required_topology": _level(first.required_topology),
            "preferred_topology": _level(first.preferred_topology),
        }
    )
    return Placed(sized, _note_on(job, each_mgpu, largest_mgpu, size), left)


def _grouped(job: ManifestJob, each_mgpu: int, largest_mgpu: int) -> Size:
    """Return the size of `job` in equal nodes, each for as many of its Pods as it can hold.

    Several Pods may share a node, and the scheduler plans each node of a job on a different one.
    """
    least, most = job.nodes_min, job.nodes
    common = gcd(least, most)
    together = max(
        (
            count
            for count in range(1, common + 1)
            if common % count == 0 and count * each_mgpu <= largest_mgpu
        ),
        default=1,
    )
    return Size(
        mgpu_per_node=each_mgpu * together,
        node_count=most // together,
        node_count_min=least // together if least < most else None,
    )


def _note_on(job: ManifestJob, each_mgpu: int, largest_mgpu: int, size: Size) -> Note:
    assert size.mgpu_per_node is not None
    assert size.node_count is not None
    pods = f"{job.nodes:,} Pods" if job.nodes > 1 else "1 Pod"
    if job.nodes_min < job.nodes:
        pods = f"{job.nodes_min:,} to {pods}"
    each = " each" if job.nodes > 1 else ""
    detail = (
        f"{pods} with {DeviceKind.GPU.text(each_mgpu)}{each}. The job is planned with "
        f"{DeviceKind.GPU.text(size.mgpu_per_node)} on each node, and its cluster places each Pod."
    )
    fitting = max(1, largest_mgpu // each_mgpu)
    if size.node_count > -(-job.nodes // fitting):
        detail += (
            f" Each node gets equally many Pods, so the job needs {size.node_count:,} nodes at "
            f"once; a multiple of {fitting} Pods fills its nodes."
        )
    return Note(0, "", Verdict.UNDERSTOOD, detail)


def _level(name: str | None) -> Level | None:
    return None if name is None else Level(name)


def _place_on(cluster: Cluster, pool: str, job: ManifestJob) -> ManifestPlace:
    return kind_named(cluster.kind).place_manifest(cluster.options, pool, job)


def _elsewhere(job: ManifestJob, offer: Offer, pool: Pool) -> str:
    """Return what to do where the named cluster does not run `job`."""
    clusters = Cluster.objects.filter(pk__in=offer.fleet(pool).sizes.keys(), archived_at=None)
    names = [one.name for one in clusters.order_by("name") if not _refusal(one, pool, job)]
    if not names:
        return ""
    return f"; name no cluster, or one that runs it: {', '.join(names[:_LISTED_MAX])}"


def _refusal(cluster: Cluster, pool: Pool, job: ManifestJob) -> str:
    return _place_on(cluster, pool.name, job).refusal


def _refused(reasons: Mapping[str, object], advice: str = "") -> InvalidRequest:
    """Return the refusal with the reason of each cluster, and what to do."""
    listed = "; ".join(list(reasons)[:_LISTED_MAX]) or "there is no cluster with a pool of yours"
    more = "; and more" if len(reasons) > _LISTED_MAX else ""
    detail = f"{listed}{more}{advice}" if advice else f"no cluster runs it ({listed}{more})"
    return InvalidRequest(
        f"manifest: {detail}", errors=[FieldError("/manifest", detail, "unavailable")]
    )
