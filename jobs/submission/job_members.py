"""The members of a job request, each declared once.

The declaration of a member says its name, type, bounds, default and help. From it follow:

- what `POST /jobs` accepts and what it says of errors (`jobs.submission.requests`),
- OpenAPI, and with it the types of the frontend (`jobs.api.openapi`),
- for a member that is `Stored`: the job's column that stores it, the pages and plans that show it,
  and the alternatives that ask for it again.

A stored member needs a column of its name in `jobs.models.Job`, and nothing else here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from arbiter.api.snapshot import Level
from connectors.workload_checks import ARGUMENTS_MAX, PATH_CHARACTERS_MAX, RANKS_MAX
from jobs.models import (
    COST_CAP_NANO_MAX,
    CPUS_PER_NODE_MAX,
    MEMORY_MIB_PER_NODE_MAX,
    POOLS_MAX,
    REQUEUE_CAUSES_MAX,
    REQUEUES_DEFAULT,
    REQUEUES_MAX,
    SIGNAL_AHEAD_S_MAX,
    TOPOLOGIES,
    JobType,
    Launch,
)
from jobs.submission import member_checks as checks
from jobs.submission.array_text import TASKS_MAX, TEXT_MAX, ArrayShape
from jobs.submission.member_checks import (
    DependencyRequest,
    Wish,
    checked,
    one_line,
    one_of,
    text_of,
)
from jobs.submission.sbatch_values import FEATURE, NOTICE_SIGNALS
from primitives.durations import duration_of_seconds

TIME_LIMIT_S_MAX = 31_536_000
TASKS_OF_JOB_MAX = 10_000
TIME_LIMIT_MAX = duration_of_seconds(TIME_LIMIT_S_MAX)

#: The name of an object.
_Name = Annotated[str, one_line(1_000)]
_Gpus = Annotated[
    float, checked(checks.gpus, Annotated[float, Field(json_schema_extra={"format": "double"})])
]
_JobName = Annotated[str, checked(checks.job_name, text_of(checks.NAME_MAX))]
_Path = Annotated[str, checked(checks.checkpoint_path, text_of(checks.CHECKPOINT_PATH_MAX))]
_File = Annotated[str, one_line(PATH_CHARACTERS_MAX)]
_Image = Annotated[str, checked(checks.image, text_of(checks.IMAGE_MAX))]
_Array = Annotated[ArrayShape, checked(checks.array_shape, text_of(TEXT_MAX))]
_Topology = Annotated[Level, one_of(TOPOLOGIES, Level)]
_Signal = Annotated[str, one_of(NOTICE_SIGNALS)]


@dataclass(frozen=True, slots=True)
class Stored:
    """Marks a member that is stored in a column of the job with the same name, and shown.

    `help` describes it where it is shown. With `in_lists` False it is left out of lists.
    """

    help: str = ""
    in_lists: bool = True


class JobMembers(BaseModel):
    """A request for a job.

    - Size: `gpus` in total (Tidegate chooses the nodes if `nodes` is absent), or `gpus_per_node`
      and `nodes`. In a pool of CPU cores: `cpus_per_node` and `nodes`.
    - Content: `script`, `sbatch` with `#SBATCH` directives, or `manifest`. Other members of the
      request override the directives. A manifest has its own size, image and environment.
    """

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True
    )

    team: _Name = Field(description="Path: `ai-company/research/nlp`")
    template: _Name | None = Field(
        None,
        description="Id of a template of the team (`GET /job-templates`). Its members count where "
        "the request gives none. A member that the template locks is left out",
    )
    name: _JobName | None = None
    pool: _Name | None = Field(None, description="Optional if there is only one")
    pools: Annotated[
        tuple[str, ...],
        checked(checks.pools, Annotated[list[str], Field(min_length=1, max_length=POOLS_MAX)]),
    ] = Field(
        (),
        description="Several acceptable pools instead of `pool`, the preferred first. The job "
        "starts in one of them, and counts there for quota, fair-share and price",
    )
    gpus: _Gpus | None = Field(None, description="At most three decimals")
    gpus_per_node: _Gpus | None = None
    nodes: int | None = Field(None, ge=1, le=RANKS_MAX)
    gpus_min: _Gpus | None = Field(
        None,
        description="Makes the job elastic: it starts with as many GPUs as are available, from "
        "`gpus_min` to `gpus`; both are whole GPUs",
    )
    nodes_min: int | None = Field(
        None, ge=1, le=RANKS_MAX, description="The same in nodes, together with `nodes`"
    )
    # These three are read before the others, by `jobs.submission.requests`.
    script: str | None = Field(None, description="At most 1 MiB of UTF-8")
    sbatch: str | None = Field(None, description="At most 1 MiB of UTF-8")
    script_file: _JobName | None = Field(
        None,
        description="The name of the file that the script came from. It names a job without a "
        "`name`, as it does for `sbatch`",
    )
    manifest: str | None = Field(
        None,
        description="A Kubernetes manifest (YAML or JSON) instead of `script`: a Job, JobSet, Pod, "
        "PyTorchJob, MPIJob, TrainJob, RayJob or RayCluster, and the ResourceClaimTemplates that "
        "it names. It says itself what its size is. At most 256 KiB",
    )
    launch: Annotated[
        Annotated[Launch, one_of(Launch, Launch)] | None,
        Stored(
            "Whether the script runs once, on the first node, or on every node, or is a manifest"
        ),
    ] = Field(
        None,
        description="`batch`: the script runs once, on the first node, and starts tasks on the "
        "others with `srun`, as under Slurm. `per_node`: it runs once on every node. `manifest`: "
        "the objects of a Kubernetes manifest run as they are. Default: `manifest` for a "
        "`manifest`, `batch` for an `sbatch` text with `#SBATCH` lines, else `per_node`",
    )
    arguments: Annotated[
        tuple[str, ...],
        checked(
            checks.arguments,
            Annotated[list[str], Field(max_length=ARGUMENTS_MAX)],
        ),
        Stored("Arguments of the script", in_lists=False),
    ] = Field((), description="Arguments of the script")
    folder: Annotated[_File | None, Stored("Folder in which the script starts", in_lists=False)] = (
        Field(
            None,
            description="Folder in which the script starts, as Slurm's `--chdir`. A relative one "
            "is made below the job's own folder",
        )
    )
    output_file: Annotated[
        _File | None, Stored("File with the script's output", in_lists=False)
    ] = Field(
        None,
        description="File that gets the script's output beside the log, with the patterns of "
        "Slurm's `--output`: `logs/%x-%j.out`. Without `error_file`, it gets the errors, too",
    )
    error_file: Annotated[_File | None, Stored("File with the script's errors", in_lists=False)] = (
        Field(None, description="File that gets the script's errors, as Slurm's `--error`")
    )
    appends_output: Annotated[
        bool, Stored("Whether output is added to existing files", in_lists=False)
    ] = Field(
        False,
        description="Adds to these files where they exist, as Slurm's `--open-mode=append`. "
        "Without it, each start empties them",
    )
    ntasks: Annotated[int | None, Stored("Tasks of a batch job", in_lists=False)] = Field(
        None, ge=1, le=TASKS_OF_JOB_MAX, description="Of a batch job: how many tasks `srun` starts"
    )
    ntasks_per_node: Annotated[
        int | None, Stored("Tasks of a batch job on each node", in_lists=False)
    ] = Field(None, ge=1, le=TASKS_OF_JOB_MAX, description="Of a batch job: the same by node")
    cpus_per_task: Annotated[
        int | None, Stored("CPUs of each task of a batch job", in_lists=False)
    ] = Field(None, ge=1, le=CPUS_PER_NODE_MAX, description="Of a batch job: CPUs of each task")
    gpus_per_task: Annotated[
        int | None, Stored("GPUs of each task of a batch job", in_lists=False)
    ] = Field(None, ge=1, le=1_024, description="Of a batch job: GPUs that each task sees")
    time_limit: str | None = Field(
        None, description="Duration with a unit: 90s, 30m, 2h, 1d12h, or hours:minutes:seconds"
    )
    time_limit_s: Annotated[int | None, Stored()] = Field(
        None,
        ge=1,
        le=TIME_LIMIT_S_MAX,
        description="The same in seconds, instead of `time_limit`",
    )
    priority_class: _Name | None = Field(None, json_schema_extra={"default": "normal"})
    type: Annotated[JobType, one_of(JobType, JobType)] | None = None
    environment: Annotated[Mapping[str, str], checked(checks.environment, dict[str, str])] = Field(
        default_factory=dict
    )
    is_preemptible: Annotated[bool, Stored()] = False
    is_requeueable: Annotated[bool, Stored()] = True
    requeue_on: Annotated[
        tuple[str, ...],
        checked(
            checks.requeue_on,
            Annotated[
                list[Annotated[str, Field(pattern="^(time_limit|[1-9][0-9]{0,2})$")]],
                Field(max_length=REQUEUE_CAUSES_MAX),
            ],
        ),
        Stored("Further ends after which the job is queued again", in_lists=False),
    ] = Field(
        (),
        description="Further ends after which the job is queued again, beside preemptions and "
        "faults of the cluster (`is_requeueable`): `time_limit`, or an exit code from 1 to 255",
    )
    requeue_max: Annotated[
        int, Stored("How often it is queued again after an end in `requeue_on`", in_lists=False)
    ] = Field(
        REQUEUES_DEFAULT,
        ge=1,
        le=REQUEUES_MAX,
        description="How often the job is queued again after an end in `requeue_on`. Then this "
        "end is its own",
    )
    cost_cap_nano: Annotated[
        int | None,
        Stored("The charge at which the job is stopped, in nano-currency", in_lists=False),
    ] = Field(
        None,
        ge=1,
        le=COST_CAP_NANO_MAX,
        description="The charge at which the job gets its notice and ends, in nano-currency of "
        "the organization's rate card. All its attempts count",
    )
    checkpoint_path: Annotated[_Path | None, Stored()] = Field(None, description="Absolute path")
    cluster: _Name | None = Field(None, description="Pin the job to this cluster")
    features: Annotated[
        tuple[str, ...],
        checked(
            checks.features,
            Annotated[
                list[Annotated[str, Field(pattern=FEATURE.pattern)]],
                Field(max_length=checks.FEATURES_MAX),
            ],
        ),
        Stored("Features that each of its nodes must have"),
    ] = Field((), description="Features that each of its nodes must have")
    image: Annotated[_Image | None, Stored("Container image")] = Field(
        None,
        description="Container image, on clusters that support containers: "
        "`nvcr.io#nvidia/pytorch:24.05-py3`, `docker://...`, or the path of a .sqsh file",
    )
    required_topology: Annotated[
        _Topology | None, Stored("All its nodes are in one such domain; it waits until they can be")
    ] = Field(
        None,
        description="All its nodes must be in one such domain; the job waits until they can be",
    )
    preferred_topology: Annotated[
        _Topology | None,
        Stored("All its nodes are in one such domain if possible, else as close as possible"),
    ] = Field(
        None,
        description="All its nodes should be in one such domain, else as close together as "
        "possible; not together with `required_topology`",
    )
    cpus_per_node: Annotated[
        int | None,
        Stored(
            "null: the default for its GPUs on that node. In a pool of CPU cores: "
            "`mgpu_per_node` in whole cores, rounded down"
        ),
    ] = Field(
        None,
        ge=1,
        le=CPUS_PER_NODE_MAX,
        description="CPUs on each node, instead of the default for its GPUs. In a pool of CPU "
        "cores, without GPUs: the cores that count for quota and price",
    )
    memory_mib_per_node: Annotated[
        int | None, Stored("null: the default for its GPUs or cores on that node")
    ] = Field(
        None,
        ge=1,
        le=MEMORY_MIB_PER_NODE_MAX,
        description="Memory on each node, instead of the default for its GPUs or cores",
    )
    notice_signal: Annotated[
        _Signal,
        Stored("Signal that the job gets before a preemption or cancellation"),
    ] = "TERM"
    signal_ahead_s: Annotated[
        int | None,
        Stored("null: as long before the time limit as the priority class's grace", in_lists=False),
    ] = Field(
        None,
        ge=0,
        le=SIGNAL_AHEAD_S_MAX,
        description="How long before the time limit the job gets its notice, as in Slurm's "
        "`--signal=SIG@SECONDS`; at most half of the limit. Without it: the grace of the priority "
        "class",
    )
    signals_shell_only: Annotated[
        bool, Stored("Whether the notice goes to the script's shell alone", in_lists=False)
    ] = Field(
        False,
        description="Sends the notice to the script's shell alone, as Slurm's `--signal=B:SIG`. "
        "Without it, each process gets the notice, and the shell only if it has a handler",
    )
    held: bool = False
    begin_at: Annotated[
        Annotated[datetime, checked(checks.begin_time, datetime)] | None, Stored("Earliest start")
    ] = Field(None, description="Earliest start, with a time zone; at most 366 days ahead")
    depends_on: Annotated[
        tuple[Wish, ...],
        checked(
            checks.wishes,
            Annotated[list[DependencyRequest], Field(max_length=checks.DEPENDENCIES_MAX)],
        ),
    ] = Field(
        (),
        description="The job starts after all are met. Once one can no longer be met, the job is "
        "cancelled with the reason `dependency_never_met`",
    )
    is_singleton: Annotated[
        bool, Stored("Whether it waits until other jobs of its name and user are done")
    ] = Field(
        False,
        description="Runs jobs of one name and user one after the other, as Slurm's "
        "`--dependency=singleton`: the job waits for those that run, and for those that were "
        "submitted before it. The tasks of an array have the array's name",
    )
    array: _Array | None = Field(
        None,
        description=f"Creates a job array of at most {TASKS_MAX:,} tasks, as Slurm `--array`: "
        "`0-9`, `1,3,5-7`, `0-31:4`, with `%K` for at most K at once. The answer is its first "
        "task; the header `Location` has the address of the array",
    )


#: Every member of the body of POST /jobs.
FIELDS = frozenset(JobMembers.model_fields)

#: The marks of the stored members, in the order of their declaration.
STORED: Mapping[str, Stored] = {
    name: mark
    for name, field in JobMembers.model_fields.items()
    for mark in field.metadata
    if isinstance(mark, Stored)
}
#: The stored members that lists show, and those that only the page of a job shows.
STORED_IN_LISTS = tuple(name for name, mark in STORED.items() if mark.in_lists)
STORED_ON_PAGES = tuple(name for name, mark in STORED.items() if not mark.in_lists)


def stored_by(request: JobMembers) -> dict[str, Any]:
    """Return the columns of the job that `request` asks for."""
    columns = {name: getattr(request, name) for name in STORED}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()
    }
