"""The description of a kind of cluster for the rest of the portal, declared in its `kind.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.accounts import ClusterAccount
from connectors.entitlements import EntitlementControl
from connectors.job_folders import FileReader
from connectors.metrics import MetricReader
from connectors.natives import NativeControl
from connectors.node_control import NodeControl, NodeEviction
from connectors.protocol import ClusterConnector, Inventory, LogReader, Workload
from connectors.recalling import Recaller
from manifests.jobs import ManifestJob

#: The options of a cluster, as stored.
Options = Mapping[str, Any]
#: Settings of the installation by name, as far as a kind lists them in `operator_settings`.
OperatorSettings = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWords:
    """The words of a cluster's own system for what pages show of it."""

    #: What of the cluster's system it runs, beside its kind; "" if the kind says it all.
    variant: str = ""
    #: Heading of the accounts that use devices beside the portal.
    account: str = "Account"
    #: Why such use counts for no team.
    unknown_account: str = "the account is no team's"
    unknown_user: str = "the user is not mapped"
    #: How the cluster enforces the quotas that are pushed to it, as sentences.
    limits: str = "The cluster enforces the quotas too, as accounts and limits of its own."
    #: What a push changes there.
    limit_objects: str = "accounts, members and limits"
    #: By the first words of a subject in a comparison of limits: the name of such objects there.
    subjects: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManifestPlace:
    """The answer of a cluster to a manifest in one pool. `refusal` is "" where it can run there.

    `required_topology` and `preferred_topology` are the levels that the manifest asks for, where
    the portal has names for them.
    """

    refusal: str
    required_topology: str | None = None
    preferred_topology: str | None = None


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """A finding of a cluster about a manifest that it was asked to try.

    `path` leads to the field in the manifest's document of the job. `is_refusal` says that its Pods
    would never run there.
    """

    path: tuple[str | int, ...]
    detail: str
    is_refusal: bool = True


