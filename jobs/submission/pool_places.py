"""Where a request may run in one pool: the clusters that its pin, image and limits leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from arbiter.explain.phrases import duration_text
from clusters.models import Cluster, Pool
from connectors.registry import kind_named
from jobs.models import Launch
from jobs.submission.fitting import Fleet
from jobs.submission.offers import Offer
from jobs.submission.requests import JobRequest, settled
from jobs.submission.resolved_requests import size_pointer
from jobs.submission.sbatch_notes import Note, Verdict
from primitives.errors import FieldError, InvalidRequest
from primitives.units import gpus_text


class PoolPlace(NamedTuple):
    """A pool, and the clusters in it where the request may run.

    `cluster` is the pinned cluster. `clusters` are the ids to which the request is restricted
    (None: any). `refusals` has all clusters with the pool by id, each with why it cannot run the
    image.
    """

    pool: Pool
    cluster: Cluster | None
    clusters: frozenset[str] | None
    refusals: Mapping[str, tuple[Cluster, str]]


def place_in(
    request: JobRequest,
    offer: Offer,
    pool: Pool,
    notes: tuple[Note, ...],
    errors: list[FieldError],
) -> tuple[PoolPlace, tuple[Note, ...]]:
    """Return where in `pool` the request may run, by its cluster and image."""
    cluster, clusters = None, None
    if request.cluster is not None:
        cluster = _cluster(request.cluster, pool, errors)
        clusters = None if cluster is None else frozenset({str(cluster.pk)})
    refusals = _image_refusals(request, offer.fleet(pool), pool, cluster)
    running = frozenset(pk for pk, (_, why) in refusals.items() if not why)
    if running:
        clusters = running if len(running) < len(refusals) or request.image else clusters
    elif request.image_note is not None:
        detail = _no_image_runs(refusals, pool, cluster)
        notes = settled(notes, request.image_note, Verdict.REFUSED, f"{detail}.")
    elif refusals or request.image is not None:
        detail = _no_image_runs(refusals, pool, cluster)
        errors.append(FieldError("/image", detail, "unavailable"))
    return PoolPlace(pool, cluster, clusters, refusals), notes


def _cluster(name: str, pool: Pool, errors: list[FieldError]) -> Cluster | None:
    cluster = Cluster.objects.filter(name=name, nodes__pool=pool).distinct().first()
    if cluster is not None and cluster.archived_at is not None:
        detail = f"{cluster.name} is archived and takes no jobs; name another cluster, or none"
        errors.append(FieldError("/cluster", detail, "archived"))
    elif cluster is None:
        errors.append(
            FieldError("/cluster", f"there is no cluster {name[:60]!r} with {pool.name}", "unknown")
        )
    return cluster


def _image_refusals(
    request: JobRequest, fleet: Fleet, pool: Pool, pinned: Cluster | None
) -> dict[str, tuple[Cluster, str]]:
    """Return by cluster id why the cluster cannot run the job's image, or a job without one.

    A manifest without an image has that of its runtime on the cluster. Where no manifests run, the
    image is not the reason.

    It covers the clusters with nodes of the pool, or only the pinned one. The reason is "" where
    the cluster can run it. One query.
    """
    image = request.image
    is_manifest = request.launch == Launch.MANIFEST
    is_of_runtime = image is None and is_manifest
    known = fleet.sizes.keys() if pinned is None else {str(pinned.pk)}
    return {
        str(cluster.pk): (
            cluster,
            ""
            if is_of_runtime
            or (is_manifest and not kind_named(cluster.kind).runs_manifests(cluster.options))
            else kind_named(cluster.kind).image_refusal(cluster.options, pool.name, image),
        )
        for cluster in Cluster.objects.filter(pk__in=known).order_by("name")
    }


def _no_image_runs(
    refusals: Mapping[str, tuple[Cluster, str]], pool: Pool, pinned: Cluster | None
) -> str:
    """Return why no cluster runs the job because of its image, and what to do.

    Clusters that run images name an acceptable image. The others matter only if none of those
    exists.
    """
    told = [
        f"{cluster}: {why}"
        for cluster, why in refusals.values()
        if kind_named(cluster.kind).refuse_image is not None and why
    ]
    if told:
        return "; ".join(told[:3]) + (" and more" if len(told) > 3 else "")
    who = f"no cluster with {pool.name} runs" if pinned is None else f"{pinned} does not run"
    return f"{who} container images; leave the image out and let the script bring its software" + (
        "" if pinned is None else ", or choose another cluster"
    )


def allowing_time(request: JobRequest, place: PoolPlace) -> PoolPlace:
    """Return `place` without the clusters whose time limit in the pool is too short.

    Raises InvalidRequest if no cluster is left.
    """
    pool, pinned, clusters, known = place
    asked_s = request.time_limit_s
    limits = {
        pk: limit_s
        for pk, (cluster, _) in known.items()
        if (clusters is None or pk in clusters)
        and (limit_s := cluster.time_limits.get(pool.name)) is not None
    }
    if asked_s is None or all(limit_s >= asked_s for limit_s in limits.values()):
        return place
    allowing = frozenset(
        pk for pk in (known if clusters is None else clusters) if limits.get(pk, asked_s) >= asked_s
    )
    if allowing:
        return place._replace(clusters=allowing)
    who = f"no cluster with {pool.name} lets" if pinned is None else f"{pinned} does not let"
    detail = (
        f"{who} a job run for {duration_text(asked_s)}; the longest time limit there is "
        f"{duration_text(max(limits.values()))}"
    )
    raise InvalidRequest(
        f"time_limit_s: {detail}", errors=[FieldError("/time_limit_s", detail, "unavailable")]
    )


def running_batch(request: JobRequest, nodes: int, place: PoolPlace) -> PoolPlace:
    """Return `place` without the clusters that run no batch job on so many nodes.

    Raises InvalidRequest if no cluster is left.
    """
    pool, pinned, clusters, known = place
    if request.launch is not Launch.BATCH:
        return place
    most = {
        pk: kind_named(cluster.kind).batch_nodes_max
        for pk, (cluster, _) in known.items()
        if clusters is None or pk in clusters
    }
    running = frozenset(pk for pk, limit in most.items() if limit is None or nodes <= limit)
    if len(running) == len(most):
        return place
    if running:
        return place._replace(clusters=running)
    who = f"no cluster with {pool.name} runs" if pinned is None else f"{pinned} does not run"
    detail = (
        f"{who} a batch script on {nodes} nodes; give launch = per_node, with which the script "
        "runs once on every node, or ask for one node"
    )
    raise InvalidRequest(f"launch: {detail}", errors=[FieldError("/launch", detail, "unavailable")])


def check_units(request: JobRequest, mgpu_per_node: int, place: PoolPlace) -> None:
    """Raise InvalidRequest if none of the usable clusters can cut GPUs as requested."""
    pool, pinned, clusters, known = place
    units = [
        kind_named(cluster.kind).gpu_unit_mgpu(cluster.options, pool.name)
        for pk, (cluster, _) in known.items()
        if clusters is None or pk in clusters
    ]
    if not units or any(mgpu_per_node % unit == 0 for unit in units):
        return
    who = f"no cluster with {pool.name} gives" if pinned is None else f"{pinned} does not give"
    detail = (
        f"{who} a node of a job {pool.kind.text(mgpu_per_node)}; ask for a multiple of "
        f"{gpus_text(min(units))} on each node"
        + ("" if pinned is None else ", or choose another cluster")
    )
    pointer = size_pointer(request)
    raise InvalidRequest(
        f"{pointer.removeprefix('/')}: {detail}",
        errors=[FieldError(pointer, detail, "unavailable")],
    )
