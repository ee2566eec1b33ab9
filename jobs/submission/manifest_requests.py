"""A request whose job is a Kubernetes manifest: what the text says, as members of the request."""

from __future__ import annotations

from typing import Any, NamedTuple

from jobs.submission.member_checks import NAME_MAX
from jobs.submission.problems import Problems
from jobs.submission.sbatch_notes import NOTE_TEXT_MAX, Note, Verdict
from jobs.submission.sizes import Size
from manifests.jobs import ManifestJob
from manifests.reading import read_manifest
from primitives.units import MGPU_PER_GPU

#: Members that a manifest has in its own words, or that it cannot have.
IN_MANIFEST = (
    *("arguments", "gpus", "gpus_per_node", "nodes", "gpus_min", "nodes_min", "cpus_per_node"),
    *("memory_mib_per_node", "environment", "features", "image", "required_topology"),
    *("preferred_topology", "notice_signal", "ntasks", "ntasks_per_node", "cpus_per_task"),
    *("gpus_per_task", "signal_ahead_s", "signals_shell_only", "folder", "output_file"),
    *("error_file", "appends_output"),
)


class ManifestReading(NamedTuple):
    """A manifest with its notes. `job` is None where it is refused.

    `class_note` is the number of the note on its priority class, None without one.
    """

    job: ManifestJob | None
    notes: tuple[Note, ...]
    size: Size
    class_note: int | None


def take_manifest(given: dict[str, Any], text: str, problems: Problems) -> ManifestReading:
    """Read the manifest `text`, and take its name, image and time limit over into `given`."""
    for name in IN_MANIFEST:
        if given.pop(name, None) is not None:
            problems.fail(name, "is not given beside a manifest; change it in the manifest")
    if given.pop("array", None) is not None:
        problems.fail("array", "is of scripts; in a Job, completions runs a Pod for each index")
    if given.get("launch") not in (None, "manifest"):
        problems.fail("launch", "is manifest for a manifest; leave it out")
        del given["launch"]
    problems.source = "manifest"
    found = read_manifest(text)
    notes = [
        Note(one.line, one.where[:NOTE_TEXT_MAX], Verdict(one.verdict.value), one.detail)
        for one in found.findings
    ]
    job = found.job
    if job is None or job.gpus is None or not found.is_accepted:
        return ManifestReading(None, tuple(notes), Size(), None)
    if job.name:
        given.setdefault("name", job.name[:NAME_MAX])
    if job.time_limit_s is not None:
        limit_s = given.setdefault("time_limit_s", job.time_limit_s)
        # A limit of another type stays, and is refused with the other members.
        if isinstance(limit_s, int) and not isinstance(limit_s, bool):
            given["time_limit_s"] = min(limit_s, job.time_limit_s)
    if images := job.holders[0].needs.images:
        given["image"] = images[0]
        problems.lines["image"] = job.document.line_of(job.holders[0].template)
    class_note = None
    if job.priority_class is not None and "priority_class" not in given:
        class_note = len(notes)
        notes.append(Note(0, f"priority class {job.priority_class}"[:80], Verdict.IGNORED, ""))
    size = Size(
        # By Pod, and in units of the resource. Its pool gives the final size.
        mgpu_per_node=job.gpus.units * MGPU_PER_GPU,
        node_count=job.nodes,
        node_count_min=job.nodes_min if job.nodes_min < job.nodes else None,
    )
    return ManifestReading(job, tuple(notes), size, class_note)