@dataclass(frozen=True, slots=True)
class ManifestTrial:
    """The answer of a cluster that tried a manifest without storing anything.

    `unchecked` names what it could not check, with the reason.
    """

    findings: tuple[TrialFinding, ...] = ()
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKind:
    """One kind of cluster. A kind leaves out the fields that do not apply to it.

    Functions that take a connector get one that `open` returned.
    """

    #: As stored and in the API: at most 16 characters.
    name: str
    #: The name for people.
    label: str

    # --- Options, and what the operator allows -----------------------------------------------
    #: Open a connector by options, our id of the cluster, and the identity that its first inventory
    #: gave (`Inventory.identity`). Contacts nothing yet. Raises ValueError.
    open: Callable[[Options, str, Mapping[str, str]], ClusterConnector]
    #: The JSON Schema of the options (see `connectors.options`), from which forms are drawn.
    options_schema: Mapping[str, Any]
    #: Raises ValueError for options that no such cluster can have. OptionsRefused, which is one,
    #: names the options. Opens no file with a secret.
    check_options: Callable[[Options], None]
    #: Raises ValueError, saying what to do, for options that use what the operator has not listed.
    check_trusted: Callable[[Options, OperatorSettings], None]
    #: The settings (`portal.settings`) that `check_trusted` and the two functions below read.
    operator_settings: tuple[str, ...] = ()
    #: Paths of secrets on the portal's machine, which no job there may read.
    secret_paths: Callable[[OperatorSettings], Sequence[str]] = lambda given: ()
    #: Options that the operator adds to those stored, by the settings and all secret paths.
    operator_options: Callable[[OperatorSettings, Sequence[str]], Options] = lambda given, paths: {}
    #: The words of a cluster with these options, which may be invalid.
    words: Callable[[Options], KindWords] = lambda options: KindWords()
    #: Whether the options hold no secret, so that administrators may read them again.
    shows_options: bool = False
    #: Options that identify the cluster and our workloads on it.
    lasting_options: frozenset[str] = frozenset()
    #: The option that identifies a cluster: equal values mean the same cluster.
    address_option: str | None = None
    #: The option that names the user as whom the portal acts there. No job runs as that user.
    service_user_option: str | None = None
    #: The part of `Inventory.identity` that is globally unique.
    unique_identity: str | None = None

    #: Read the inventory of a cluster that was never prepared, and write nothing there. Without it,
    #: `ClusterConnector.inventory` does so. Raises ClusterUnavailable.
    first_inventory: Callable[[ClusterConnector], Inventory] | None = None

    # --- Workloads ---------------------------------------------------------------------------
    #: Whether jobs run as users of the cluster, who must be mapped first.
    has_users: bool = False
    #: Whether jobs run on the portal's own machine, as user numbers that the portal gives out.
    runs_on_portal_machine: bool = False
    #: Whether jobs find Slurm's own commands and variables, in whatever way they are launched.
    has_slurm_commands: bool = False
    #: Whether only the owner of a job can read its environment there.
    keeps_environments: bool = False
    #: The address of the portal for jobs there, by options and the installation's own address ("":
    #: they have none).
    portal_url: Callable[[Options, str], str] = lambda options, own: own
    #: Whether the connector can hand over `Workload.private_environment`, by options. It matters
    #: only without `keeps_environments`.
    takes_private_environment: Callable[[Options], bool] = lambda options: False
    #: Whether jobs write the files and start in the folder that their authors name
    #: (`connectors.protocol.JobFiles`).
    writes_own_files: bool = False
    #: How long its jobs take to learn of a longer time limit, in seconds. An extension that is
    #: asked for later before the notice could come too late, and is refused.
    extension_delay_s: int = 0
    #: Whether connectors hold submissions (`ClusterConnector.submits_held`).
    submits_held: bool = False
    #: Whether a submission creates several objects, the workload first. A listed workload does not
    #: prove that the others exist.
    submits_in_parts: bool = False
    #: The step of rank sizes in milli-GPU, by options and the pool's name. Without it, a rank may
    #: have any size.
    gpu_unit: Callable[[Options, str], int] | None = None
    #: The most nodes of a batch job, whose script runs once and starts tasks on the others (None:
    #: any number).
    batch_nodes_max: int | None = None
    #: Whether the cluster runs Kubernetes manifests, by options.
    runs_manifests: Callable[[Options], bool] = lambda options: False
    #: How it runs one in a pool, by options and the pool's name.
    place_manifest: Callable[[Options, str, ManifestJob], ManifestPlace] = (
        lambda options, pool, job: ManifestPlace("it runs no Kubernetes manifests")
    )
    #: Ask the cluster what it would refuse of a manifest, by options and our id of the cluster.
    #: Nothing is stored there. The last argument is the seconds that it may take. It raises
    #: ValueError for options that cannot be used.
    try_manifest: Callable[[Options, str, Workload, float], ManifestTrial] | None = None
    #: Whether jobs may name a container image, by options.
    runs_images: Callable[[Options], bool] = lambda options: False
    #: Why a job cannot run because of its image or the lack of one, by options, pool and image ("":
    #: it can). Without it, `runs_images` decides alone.
    refuse_image: Callable[[Options, str, str | None], str] | None = None
    #: By pool, the image of jobs that name none (None: they must name one), where every job runs
    #: in an image.
    default_images: Callable[[Options], Mapping[str, str | None]] = lambda options: {}
    #: Read logs with less than a connector.
    open_logs: Callable[[Options], LogReader] | None = None
    #: Read the files that jobs left in their folders, by options and our id of the cluster. Raises
    #: ValueError for options that cannot be used.
    open_files: Callable[[Options, str], FileReader] | None = None
    #: Find workloads that the listing no longer has. Without it, the listing keeps every workload
    #: until it is told to forget it.
    open_recaller: Callable[[Options], Recaller] | None = None

    # --- What only some clusters have --------------------------------------------------------
    #: The cluster's own account of what ran.
    open_account: Callable[[ClusterConnector], ClusterAccount] | None = None
    #: For how many days after its end the account has a run (None: as long as its operator says).
    account_days: int | None = None
    #: Read CPU time, memory and GPU use of our workloads.
    open_metrics: Callable[[ClusterConnector], MetricReader] | None = None
    #: Control native workloads, which people submit without the portal.
    control_natives: Callable[[ClusterConnector], NativeControl] | None = None
    #: Whether native workloads wait until the portal starts them (`NativeControl.starter`), by
    #: options, which may be invalid.
    holds_natives: Callable[[Options], bool] = lambda options: False
    #: Drain and resume nodes.
    control_nodes: Callable[[ClusterConnector], NodeControl] | None = None
    #: Why the nodes cannot be drained and resumed, by the API version ("": they can).
    refuse_nodes: Callable[[str], str] = lambda api_version: ""
    #: Empty drained nodes.
    control_eviction: Callable[[ClusterConnector], NodeEviction] | None = None
    #: Write the limits that the cluster keeps itself.
    control_entitlements: Callable[[ClusterConnector], EntitlementControl] | None = None
    #: The subject, in a comparison of limits, of the object that the team at a path needs to submit
    #: anything, if a push creates that object.
    team_subject: Callable[[str], str] | None = None

    def gpu_unit_mgpu(self, options: Options, pool: str) -> int:
        """Return the step of rank sizes in `pool`, in milli-GPU.

        Each rank asks for a multiple of it.
        """
        return 1 if self.gpu_unit is None else self.gpu_unit(options, pool)

    def image_refusal(self, options: Options, pool: str, image: str | None) -> str:
        """Return why a cluster with these `options` cannot run a job with `image`; "" when it can.

        `pool` is the job's pool, and an `image` of None means that the job names none. Only the
        image is checked. The text says what to do.
        """
        if self.refuse_image is not None:
            return self.refuse_image(options, pool, image)
        if image is None or self.runs_images(options):
            return ""
        return "it does not run container images"

    def nodes_refusal(self, api_version: str) -> str:
        """Return why nodes of this kind cannot be drained and resumed; "" when they can."""
        if self.control_nodes is None:
            return f"nodes of clusters of kind {self.name} cannot be drained from here"
        return self.refuse_nodes(api_version)

    @property
    def eviction_refusal(self) -> str:
        """Why a drain cannot evict what runs on a node of this kind of cluster; "" when it can."""
        if self.control_eviction is not None:
            return ""
        return f"on clusters of kind {self.name} what runs on a drained node goes on to its end"
