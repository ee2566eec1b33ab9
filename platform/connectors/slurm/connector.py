"""A Slurm cluster behind slurmrestd as a cluster of Tidegate.

An attempt is one Slurm job. It is submitted as its user and held. Its name is a tag that identifies
it as ours (see `naming`).

Before every action on a job number, the job is read and its name and user are compared: a
controller that crashed may have reused the number. Between comparison and action the number cannot
change hands. Slurm reuses only the numbers of submissions that it had not saved, and unsettled jobs
are left alone.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import re
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connectors.errors import (
    AccountUndecided,
    AnotherCluster,
    ClusterUnavailable,
    ConnectorError,
    NotOffered,
    NotPrepared,
    OutcomeUnknown,
    UnknownNativeState,
    WorkloadRejected,
)
from connectors.protocol import (
    SUBMITTED_WITHIN_S,
    ClusterConnector,
    Inventory,
    Listing,
    LogChunk,
    LogReader,
    NativeWorkload,
    Observation,
    Unread,
    Workload,
    WorkloadPhase,
)
from connectors.slurm.answers import NOT_SET_UP, SlurmRefused
from connectors.slurm.batch import NOTICE_SIGNAL, STOP_SIGNAL
from connectors.slurm.controller import SlurmController
from connectors.slurm.hardware import Kept, read_hardware
from connectors.slurm.job_pools import JobPools
from connectors.slurm.logs import FILES_S, RankExits, SlurmLogs, read_exits, within
from connectors.slurm.naming import comment_of, key_of, secret_mark
from connectors.slurm.neutral import JobList, SlurmJob, SlurmNode, Submission
from connectors.slurm.observing import (
    MGPU_PER_GPU,
    ended_observation,
    native_of,
    node_capacities,
    observation_of,
)
from connectors.slurm.options import (
    SETTLE_S_STRICT,
    SlurmOptions,
    SlurmPool,
    parse_options,
)
from connectors.slurm.qos_room import QosRoom
from connectors.slurm.resizing import joined
from connectors.slurm.rest import SlurmRest
from connectors.slurm.states import is_held_by_others, never_starts, phase_of
from connectors.slurm.submissions import SubmissionBuilder, asked_by, minutes_of
from connectors.slurm.tokens import MinterTokens, TokenRefused
from connectors.slurm.transport import TokenSource
from connectors.slurm.tres import CORES
from connectors.workload_checks import check_key, check_workload
from primitives.units import DeviceKind

log = logging.getLogger(__name__)

#: Seconds after which an empty queue must again be confirmed as this cluster's.
_CONFIRMED_S = 2
#: The identity of a cluster: its name, and the secret that signs our jobs there.
CLUSTER, TAGS = "cluster", "tags"
_ENDED = WorkloadPhase.ENDED
_NATIVE_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_NO_EXITS = RankExits()


def open_slurm(
    options: Mapping[str, Any], cluster_id: str, known_as: Mapping[str, str] | None = None
) -> ClusterConnector:
    """Return the connector for `options` (see `connectors.slurm.options`), without contacting it.

    `cluster_id` is unused: the name identifies a Slurm cluster. `known_as` holds the name that it
    must answer with. Raises ValueError for bad options, and for a tag secret that differs from the
    earlier one.
    """
    checked = parse_options(options)
    before = known_as or {}
    if before.get(TAGS, mark := secret_mark(checked.tag_secret)) != mark:
        raise ValueError(
            "the tag secret is not the one with which the jobs on it were signed; put that one "
            "back, or, when nothing of ours is on it any more, name another file"
        )
    return SlurmConnector(checked, MinterTokens(checked.token_socket), cluster=before.get(CLUSTER))


def check_slurm_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that no Slurm cluster can have. Opens no secret file."""
    parse_options(options, reads_secret=False)


def open_slurm_logs(options: Mapping[str, Any]) -> LogReader:
    """Return the log reader of such a cluster. Raises ValueError for bad options."""
    return SlurmLogs(parse_options(options, reads_secret=False))


