"""Warnings about scripts that use what the clusters of the job do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from clusters.models import Cluster
from connectors.registry import kind_named
from connectors.software import software_of
from jobs.actions.job_tokens import reaches_portal
from jobs.models import Launch
from jobs.submission.pool_places import PoolPlace
from jobs.submission.requests import JobRequest
from jobs.submission.sbatch_notes import NOTE_TEXT_MAX, Note, Verdict
from jobs.submission.script_needs import Need, NeedKind, needs_of
from primitives.durations import duration_of_seconds

WARNINGS_MAX = 20
_NAMED_MAX = 3
#: Commands that work inside of batch jobs of clusters without Slurm.
_OWN_COMMANDS = frozenset({"srun", "scontrol", "squeue", "sbatch", "scancel"})
#: The options that the plugin pyxis adds to `srun`.
_OF_PYXIS = "--container-"
_ASKING_THE_PORTAL = frozenset({"squeue", "sbatch", "scancel"})


def warnings_of(request: JobRequest, places: Sequence[PoolPlace]) -> tuple[Note, ...]:
    """Return a note for each thing that the script needs and a cluster of the job may lack.

    They are warnings: the script may bring the thing itself, or never reach the line.
    """
    clusters = list(
        {
            cluster.pk: cluster
            for place in places
            for pk, (cluster, _) in place.refusals.items()
            if place.clusters is None or pk in place.clusters
        }.values()
    )
    if not clusters:
        return ()
    notes = [*_of_notice(request), *_of_files(request, clusters)]
    # The programs and folders of a manifest are those of its images.
    needs = () if request.manifest_job else needs_of(request.script)
    if unknown := _of_unknown_folders(needs, clusters):
        notes.append(unknown)
    for need in needs:
        detail = _detail(need, clusters, is_batch=request.launch is Launch.BATCH)
        if detail:
            notes.append(Note(need.line, need.text[:NOTE_TEXT_MAX], Verdict.WARNING, detail))
        if len(notes) == WARNINGS_MAX:
            break
    return tuple(notes)


def _of_files(request: JobRequest, clusters: Sequence[Cluster]) -> Iterator[Note]:
    """Yield a note for each folder and file of the request that a cluster lacks or ignores."""
    named = {
        "folder": request.folder,
        "output_file": request.output_file,
        "error_file": request.error_file,
    }
    ignoring = [one for one in clusters if not kind_named(one.kind).writes_own_files]
    others = [one for one in clusters if one not in ignoring]
    for member, path in named.items():
        if path is None:
            continue
        origin = request.origins.get(member)
        note = Note(0, "", Verdict.WARNING, "") if origin is None else request.notes[origin]
        if ignoring:
            yield replace(note, verdict=Verdict.WARNING, detail=_ignored(member, path, ignoring))
        folder = path.partition("%")[0].rpartition("/")[0] if member != "folder" else path
        lacking = [
            one for one in others if software_of(one.options).has_folder(folder or "/") is False
        ]
        if path.startswith("/") and lacking:
            detail = (
                f"{path[:120]} is in no shared folder of {_names(lacking)}. Use a shared folder, "
                "or choose another cluster."
            )
            yield replace(note, verdict=Verdict.WARNING, detail=detail)
        silent = [one for one in others if software_of(one.options).folders is None]
        if path.startswith("/") and silent:
            detail = (
                f"It is not known whether {_names(silent)} {_have(silent, 'has', 'have')} "
                f"{(folder or '/')[:120]}. An administrator names the folders that every node sees "
                "in `shared_folders`."
            )
            yield replace(note, verdict=Verdict.WARNING, detail=detail)


def _of_notice(request: JobRequest) -> Iterator[Note]:
    """Yield a note where the notice was asked for earlier than half of the time limit allows."""
    limit_s, ahead_s = request.time_limit_s, request.signal_ahead_s
    if limit_s is None or ahead_s is None or 2 * ahead_s <= limit_s:
        return
    origin = request.origins.get("signal_ahead_s")
    note = Note(0, "", Verdict.WARNING, "") if origin is None else request.notes[origin]
    detail = (
        f"The notice comes {duration_of_seconds(limit_s // 2)} before the time limit of "
        f"{duration_of_seconds(limit_s)}, not {duration_of_seconds(ahead_s)}: half of the limit is "
        "the most. Ask for a longer time limit, or for less time."
    )
    yield replace(note, verdict=Verdict.WARNING, detail=detail)


def _ignored(member: str, path: str, clusters: Sequence[Cluster]) -> str:
    if member == "folder":
        return (
            f"The script does not start in {path[:120]} on {_names(clusters)}. Write "
            "`cd FOLDER` into the script, or choose another cluster."
        )
    return (
        f"{path[:120]} is not written on {_names(clusters)}, where files end with the job. See "
        "`tidegate logs`, or choose another cluster."
    )


def _detail(need: Need, clusters: Sequence[Cluster], *, is_batch: bool) -> str:
    """Return why the need may not be met, and what to do; "" where it is met everywhere."""
    match need.kind:
        case NeedKind.PROGRAM:
            return _of_software(
                f"`{need.name}`",
                clusters,
                lambda cluster: software_of(cluster.options).has_program(need.name),
                "Load the software in another way, or choose a cluster that has it",
            )
        case NeedKind.FOLDER:
            lacking = [
                cluster
                for cluster in clusters
                if software_of(cluster.options).has_folder(need.name) is False
            ]
            return _where(
                lacking,
                f"{need.name} is in no shared folder of {{}}. Use a shared folder, or choose "
                "another cluster.",
            )
        case NeedKind.SLURM_COMMAND:
            return _of_command(need.name, _without_slurm(clusters), is_batch=is_batch)
        case NeedKind.SRUN_OPTION:
            lacking = _without_slurm(clusters) if is_batch else []
            said = [f"`srun` fails on {_names(lacking)}: {need.name}"] if lacking else []
            if need.name.startswith(_OF_PYXIS) and (silent := _without_images(clusters)):
                said.append(
                    f"It is not known whether {_names(silent)} {_have(silent, 'has', 'have')} "
                    "pyxis, without which `srun` fails. An administrator names it in `containers`."
                )
            return " ".join(said)
        case NeedKind.SLURM_VARIABLE:
            lacking = [] if is_batch else _without_slurm(clusters)
            return _where(
                lacking,
                f"{need.name} is not set on {{}}, where this script runs once on every node. Use "
                "RANK, WORLD_SIZE and NODE_RANK, or launch = batch.",
            )


def _of_unknown_folders(needs: Sequence[Need], clusters: Iterable[Cluster]) -> Note | None:
    """Return one note for all folders of which nobody has said whether the clusters have them.

    Most scripts name some, so a note for each would hide the others.
    """
    silent = [one for one in clusters if software_of(one.options).folders is None]
    folders = [need for need in needs if need.kind is NeedKind.FOLDER]
    if not silent or not folders:
        return None
    first = folders[0]
    detail = (
        f"It is not known whether {_names(silent)} {_have(silent, 'has', 'have')} "
        f"{_listed(need.name for need in folders)}. An administrator names the folders that every "
        "node sees in `shared_folders`."
    )
    return Note(first.line, first.text[:NOTE_TEXT_MAX], Verdict.WARNING, detail)


def _where(clusters: Sequence[Cluster], sentence: str) -> str:
    """Return `sentence` about the clusters; "" where there are none."""
    return sentence.format(_names(clusters)) if clusters else ""


def _of_software(
    what: str, clusters: Iterable[Cluster], has: Callable[[Cluster], bool | None], advice: str
) -> str:
    known = {cluster: has(cluster) for cluster in clusters}
    lacking = [cluster for cluster, answer in known.items() if answer is False]
    unknown = [cluster for cluster, answer in known.items() if answer is None]
    said = []
    if lacking:
        said.append(f"{_names(lacking)} {_have(lacking, 'does', 'do')} not have {what}")
    if unknown:
        said.append(
            f"it is not known whether {_names(unknown)} {_have(unknown, 'has', 'have')} {what}"
        )
    text = "; ".join(said)
    if not lacking:
        # The name of a cluster, which may begin the sentence, stays as it is.
        text = text.replace("it", "It", 1)
    return f"{text}. {advice}." if text else ""


def _of_command(name: str, clusters: Sequence[Cluster], *, is_batch: bool) -> str:
    if not clusters:
        return ""
    if name not in _OWN_COMMANDS:
        return f"`{name}` does not exist on {_names(clusters)}. Use the `tidegate` command instead."
    if not is_batch:
        return (
            f"`{name}` works only in batch jobs on {_names(clusters)}. Give launch = batch, or "
            "start the program directly."
        )
    silent = [one for one in clusters if not reaches_portal(one)]
    if name in _ASKING_THE_PORTAL and silent:
        return f"`{name}` has no access to the portal on {_names(silent)}."
    return ""


def _without_images(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Return the clusters with Slurm's own commands of which nobody said that they run images."""
    return [
        cluster
        for cluster in clusters
        if (kind := kind_named(cluster.kind)).has_slurm_commands
        and not kind.runs_images(cluster.options)
    ]


def _without_slurm(clusters: Iterable[Cluster]) -> list[Cluster]:
    return [cluster for cluster in clusters if not kind_named(cluster.kind).has_slurm_commands]


def _names(clusters: Sequence[Cluster]) -> str:
    return _listed(sorted(cluster.name for cluster in clusters))


def _listed(names: Iterable[str]) -> str:
    """Return the first names, and the number of the others."""
    first = list(names)
    more = len(first) - _NAMED_MAX
    return ", ".join(first[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _have(clusters: Sequence[Cluster], one: str, many: str) -> str:
    return one if len(clusters) == 1 else many
