"""Reads and commands the controller of a Slurm cluster (slurmctld) over REST."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from connectors.errors import ClusterUnavailable, ConnectorError, OutcomeUnknown, WorkloadRejected
from connectors.slurm import answers, outgoing
from connectors.slurm.answers import Answer
from connectors.slurm.dialects import Dialect
from connectors.slurm.neutral import (
    Diag,
    JobList,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    Submission,
    UnreadJob,
)
from connectors.slurm.transport import SlurmTransport, path_part, sensible

#: However little changed, the whole list is asked for at least this often.
FULL_LIST_EVERY_S = 60
#: The most jobs of one list that are read one by one to learn their GPUs by node.
MAX_DETAILS = 100
_GONE = frozenset({answers.NO_SUCH_JOB, answers.ALREADY_DONE})
# Errors in which slurmrestd says that it could not read a part of a request.
_PARSING = range(9000, 9900)
_LIVE_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED"})


@dataclass(frozen=True, slots=True)
class _Kept:
    """The last complete list of jobs, for answers that only say "unchanged"."""

    version: str
    asked_at: int
    full_at_s: float
    jobs: tuple[SlurmJob, ...]
    unread: tuple[UnreadJob, ...]


#: By version and number: the hash of a job's record, and the decoded job.
_Read = dict[tuple[str, Any], tuple[int, SlurmJob]]


class SlurmController:
    """The controller of one cluster, for use by several threads at once.

    Reads raise ClusterUnavailable. Writes raise the errors of `SlurmTransport.write` and
    `check_write`. Both raise NotOffered for features that this version lacks. Everything but
    `submit` is done as the service user.
    """

    def __init__(
        self, transport: SlurmTransport, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._kept: _Kept | None = None
        self._read: _Read = {}

    @property
    def version(self) -> str:
        """The API version in use; asks the cluster when it is not known yet."""
        return self._transport.version

    def ping(self) -> bool:
        """Return whether the controller answers; False from v0.0.40 on for a refused token too.

        Raises ClusterUnavailable when slurmrestd itself does not answer, or when v0.0.38 refuses
        the token.
        """
        answer = self._transport.read("/slurm/{}/ping")
        error = answer.error
        if error and answers.verdict(error.number) is not answers.Verdict.AUTHENTICATION:
            self._transport.raise_refused_token(answer, "ping", self._transport.service_user)
            return False
        body = answers.check_read(answer, "ping")
        return self._transport.speak().is_responding(answers.records(body, "pings"))

    def diag(self) -> Diag:
        """Return the controller's clock, and the backlog of the accounting."""
        body = self._transport.read_body("/slurm/{}/diag", "statistics")
        statistics = body.get("statistics")
        if not isinstance(statistics, Mapping):
            raise ClusterUnavailable("the cluster's answer has no statistics")
        return self._transport.speak().diag(statistics)

    def jobs(self) -> JobList:
        """Return every job that the controller knows, as one complete list.

        An answer that says "unchanged" gives the last list again. That list is never older than
        FULL_LIST_EVERY_S.
        """
        dialect = self._transport.speak()
        # The controller's clock before the list is read: the next call asks for changes since then.
        asked_at = self.diag().observed_at
        with self._lock:
            kept = self._kept
        now_s = self._monotonic_s()
        parameters = dict(dialect.job_list_parameters)
        if kept and (
            kept.version != dialect.version or now_s - kept.full_at_s >= FULL_LIST_EVERY_S
        ):
            kept = None
        if kept:
            parameters["update_time"] = dialect.changed_since(kept.asked_at - 1)
        answer = self._transport.read("/slurm/{}/jobs", parameters)
        if self._transport.speak() is not dialect:
            raise ClusterUnavailable("the cluster's API version changed; ask again")
        if kept and answer.status == 304 and answer.body is None:
            fresh = replace(kept, asked_at=asked_at)
        else:
            body = self._transport.checked(answer, "job list")
            records = answers.records(body, "jobs")
            self._transport.name.note(
                {name for one in records if isinstance(name := one.get("cluster"), str)} - {""}
            )
            if not records and dialect.is_unchanged(body, answer.warnings):
                if kept is None:
                    raise ClusterUnavailable("the cluster has no changes to a list never given")
                fresh = replace(kept, asked_at=asked_at)
            else:
                read, unread = self._read_jobs(records, dialect)
                jobs = self._with_details(read)
                fresh = _Kept(dialect.version, asked_at, now_s, jobs, unread)
        with self._lock:
            self._kept = fresh
        return JobList(asked_at, fresh.jobs, fresh.unread)

    def _read_jobs(
        self, records: Sequence[Mapping[str, Any]], dialect: Dialect
    ) -> tuple[list[SlurmJob], tuple[UnreadJob, ...]]:
        """Return the decoded job records, and those that are invalid.

        Most records equal those of the previous list. Comparing two records takes a tenth of the
        time of decoding one.
        """
        before, now = self._read, {}

        def read(record: Mapping[str, Any]) -> SlurmJob:
            text = hash(orjson.dumps(record))
            number = record.get("job_id")
            known = before.get((dialect.version, number))
            if known is None or known[0] != text:
                known = text, dialect.job(record)
            now[dialect.version, number] = known
            return known[1]

        found, odd = sensible(records, read)
        self._read = now
        return found, tuple(
            UnreadJob(number if type(number) is int else None, str(error))
            for record, error in odd
            for number in (record.get("job_id"),)
        )

    @property
    def last_jobs(self) -> tuple[SlurmJob, ...]:
        """The jobs of the last list, the same object until the next list. Contacts nobody."""
        with self._lock:
            return () if self._kept is None else self._kept.jobs

    def _with_details(self, jobs: list[SlurmJob]) -> tuple[SlurmJob, ...]:
        """Return the jobs, completed with GPUs by node for running jobs whose record lacks them."""
        budget = MAX_DETAILS
        found = []
        for job in jobs:
            if (
                budget
                and job.state == "RUNNING"
                and sum(job.gpus_allocated.values())
                and not job.gpus_by_node
            ):
                budget -= 1
                seen = self.job(job.job_id)
                if seen is not None and seen.nodes == job.nodes:
                    job = replace(
                        job, gpus_by_node=seen.gpus_by_node, types_by_node=seen.types_by_node
                    )
            found.append(job)
        return tuple(found)

    def job(self, job_id: int) -> SlurmJob | None:
        """Return one job; None when the controller has no job of this number."""
        answer = self._transport.read(f"/slurm/{{}}/job/{int(job_id)}")
        if answer.error and answer.error.number == answers.NO_SUCH_JOB:
            return None
        dialect = self._transport.speak()
        records = answers.records(self._transport.checked(answer, f"job {job_id}"), "jobs")
        # The number of a job array also answers with its started tasks.
        for job in map(dialect.job, records):
            if job.job_id == job_id:
                return job
        raise ClusterUnavailable(f"the cluster's answer for job {job_id} does not hold it")

    def submit(self, user: str, submission: Submission) -> int:
        """Submit as `user` and return the job's number.

        Raises WorkloadRejected when the cluster refuses it, or we do because of text that Slurm
        cannot carry. Raises OutcomeUnknown when a job may exist, and ClusterUnavailable when none
        does. If the cluster ignored a part of the request, the accepted job is cancelled.
        """
        outgoing.check_submission(submission)
        what = f"submit {submission.name}"
        answer = self._transport.write(
            "POST",
            "/slurm/{}/job/submit",
            self._transport.speak().submission(submission),
            what,
            user=user,
        )
        job_id = _job_id(answer)
        if job_id is None:
            raise self._explained(answer, what, user)
        misread = [
            error.text for error in answer.errors if error.number and error.number in _PARSING
        ]
        if answer.ignored is not None or misread:
            words = answer.ignored or "; ".join(misread)
            try:
                self.cancel(job_id)
            except ConnectorError as error:
                raise OutcomeUnknown(
                    f"{what}: job {job_id} was made without a part of the request ({words}) "
                    f"and could not be taken off again: {error}"
                ) from error
            raise WorkloadRejected(f"{what}: the cluster left out a part of the request: {words}")
        return job_id

    def _explained(self, answer: Answer, what: str, user: str) -> Exception:
        """Return the reason why a submission created no job."""
        error = answers.failure(answer, what)
        if isinstance(error, OutcomeUnknown):
            self._transport.raise_refused_token(answer, what, user)
        return error

    def set_hold(self, job_id: int, held: bool) -> None:
        """Hold a pending job so that its user cannot release it, or release it.

        A running job that is held runs on, and stays held if it is requeued.
        """
        what = f"{'hold' if held else 'release'} job {job_id}"
        answer = self._transport.write(
            "POST", f"/slurm/{{}}/job/{int(job_id)}", {"hold": held}, what
        )
        self._transport.check_write(answer, what)

    def set_time_limit(self, job_id: int, minutes: int) -> None:
        """Change the time limit of a waiting or running job; one that has ended is left alone."""
        what = f"set the time limit of job {job_id} to {minutes} minutes"
        body = {"time_limit": self._transport.speak().time_limit(minutes)}
        answer = self._transport.write("POST", f"/slurm/{{}}/job/{int(job_id)}", body, what)
        self._transport.check_write(answer, what, fine=_GONE)

    def cancel(self, job_id: int, *, signal: str | None = None) -> None:
        """Cancel a job, or only send `signal` (such as "USR1") to each of its processes.

        A job that has ended or is unknown is left alone. Some versions do not report a forbidden
        cancel. With these, the job is read again; OutcomeUnknown means that nothing happened to it.
        """
        if signal is not None:
            outgoing.check_signal(signal)
        what = f"cancel job {job_id}" if signal is None else f"send {signal} to job {job_id}"
        parameters = {} if signal is None else {"signal": signal}
        answer = self._transport.write(
            "DELETE", f"/slurm/{{}}/job/{int(job_id)}", None, what, parameters=parameters
        )
        self._transport.check_write(answer, what, fine=_GONE)
        if signal is None and not self._transport.speak().tells_failed_cancels:
            self._check_cancelled(job_id, what)

    def _check_cancelled(self, job_id: int, what: str) -> None:
        try:
            job = self.job(job_id)
        except ClusterUnavailable as error:
            raise OutcomeUnknown(f"{what}: {error}") from error
        if job and job.state in _LIVE_STATES and "COMPLETING" not in job.state_flags:
            raise OutcomeUnknown(
                f"{what}: it is still {job.state}; may {self._transport.service_user} cancel it?"
            )

    def nodes(self, *, odd: Callable[[str], None] | None = None) -> tuple[SlurmNode, ...]:
        """Return all nodes. With `odd`, invalid nodes are left out and reported to it."""
        return self._transport.read_list(
            "/slurm/{}/nodes", "nodes", lambda dialect: dialect.node, odd=odd
        )

    def partitions(self, *, odd: Callable[[str], None] | None = None) -> tuple[SlurmPartition, ...]:
        """Return all partitions. `odd` works as for nodes."""
        return self._transport.read_list(
            "/slurm/{}/partitions",
            "partitions",
            lambda dialect: dialect.partition,
            odd=odd,
            overlook=self._transport.speak().beside_partitions,
        )

    def set_node(self, node: str, *, drain: bool, reason: str) -> None:
        """Keep new work off a node, or let it in again. Needs a Slurm administrator.

        Resuming a node that is not drained changes nothing. Raises NotOffered on v0.0.38.
        """
        outgoing.check_name("node", node)
        outgoing.check_line("reason", reason)
        what = f"drain {node}" if drain else f"resume {node}"
        body = self._transport.speak().node_update(drain=drain, reason=reason)
        answer = self._transport.write("POST", f"/slurm/{{}}/node/{path_part(node)}", body, what)
        self._transport.check_write(answer, what, fine=frozenset({answers.NODE_STATE}))


def _job_id(answer: Answer) -> int | None:
    """Return the number of the job that a submission created, despite any errors."""
    body = answer.body or {}
    result = body.get("result")
    for place in (body, result if isinstance(result, Mapping) else {}):
        job_id = place.get("job_id")
        if isinstance(job_id, int) and not isinstance(job_id, bool) and job_id > 0:
            return job_id
    return None
