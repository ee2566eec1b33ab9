"""Asks the clusters of a manifest what they would refuse of it, before its job is queued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from uuid import UUID, uuid4

from clusters.models import Cluster
from clusters.trusted import check_trusted, operator_options
from connectors.kinds import ManifestTrial, TrialFinding
from connectors.protocol import RankSlot, Workload
from connectors.registry import kind_named
from jobs.submission.requests import JobRequest
from jobs.submission.resolved_requests import ResolvedRequest
from jobs.submission.sbatch_notes import NOTE_TEXT_MAX, Note, Verdict
from jobs.submission.submission import resolve
from jobs.whatif.heavy_answers import TRIALS, worked_out
from manifests.fields import path_text
from manifests.jobs import ManifestJob
from primitives.errors import PortalError, TooManyRequests
from tenants.access import Actor

#: The most clusters that are asked.
TRIED_MAX = 3
#: Seconds after which no cluster is asked any more.
WHOLE_S = 12.0
_OUT_OF_TIME = f"the trial took longer than {WHOLE_S:g} s"
_NO_SLOT = "three other manifests are being tried"
_ELSEWHERE = "; name another cluster"


def tried(request: JobRequest, *, actor: Actor) -> JobRequest:
    """Return `request` with a note for each part of its manifest that a cluster would refuse.

    The notes are refusals if no cluster of the job remains, and else warnings. A cluster that
    cannot be asked remains, with a note. It contacts clusters, so no transaction should be open.
    Other requests stay as they are.
    """
    job = request.manifest_job
    if job is None:
        return request
    try:
        resolved = resolve(request, actor=actor)
    except PortalError:
        # The submission resolves it again, and raises the same.
        return request
    known = _clusters_of(resolved)
    trials = _trials(known[:TRIED_MAX], request, actor)
    is_lost = len(known) == len(trials) and all(
        any(one.is_refusal for one in trial.findings) for _, trial in trials.values()
    )
    notes = tuple(
        dict.fromkeys(
            note
            for cluster, trial in trials.values()
            for note in _notes(cluster, trial, job, is_lost=is_lost)
        )
    )
    return request.model_copy(update={"notes": (*request.notes, *notes)})


def _trials(
    known: Sequence[tuple[ResolvedRequest, Cluster]], request: JobRequest, actor: Actor
) -> Mapping[tuple[str, UUID], tuple[Cluster, ManifestTrial]]:
    """Return the answers of the clusters; all are unchecked where too many are being asked."""
    ends_s = monotonic() + WHOLE_S
    try:
        with worked_out(TRIALS):
            return {
                (place.pool.name, cluster.pk): (
                    cluster,
                    _trial(place, cluster, request, actor, ends_s),
                )
                for place, cluster in known
            }
    except TooManyRequests:
        unchecked = ManifestTrial(unchecked=(_NO_SLOT,))
        return {(place.pool.name, cluster.pk): (cluster, unchecked) for place, cluster in known}


def _clusters_of(resolved: ResolvedRequest) -> list[tuple[ResolvedRequest, Cluster]]:
    """Return the clusters that may run the request, each with the request in its pool."""
    places = [(one, one.clusters or frozenset()) for one in resolved.in_each_pool]
    found: Mapping[str, Cluster] = {
        str(one.pk): one
        for one in Cluster.objects.filter(
            pk__in={pk for _, clusters in places for pk in clusters}, is_enabled=True
        )
    }
    return [
        (place, found[pk])
        for place, clusters in places
        for pk in sorted(clusters & found.keys(), key=lambda pk: found[pk].name)
    ]


def _trial(
    place: ResolvedRequest, cluster: Cluster, request: JobRequest, actor: Actor, ends_s: float
) -> ManifestTrial:
    kind = kind_named(cluster.kind)
    if kind.try_manifest is None:
        return ManifestTrial()
    if cluster.failing_since is not None:
        return ManifestTrial(unchecked=("it does not answer at present",))
    left_s = ends_s - monotonic()
    if left_s <= 0:
        return ManifestTrial(unchecked=(_OUT_OF_TIME,))
    workload = Workload(
        key=f"trial-{uuid4().hex[:20]}",
        name=request.name,
        pool=place.pool.name,
        user=actor.user.username,
        script=request.script,
        team=place.team.display_path,
        slots=(RankSlot("", place.mgpu_per_node),) * place.node_count_max,
        time_limit_s=request.time_limit_s,
        is_manifest=True,
    )
    try:
        check_trusted(cluster.kind, cluster.options)
        options = {**cluster.options, **operator_options(cluster.kind)}
        return kind.try_manifest(options, str(cluster.pk), workload, left_s)
    except ValueError as error:
        return ManifestTrial(unchecked=(f"its options are wrong: {error}",))


def _notes(
    cluster: Cluster, trial: ManifestTrial, job: ManifestJob, *, is_lost: bool
) -> Iterator[Note]:
    for one in trial.findings:
        yield _note(cluster, one, job, is_lost=is_lost)
    for why in trial.unchecked:
        detail = (
            f"Not everything was checked there: {why.rstrip('.')}. What its namespace refuses "
            "shows when the job starts."
        )
        yield Note(0, f"cluster {cluster.name}", Verdict.WARNING, detail)


def _note(cluster: Cluster, one: TrialFinding, job: ManifestJob, *, is_lost: bool) -> Note:
    where = f"cluster {cluster.name}: {path_text(one.path)}" if one.path else cluster.name
    verdict = Verdict.REFUSED if one.is_refusal and is_lost else Verdict.WARNING
    said = one.detail.rstrip(".") + (_ELSEWHERE if one.is_refusal and not is_lost else "")
    return Note(job.document.line_of(one.path), where[:NOTE_TEXT_MAX], verdict, said)