class SlurmConnector:
    """Implements `connectors.protocol.ClusterConnector`; safe to use from several threads."""

    def __init__(
        self, options: SlurmOptions, tokens: TokenSource, *, cluster: str | None = None
    ) -> None:
        self._options = options
        self._tokens = tokens
        self._rest = SlurmRest(
            options.url,
            tokens,
            service_user=options.service_user,
            version=options.api_version,
            cluster=cluster,
        )
        self._wanted = cluster
        self._confirmed_s = -math.inf
        # The protocol has no `close`: connections end with the connector.
        weakref.finalize(self, self._rest.close)
        self._hardware = Kept(
            lambda: read_hardware(self._controller), left_s=lambda: self._rest.left_s()
        )
        self._in_accounting = Kept(self._ask_accounting_who_it_is)
        self._pools = JobPools(options.pools, self._hardware)
        self._submissions = SubmissionBuilder(options, self._hardware)
        self._room = QosRoom(
            self._rest.controller, self._rest.accounting, otherwise=options.borrow_qos
        )
        self._exits: Mapping[tuple[int, int], RankExits] = {}
        self._waiting_since: Mapping[tuple[int, int], int] = {}
        self._let_go: frozenset[tuple[int, int]] = frozenset()
        self._listed: tuple[int, frozenset[tuple[int, int]]] = 0, frozenset()

    @property
    def options(self) -> SlurmOptions:
        """The options that it was opened with."""
        return self._options

    @property
    def rest(self) -> SlurmRest:
        """The REST client, for the other features of a Slurm cluster."""
        return self._rest

    @property
    def _controller(self) -> SlurmController:
        return self._rest.controller

    @property
    def submits_held(self) -> bool:
        """Return True: after a lost answer, Slurm takes a repeated submission for a new one."""
        return True

    @property
    def settle_s(self) -> int:
        """The value from the options. The controller saves accepted jobs every 5 s."""
        return self._options.settle_s

    def prepare(self) -> None:
        """Do nothing: the identity of the cluster comes with its inventory."""

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """See the protocol. The nodes in `slots` are ignored: Slurm chooses the nodes."""
        with self._rest.within(SUBMITTED_WITHIN_S):
            return self._submit(workload, is_first=is_first)

    def _submit(self, workload: Workload, *, is_first: bool) -> str:
        check_workload(workload)
        user = self._submissions.user_of(workload)
        submission = self._submissions.build(workload, user)
        if not is_first:
            copies = [job for job in self._tagged(workload.key) if job.user == user]
            if copies:
                return str(min(copies, key=_age).job_id)
        if submission.qos != self._options.borrow_qos:
            submission = self._room.take(submission, may_borrow=workload.is_requeueable)
        submission = self._submissions.signed(submission)
        try:
            self._tokens.token_for(user)
            return str(self._controller.submit(user, submission))
        except OutcomeUnknown:
            raise
        except ConnectorError as error:
            self._room.give_back(submission)
            if isinstance(error, SlurmRefused):
                kind = NotPrepared if error.number in NOT_SET_UP else WorkloadRejected
                raise kind(_refusal(user, submission, str(error))) from error
            if isinstance(error, TokenRefused):
                raise NotPrepared(
                    f"{error}; an administrator of the platform can map {workload.user} to another "
                    "user on the cluster's page"
                ) from error
            if isinstance(error, NotOffered):
                raise WorkloadRejected(str(error)) from error
            raise

    def release(self, key: str, native_id: str) -> None:
        """See the protocol. A job that no longer matches its submission is left alone.

        So is a number that is not, or no longer, our job's.
        """
        job = self._job(check_key(key), native_id)
        if job is None or not _is_held(job) or self._is_altered(job):
            return
        if is_held_by_others(job) or never_starts(job) or _number(job) in self._let_go:
            return
        self._check_settled(job)
        insist(lambda: self._controller.set_hold(job.job_id, held=False))

    def remove_copy(self, key: str, native_id: str) -> None:
        """See the protocol."""
        job = self._job(check_key(key), native_id)
        if job is None or not _is_held(job):
            return
        self._check_settled(job)
        self._send(job, None)

    def observe(self) -> Listing:
        """See the protocol. The ranks' exit codes of ended jobs are read where possible."""
        listed = self._controller.jobs()
        unread = [
            Unread(None if one.job_id is None else str(one.job_id), one.why)
            for one in listed.unread
        ]
        if not listed.jobs and (doubt := self._doubt()):
            unread.append(Unread(None, doubt))
        ours: dict[str, list[SlurmJob]] = {}
        others: list[SlurmJob] = []
        for job in listed.jobs:
            key = self._key(job)
            if key is None:
                others.append(job)
            else:
                ours.setdefault(key, []).append(job)
        numbers = frozenset(_number(job) for jobs in ours.values() for job in jobs)
        self._listed = listed.observed_at, numbers
        exits = self._exits_of(ours)
        let_go = self._seen_let_go(ours, listed.observed_at)
        copies = {
            key: tuple(
                observation_of(
                    key,
                    job,
                    exits.get(_number(job), _NO_EXITS),
                    pool=self._pools.of_job(job),
                    was_let_go=_number(job) in let_go,
                    is_preemptible=job.qos == self._options.borrow_qos,
                    is_mixed=len(self._pools.parts(job)) > 1,
                    is_altered=self._is_altered(job),
                )
                for job in sorted(jobs, key=_age)
            )
            for key, jobs in ours.items()
        }
        return Listing(
            observed_at=listed.observed_at,
            observations={key: found[0] for key, found in copies.items()},
            copies={key: found for key, found in copies.items() if len(found) > 1},
            natives=tuple(self._natives(others, unread)),
            unread=tuple(unread),
        )

    def _seen_let_go(
        self, ours: Mapping[str, Sequence[SlurmJob]], observed_at: int
    ) -> frozenset[tuple[int, int]]:
        """Return the jobs that once waited unheld long enough to count as released for good.

        A crashed controller cannot have forgotten their release. If one of them is held now,
        somebody else holds it.
        """
        listed = {_number(job): job for jobs in ours.values() for job in jobs}
        self._waiting_since = {
            number: self._waiting_since.get(number, observed_at)
            for number, job in listed.items()
            if job.state == "PENDING" and not job.is_held
        }
        self._let_go = frozenset(
            number
            for number in listed
            if number in self._let_go
            or observed_at - self._waiting_since.get(number, observed_at) >= SETTLE_S_STRICT
        )
        return self._let_go

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """See the protocol. Of several runs of the job under our name, the last one counts."""
        check_key(key)
        if not _NATIVE_ID.fullmatch(native_id):
            return None
        runs = [
            run
            for run in joined(self._rest.accounting.job_history(int(native_id)))
            if key_of(self._options.tag_secret, run.name, run.user) == key
        ]
        if not runs:
            if self._controller.diag().accounting_backlog > 0:
                raise ClusterUnavailable("the cluster's accounting is late; it may know more soon")
            return None
        last = max(runs, key=lambda run: (run.submit_time, run.start_time or 0))
        if last.end_time is None:
            raise AccountUndecided(
                f"the cluster's accounting says that job {native_id} still is {last.state}, and "
                "its controller does not know it; `sacctmgr show runawayjobs` may mend that"
            )
        exits = self._read_exits(key, last.user, len(last.nodes))
        try:
            return ended_observation(key, last, exits, is_only_run=len(runs) == 1)
        except UnknownNativeState as error:
            raise AccountUndecided(str(error)) from error

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. The signal asks the batch script, which notifies the ranks, once."""
        for job in self._jobs_of(check_key(key), native_id):
            if _phase(job) is WorkloadPhase.RUNNING:
                self._send(job, NOTICE_SIGNAL)

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. Raises ClusterUnavailable for a held job that is not settled yet.

        A stop of a missing job is not remembered: the job is held if it appears later, and is never
        released.
        """
        unsettled: ClusterUnavailable | None = None
        for job in self._jobs_of(check_key(key), native_id):
            phase = _phase(job)
            if phase in (_ENDED, WorkloadPhase.STOPPING):
                continue
            try:
                if phase is WorkloadPhase.HELD:
                    self._check_settled(job)
                elif phase is WorkloadPhase.RUNNING:
                    # Otherwise a process that ignores TERM would run on for the cluster's KillWait.
                    self._send(job, STOP_SIGNAL)
                self._send(job, None)
            except ClusterUnavailable as error:
                unsettled = error
        if unsettled is not None:
            raise unsettled

    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        """See the protocol. The ranks ask Slurm for the limit before they give its notice."""
        minutes = minutes_of(time_limit_s)
        for job in self._jobs_of(check_key(key), native_id):
            is_over = _phase(job) in (_ENDED, WorkloadPhase.STOPPING)
            if not is_over and job.time_limit_s is not None and job.time_limit_s < 60 * minutes:
                insist(functools.partial(self._controller.set_time_limit, job.job_id, minutes))

    def inventory(self) -> Inventory:
        """See the protocol. The nodes are those with devices of the cluster's pools."""
        # Read before the nodes, so that the answer is never older than `observed_at`.
        observed_at = self._controller.diag().observed_at
        odd: list[str] = []
        partitions = {
            partition.name: partition for partition in self._controller.partitions(odd=odd.append)
        }
        seen = self._controller.nodes(odd=odd.append)
        if shared := [n.name for n in seen if n.has_shards and self._pools.of_gpus(n.gpus)]:
            odd.append(
                f"{len(shared)} nodes offer shards of their GPUs (gres/shard), {shared[0]} for "
                "one; what holds shards is not seen here, so GPUs may be promised that are not "
                "free. MIG slices, which are GPUs of a type of their own, are seen."
            )
        options = self._options
        odd += _mixed_partitions(options.pools, seen)
        found = (
            offered
            for node in seen
            for offered in node_capacities(
                node,
                options.pools,
                partitions,
                cpus_per_gpu=options.cpus_per_gpu,
                memory_mb_per_gpu=options.memory_mb_per_gpu,
            )
        )
        limits = {
            name: limit_s
            for name, pool in self._options.pools.items()
            if pool.partition in partitions
            and (limit_s := partitions[pool.partition].max_time_limit_s) is not None
        }
        return Inventory(
            observed_at,
            tuple(found),
            api_version=self._rest.version,
            complaints=tuple(odd),
            identity=self._identity(),
            time_limits_s=limits,
        )

    def _identity(self) -> Mapping[str, str]:
        """Return the identity of this cluster, as far as it is available now."""
        found = {TAGS: secret_mark(self._options.tag_secret)}
        if self._rest.cluster is None:
            with contextlib.suppress(ClusterUnavailable):
                self._in_accounting.get()
        if self._rest.cluster is not None:
            found[CLUSTER] = self._rest.cluster
        return found

    def _ask_accounting_who_it_is(self) -> None:
        # A failure is cached like an answer, so a silent accounting is asked again only after a
        # while.
        try:
            self._rest.ask_accounting_who_it_is()
        except AnotherCluster:
            raise
        except ClusterUnavailable as error:
            log.warning("the cluster does not say its name: %s", error)

    def _doubt(self) -> str:
        """Return why an empty queue may be another cluster's; "" when it is this cluster's.

        An empty queue carries no cluster name. The check is frequent enough that no job is taken
        for lost in between. Raises AnotherCluster.
        """
        now_s = time.monotonic()
        if self._wanted is None or now_s - self._confirmed_s < _CONFIRMED_S:
            return ""
        try:
            self._rest.ask_accounting_who_it_is()
        except AnotherCluster:
            raise
        except ClusterUnavailable as error:
            return (
                f"the queue is empty, and whether it is that of {self._wanted} is unknown: {error}"
            )
        self._confirmed_s = now_s
        return ""

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See the protocol. At most 1 MiB at once; from an offset past the end, no bytes."""
        return SlurmLogs(self._options).read_log(
            key, rank=rank, stream=stream, offset=offset, limit=limit, cluster_user=cluster_user
        )

    def forget(self, key: str, *, native_id: str | None = None) -> None:
        """Do nothing: Slurm drops ended jobs itself, and the outputs belong to their user."""
        check_key(key)

    def _key(self, job: SlurmJob) -> str | None:
        return key_of(self._options.tag_secret, job.name, job.user)

    def _is_altered(self, job: SlurmJob) -> bool:
        """Return whether `job`, a waiting job with a name of ours, differs from its submission.

        Each of our jobs has one GPU type, that of its partition's pool.
        """
        if job.state != "PENDING":
            return False
        gpus = job.gpus_requested
        return not any(
            job.comment == comment_of(self._options.tag_secret, job.name, asked_by(job, pool))
            for pool in self._options.pools.values()
            if pool.partition == job.partition and set(gpus) <= {"", pool.gres_type}
        )

    def _tagged(self, key: str) -> Sequence[SlurmJob]:
        listed: JobList = self._controller.jobs()
        return [job for job in listed.jobs if job.name.startswith(key) and self._key(job) == key]

    def _job(self, key: str, native_id: str) -> SlurmJob | None:
        """Job `native_id` if it is a job of `key`, else None."""
        if not _NATIVE_ID.fullmatch(native_id):
            return None
        job = self._controller.job(int(native_id))
        return job if job is not None and self._key(job) == key else None

    def _jobs_of(self, key: str, native_id: str | None) -> Sequence[SlurmJob]:
        """Return the recorded job of `key`; all jobs of `key` when none is recorded or found."""
        if native_id is not None and (job := self._job(key, native_id)) is not None:
            return [job]
        return self._tagged(key)

    def _send(self, job: SlurmJob, signal: str | None) -> None:
        insist(lambda: self._controller.cancel(job.job_id, signal=signal))

    def _check_settled(self, job: SlurmJob) -> None:
        # A job that was settled in the last list stays settled. Only for others, read the clock
        # again.
        seen_at, numbers = self._listed
        age_s = seen_at - job.submit_time if _number(job) in numbers else 0
        if age_s < self.settle_s:
            age_s = self._controller.diag().observed_at - job.submit_time
        if age_s < self.settle_s:
            raise ClusterUnavailable(
                f"job {job.job_id} is not settled yet: the controller may still forget it; "
                f"wait {self.settle_s - age_s} s"
            )

    def _exits_of(
        self, ours: Mapping[str, Sequence[SlurmJob]]
    ) -> Mapping[tuple[int, int], RankExits]:
        """Return the exit codes that the ranks of ended jobs left, read once per listed job."""
        before = self._exits
        found: dict[tuple[int, int], RankExits] = {}
        unread: list[tuple[str, SlurmJob]] = []
        for key, jobs in ours.items():
            for job in jobs:
                if not job.nodes or _phase(job) is not _ENDED:
                    continue
                if (known := before.get(_number(job))) is not None:
                    found[_number(job)] = known
                else:
                    unread.append((key, job))

        def read() -> Mapping[tuple[int, int], RankExits]:
            return {
                _number(job): self._rank_exits(key, job.user, len(job.nodes)) for key, job in unread
            }

        if unread and self._options.output_root is not None:
            try:
                found.update(within(FILES_S, read))
            except ClusterUnavailable:
                # Slurm answers; only the file system with the outputs does not.
                return found
        self._exits = found
        return found

    def _read_exits(self, key: str, user: str, ranks: int) -> RankExits:
        try:
            return within(FILES_S, lambda: self._rank_exits(key, user, ranks))
        except ClusterUnavailable:
            return _NO_EXITS

    def _rank_exits(self, key: str, user: str, ranks: int) -> RankExits:
        root = self._options.output_root
        return _NO_EXITS if root is None else read_exits(root, key=key, user=user, ranks=ranks)

    def _natives(self, jobs: Iterable[SlurmJob], unread: list[Unread]) -> Iterable[NativeWorkload]:
        for job in jobs:
            try:
                yield from self._native(job)
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                unread.append(Unread(str(job.job_id), repr(error)))

    def _native(self, job: SlurmJob) -> Iterable[NativeWorkload]:
        gpus = job.gpus_allocated or job.gpus_requested
        if not sum(gpus.values()):
            return
        if len(parts := self._pools.parts(job)) > 1:
            for part, slots in parts.items():
                total = sum(slot.mgpu for slot in slots)
                whole = native_of(
                    job, pool=part, gpus=total // MGPU_PER_GPU, borrow_qos=self._options.borrow_qos
                )
                yield replace(whole, native_id=f"{job.job_id} ({part})", slots=slots, is_mixed=True)
            return
        pool = self._pools.of_job(job)
        if pool is None:
            return
        if CORES in gpus:
            yield self._native_on_cores(job, pool)
            return
        count = gpus.get(self._options.pools[pool].gres_type) or gpus[""]
        yield native_of(job, pool=pool, gpus=count, borrow_qos=self._options.borrow_qos)

    def _native_on_cores(self, job: SlurmJob, pool: str) -> NativeWorkload:
        cores = sum((job.gpus_allocated or job.gpus_requested).values())
        found = native_of(job, pool=pool, gpus=cores, borrow_qos=self._options.borrow_qos)
        if job.state == "PENDING" or not job.nodes:
            return found
        slots = self._pools.cores_of(job)
        return replace(found, slots=slots, mgpu=sum(slot.mgpu for slot in slots))


def _mixed_partitions(pools: Mapping[str, SlurmPool], nodes: Iterable[SlurmNode]) -> list[str]:
    """Return complaints about partitions of CPU pools that contain other nodes.

    The cluster may start jobs for cores on these nodes, outside the pool.
    """
    return [
        f"Partition {pool.partition} of the pool {name} of CPU cores has nodes with GPUs, "
        f"{mixed[0]} for one, which are not offered there; what starts on them is not counted. "
        "Give the pool a partition of nodes without GPUs."
        for name, pool in pools.items()
        if pool.device is DeviceKind.CPU
        and (
            mixed := [
                node.name
                for node in nodes
                if pool.partition in node.partitions and CORES not in node.gpus
            ]
        )
    ]


def _refusal(user: str, submission: Submission, words: str) -> str:
    """Return Slurm's `words` with the request, because Slurm names no objects or users."""
    return (
        f"Slurm refuses it: {words.removeprefix(f'submit {submission.name}: ')}. It was submitted "
        f"as {user} for account {submission.account}, QoS {submission.qos} and partition "
        f"{submission.partition}; if these are new or were changed by hand, an administrator can "
        "push the quota to the cluster again."
    )


def insist(act: Callable[[], None]) -> None:
    """Do what no job's owner is to blame for. A refusal is the cluster's fault and must be fixed.

    Raises ClusterUnavailable instead of WorkloadRejected or NotOffered.
    """
    try:
        act()
    except (WorkloadRejected, NotOffered) as error:
        raise ClusterUnavailable(f"the cluster does not let us: {error}") from error


def _phase(job: SlurmJob) -> WorkloadPhase | None:
    """Return the phase; None for an unknown state. Such a job is treated as running."""
    try:
        return phase_of(job)
    except UnknownNativeState:
        return None


def _is_held(job: SlurmJob) -> bool:
    return _phase(job) is WorkloadPhase.HELD


def _age(job: SlurmJob) -> tuple[int, int]:
    return job.submit_time, job.job_id


def _number(job: SlurmJob) -> tuple[int, int]:
    """Return the unique identity of a job; job ids alone are reused."""
    return job.job_id, job.submit_time
