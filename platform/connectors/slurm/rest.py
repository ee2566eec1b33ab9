"""A client of slurmrestd that speaks the newest API version which both sides know.

Reads are sent again once when the connection was closed under them, writes never: a write whose
answer is lost raises OutcomeUnknown. The client knows no version; dialects.py does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import httpx

from connectors.errors import (
    AccountUndecided,
    AnotherCluster,
    ClusterUnavailable,
    ConnectorError,
    NotOffered,
    OutcomeUnknown,
    WorkloadRejected,
)
from connectors.slurm import answers, outgoing, tres
from connectors.slurm.answers import Answer, AuthenticationFailed, SlurmRefused
from connectors.slurm.dialects import DIALECTS, Dialect
from connectors.slurm.neutral import (
    Account,
    Association,
    Diag,
    HistoryJob,
    JobList,
    Qos,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    Submission,
    UnreadJob,
    User,
)

MAX_ANSWER_BYTES = 256 * 1024 * 1024
#: However little changed, the whole list is asked for at least this often.
FULL_LIST_EVERY_S = 60
#: A stub of the accounting that is older than this is all that there will ever be.
STUB_S = 600
#: A limit that nobody reaches, where none at all would not be heard of.
NO_LIMIT = 1_000_000_000
#: How many jobs of one list are looked at one by one for who holds their GPUs.
MAX_DETAILS = 100
#: Of one list so many records may make no sense; with more of them the answer is none.
ODD_RECORDS_MAX = 100
#: Questions about one job of the accounting; they hold up the look at everything else.
HISTORY_TIMEOUT_S = 10.0
#: An answer that trickles may take this many read time-outs in all.
_WHOLE_ANSWER_TIMEOUTS = 4
# The window is asked for from "now" on, whatever the time zone of the server is; this much is
# asked for on both sides and cut off here, for clocks that differ.
_HISTORY_MARGIN_S = 120
_GONE = frozenset({answers.NO_SUCH_JOB, answers.ALREADY_DONE})
_NOTHING_TO_DO = frozenset({answers.NO_CHANGE, answers.NOTHING_FOUND})
# Errors in which slurmrestd says that it could not read a part of a request.
_PARSING = range(9000, 9900)
_LIVE_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED"})

_NEVER_SENT = (
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout),
    *(httpx.LocalProtocolError, httpx.UnsupportedProtocol),
)

Item = TypeVar("Item")


class TokenSource(Protocol):
    """Who hands out the tokens of the cluster's users."""

    def token_for(self, user: str) -> str:
        """A token of `user` that is good for at least a minute. Raises ClusterUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept:
    """The last whole list of jobs, for the answers that only say "unchanged"."""

    version: str
    asked_at: int
    full_at_s: float
    jobs: tuple[SlurmJob, ...]
    unread: tuple[UnreadJob, ...]


class SlurmRest:
    """One cluster, for several threads at once.

    Reads raise ClusterUnavailable. Writes raise ClusterUnavailable only when they certainly had
    no effect, OutcomeUnknown when nobody knows, SlurmRefused on a definite no and NotOffered on
    what this version can not do. Everything but `submit` is done as `service_user`.

    With `cluster`, the name that it must have, nothing is written before it has said its name, and
    every answer in which it says another one raises AnotherCluster.
    """

    def __init__(
        self,
        url: str,
        tokens: TokenSource,
        *,
        service_user: str,
        version: str | None = None,
        cluster: str | None = None,
        read_timeout_s: float = 30.0,
        connect_timeout_s: float = 3.0,
        transport: httpx.BaseTransport | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if version is not None and version not in DIALECTS:
            raise NotOffered(f"API {version} is none of {', '.join(DIALECTS)}")
        self._tokens = tokens
        self._service_user = service_user
        self._pinned = version
        self._wanted = cluster
        self._told: str | None = None
        self._dialect: Dialect | None = None
        self._kept: _Kept | None = None
        self._monotonic_s = monotonic_s
        self._answer_timeout_s = read_timeout_s * _WHOLE_ANSWER_TIMEOUTS
        self._lock = threading.Lock()
        self._qos_writes = 0
        self._http = httpx.Client(
            base_url=url,
            timeout=httpx.Timeout(read_timeout_s, connect=connect_timeout_s),
            transport=transport,
            follow_redirects=False,
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections. The client must not be used afterwards."""
        self._http.close()

    @property
    def version(self) -> str:
        """The API version in use; asks the cluster when it is not known yet."""
        return self._speak().version

    @property
    def cluster(self) -> str | None:
        """The name that the cluster last said it has; None before it said one."""
        return self._told

    def check_cluster(self) -> None:
        """Have it say its name, from its accounting if not otherwise. Raises AnotherCluster, and
        ClusterUnavailable where it cannot be had."""
        self._told = None
        self.ping()
        if self._told is None:
            self.jobs()
        if self._told is None:
            self.ask_accounting_who_it_is()

    def ask_accounting_who_it_is(self) -> None:
        """Compare its name with those that its accounting knows. Raises as `check_cluster`."""
        names = self.clusters()
        if self._wanted is not None and self._wanted in names:
            self._told = self._wanted
        elif len(names) == 1:
            self._note(names)
        elif self._wanted is not None:
            raise _another(self._wanted, " or ".join(sorted(names)) or "no cluster")

    def _note(self, names: Collection[str]) -> None:
        """It has said its name. Several names say nothing."""
        if len(names) != 1:
            return
        (name,) = names
        self._told = name
        if self._wanted is not None and name != self._wanted:
            raise _another(self._wanted, name)

    # The controller.

    def ping(self) -> bool:
        """Whether the controller answers. Raises ClusterUnavailable when slurmrestd itself does
        not, or refuses us."""
        answer = self._read("/slurm/{}/ping")
        error = answer.error
        if error and answers.verdict(error.number) is not answers.Verdict.AUTHENTICATION:
            self._raise_refused_token(answer, "ping", self._service_user)
            return False
        body = answers.check_read(answer, "ping")
        return self._speak().is_responding(answers.records(body, "pings"))

    def diag(self) -> Diag:
        """The controller's statistics."""
        body = self._get("/slurm/{}/diag", "statistics")
        statistics = body.get("statistics")
        if not isinstance(statistics, Mapping):
            raise ClusterUnavailable("the cluster's answer has no statistics")
        return self._speak().diag(statistics)

    def jobs(self) -> JobList:
        """Every job that the controller knows, as one complete list.

        The last list stands in for answers that say "unchanged"; it is never older than
        FULL_LIST_EVERY_S.
        """
        dialect = self._speak()
        # By the controller's clock, before the list: what changes later is asked for next time.
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
            parameters["update_time"] = str(kept.asked_at - 1)
        answer = self._read("/slurm/{}/jobs", parameters)
        if self._speak() is not dialect:
            raise ClusterUnavailable("the cluster's API version changed; ask again")
        if kept and answer.status == 304 and answer.body is None:
            fresh = replace(kept, asked_at=asked_at)
        else:
            body = self._checked(answer, "job list")
            records = answers.records(body, "jobs")
            self._note(
                {name for one in records if isinstance(name := one.get("cluster"), str)} - {""}
            )
            if not records and dialect.is_unchanged(body, answer.warnings):
                if kept is None:
                    raise ClusterUnavailable("the cluster has no changes to a list never given")
                fresh = replace(kept, asked_at=asked_at)
            else:
                read, unread = _read_jobs(records, dialect)
                jobs = self._with_details(read)
                fresh = _Kept(dialect.version, asked_at, now_s, jobs, unread)
        with self._lock:
            self._kept = fresh
        return JobList(asked_at, fresh.jobs, fresh.unread)

    @property
    def last_jobs(self) -> tuple[SlurmJob, ...]:
        """The jobs of the last list, the same object until there is another; asks nobody."""
        with self._lock:
            return () if self._kept is None else self._kept.jobs

    def _with_details(self, jobs: list[SlurmJob]) -> tuple[SlurmJob, ...]:
        """Who holds the GPUs of the running jobs of which the list does not tell it."""
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
                    job = replace(job, gpus_by_node=seen.gpus_by_node)
            found.append(job)
        return tuple(found)

    def job(self, job_id: int) -> SlurmJob | None:
        """One job, or None when the controller says that it has none of this number."""
        answer = self._read(f"/slurm/{{}}/job/{int(job_id)}")
        if answer.error and answer.error.number == answers.NO_SUCH_JOB:
            return None
        dialect = self._speak()
        records = answers.records(self._checked(answer, f"job {job_id}"), "jobs")
        # The number of a job array also answers with its started tasks.
        for job in map(dialect.job, records):
            if job.job_id == job_id:
                return job
        raise ClusterUnavailable(f"the cluster's answer for job {job_id} does not hold it")

    def submit(self, user: str, submission: Submission) -> int:
        """Submit as `user` and return the job's number.

        Raises WorkloadRejected when the cluster (or we, for text that it can not carry) says no,
        OutcomeUnknown when there may be a job, ClusterUnavailable when there certainly is none.
        A job that was accepted with a part of the request left out is taken off again.
        """
        outgoing.check_submission(submission)
        what = f"submit {submission.name}"
        answer = self._write(
            "POST", "/slurm/{}/job/submit", self._speak().submission(submission), what, user=user
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

    def set_hold(self, job_id: int, held: bool) -> None:
        """Hold a pending job so that its user can not release it, or release it.

        A running job that is held runs on and stays held should it be requeued.
        """
        what = f"{'hold' if held else 'release'} job {job_id}"
        answer = self._write("POST", f"/slurm/{{}}/job/{int(job_id)}", {"hold": held}, what)
        self._check_write(answer, what)

    def cancel(self, job_id: int, *, signal: str | None = None) -> None:
        """Cancel a job, or only send `signal` (such as "USR1") to every process of it.

        A job that has ended or is unknown is left alone. With versions that do not say when a
        cancel was not allowed, the job is read again: OutcomeUnknown if nothing happened to it.
        """
        if signal is not None:
            outgoing.check_signal(signal)
        what = f"cancel job {job_id}" if signal is None else f"send {signal} to job {job_id}"
        parameters = {} if signal is None else {"signal": signal}
        answer = self._write(
            "DELETE", f"/slurm/{{}}/job/{int(job_id)}", None, what, parameters=parameters
        )
        self._check_write(answer, what, fine=_GONE)
        if signal is None and not self._speak().tells_failed_cancels:
            self._check_cancelled(job_id, what)

    def _check_cancelled(self, job_id: int, what: str) -> None:
        try:
            job = self.job(job_id)
        except ClusterUnavailable as error:
            raise OutcomeUnknown(f"{what}: {error}") from error
        if job and job.state in _LIVE_STATES and "COMPLETING" not in job.state_flags:
            raise OutcomeUnknown(
                f"{what}: it is still {job.state}; may {self._service_user} cancel it?"
            )

    def nodes(self, *, odd: Callable[[str], None] | None = None) -> tuple[SlurmNode, ...]:
        """All nodes. With `odd`, which is told of them, without those that make no sense."""
        return self._list("/slurm/{}/nodes", "nodes", lambda dialect: dialect.node, odd=odd)

    def partitions(self, *, odd: Callable[[str], None] | None = None) -> tuple[SlurmPartition, ...]:
        """All partitions. `odd` as for nodes."""
        return self._list(
            "/slurm/{}/partitions", "partitions", lambda dialect: dialect.partition, odd=odd
        )

    def set_node(self, node: str, *, drain: bool, reason: str) -> None:
        """Keep new work off a node, or let it in again. Needs an administrator of Slurm.

        A node that is not drained stays as it is. Raises NotOffered on v0.0.38.
        """
        outgoing.check_name("node", node)
        outgoing.check_line("reason", reason)
        what = f"drain {node}" if drain else f"resume {node}"
        body = self._speak().node_update(drain=drain, reason=reason)
        answer = self._write("POST", f"/slurm/{{}}/node/{_part(node)}", body, what)
        self._check_write(answer, what, fine=frozenset({answers.NODE_STATE}))

    # The accounting.

    def history(
        self,
        *,
        start: int,
        end: int,
        account: str | None = None,
        listed: Collection[str] = (),
    ) -> tuple[HistoryJob, ...]:
        """Every run that was eligible before `end` and had not ended before `start` (epoch
        seconds), complete: one record for each run, a requeued job has several.

        Jobs that are held have no record yet. A short job's first record is a stub for some
        seconds, which raises ClusterUnavailable: ask for windows that ended a minute ago, or say
        which jobs are `listed` anyway.
        """
        if account is not None:
            outgoing.check_name("account", account)
        if end < start:
            raise ValueError("a window of the history must not end before it starts")
        now = self.diag().observed_at
        parameters = {
            "start_time": _from_now(start - _HISTORY_MARGIN_S - now),
            "end_time": _from_now(end + _HISTORY_MARGIN_S - now),
            "skip_steps": "true",
        }
        if account is not None:
            parameters["account"] = account
        runs = [
            run
            for run in self._runs("/slurmdb/{}/jobs", parameters)
            if (run.eligible_time or run.start_time or run.submit_time) < end
            and (run.end_time is None or run.end_time >= start)
            and account in (None, run.account)
        ]
        _check_arrived([run for run in runs if str(run.job_id) not in listed], now)
        return tuple(runs)

    def job_history(self, job_id: int) -> tuple[HistoryJob, ...]:
        """Every run that the accounting has of a job, oldest first; () when it has none."""
        runs = [
            run
            for run in self._runs(f"/slurmdb/{{}}/job/{int(job_id)}", {}, HISTORY_TIMEOUT_S)
            if run.job_id == job_id
        ]
        if runs:
            _check_arrived(runs, self.diag().observed_at)
        return tuple(sorted(runs, key=lambda run: (run.submit_time, run.start_time or 0)))

    def _runs(
        self, path: str, parameters: Mapping[str, str], timeout_s: float | None = None
    ) -> list[HistoryJob]:
        answer = self._read(path, parameters, timeout_s)
        # Errors first: with its database down, v0.0.38 answers 200 and an empty list.
        if answer.error and answer.error.number == answers.NOTHING_FOUND:
            return []
        dialect = self._speak()
        records = answers.records(self._checked(answer, "history"), "jobs")
        return [dialect.history(record) for record in records]

    def clusters(self) -> tuple[str, ...]:
        """The names of the clusters that the accounting knows."""
        return self._list(
            "/slurmdb/{}/clusters", "clusters", lambda _: lambda record: str(record.get("name"))
        )

    def tracked_resources(self) -> tuple[str, ...]:
        """The names of what the accounting counts, such as "gres/gpu:h100"."""
        return self._list(
            "/slurmdb/{}/tres",
            "tres",
            lambda _: (
                lambda record: tres.joined_name(
                    str(record.get("type")), str(record.get("name") or "")
                )
            ),
            keys=("TRES", "tres"),
        )

    def accounts(self) -> tuple[Account, ...]:
        """All accounts."""
        return self._list("/slurmdb/{}/accounts", "accounts", lambda dialect: dialect.read_account)

    def associations(
        self, *, account: str | None = None, user: str | None = None
    ) -> tuple[Association, ...]:
        """All associations, or those of one account or user."""
        parameters = {}
        for key, name in (("account", account), ("user", user)):
            if name is not None:
                outgoing.check_name(key, name)
                parameters[key] = name
        found = self._list(
            "/slurmdb/{}/associations",
            "associations",
            lambda dialect: dialect.read_association,
            parameters,
        )
        return tuple(
            item for item in found if account in (None, item.account) and user in (None, item.user)
        )

    def qos(self, *, timeout_s: float | None = None) -> tuple[Qos, ...]:
        """All qualities of service; asked for `timeout_s` where that is shorter than usual."""
        dialect = self._speak()
        return self._list(
            "/slurmdb/{}/qos",
            "qos",
            lambda dialect: dialect.read_qos,
            keys=dialect.qos_keys,
            timeout_s=timeout_s,
        )

    @property
    def qos_writes(self) -> int:
        """How often a quality of service was written or removed here."""
        return self._qos_writes

    def users(self) -> tuple[User, ...]:
        """All users of the accounting."""
        return self._list("/slurmdb/{}/users", "users", lambda dialect: dialect.read_user)

    def put_account(self, account: Account) -> None:
        """Make an account or change its words. Where it stands is its association's matter."""
        outgoing.check_name("account", account.name)
        outgoing.check_line("description", account.description)
        outgoing.check_line("organization", account.organization)
        body = {"accounts": [self._speak().account(account)]}
        self._put("/slurmdb/{}/accounts", body, f"write account {account.name}")

    @property
    def changes_accounts_by_detour(self) -> bool:
        """Whether an account's own association changes only when it gets another parent."""
        return not self._speak().changes_account_associations

    def put_association(
        self,
        association: Association,
        *,
        detour: str | None = None,
        known: Collection[Association] | None = None,
    ) -> None:
        """Make an association or change it. Limits that it does not name stay as they are. `known`
        are all of the account, where they were just read.

        v0.0.38 changes an account's own association only together with its parent. So the
        account is moved below `detour`, an account that must exist, and back at once; its
        parent's limits do not count in between. Raises NotOffered there without a detour.
        """
        outgoing.check_association(association)
        if not association.user and self.changes_accounts_by_detour:
            present = self.associations(account=association.account) if known is None else known
            for item in present:
                if (item.cluster, item.user) == (association.cluster, ""):
                    if _differs(association, item):
                        self._move_and_change(association, item, detour)
                    return
        self._write_association(association)

    def _move_and_change(
        self, association: Association, known: Association, detour: str | None
    ) -> None:
        """slurmdbd skips the change of an account that "is moved" to the parent that it has,
        and v0.0.38 always says the parent.

        It does not tell the controller of a limit that is cleared, which would go by it until its
        next start. So on the way the limit is first raised out of reach, of which it is told.
        """
        parent = association.parent_account or known.parent_account
        if parent == known.parent_account and detour is None:
            raise NotOffered(
                f"API {self.version} can not change the association of account "
                f"{association.account}; use sacctmgr"
            )
        whole = replace(
            association,
            # What is left out is cleared on the way, and no limit at all kills slurmrestd.
            group_tres={"cpu": None, **known.group_tres, **association.group_tres},
            qos=association.qos or known.qos,
            default_qos=association.default_qos or known.default_qos,
            shares=known.shares if association.shares is None else association.shares,
        )
        raised = {
            name: NO_LIMIT
            for name, limit in association.group_tres.items()
            if limit is None and name in known.group_tres
        }
        if parent == known.parent_account or (
            raised and detour not in (None, known.parent_account)
        ):
            away = {**whole.group_tres, **raised}
            self._write_association(replace(whole, parent_account=detour or "", group_tres=away))
        self._write_association(replace(whole, parent_account=parent))

    def _write_association(self, association: Association) -> None:
        body = {"associations": [self._speak().association(association)]}
        self._put(
            "/slurmdb/{}/associations",
            body,
            f"write association {association.account}/{association.user}",
        )

    def put_qos(self, qos: Qos, *, known: Collection[Qos] | None = None) -> None:
        """Make a quality of service or change it to exactly `qos`, and read it again: raises
        NotOffered when the cluster kept something else. `known` are all that there are, where
        they were just read."""
        outgoing.check_qos(qos)
        before = self.qos() if known is None else known
        present = next((item for item in before if item.name == qos.name), None)
        dialect = self._speak()
        body = {dialect.qos_keys[0]: [dialect.qos(qos, known=present)]}
        try:
            self._put("/slurmdb/{}/qos", body, f"write QOS {qos.name}")
        finally:
            self._count_qos_write()
        kept = next((item for item in self.qos() if item.name == qos.name), None)
        if kept is None or _rules(kept) != _rules(qos):
            raise NotOffered(f"API {self.version} did not take the whole of QOS {qos.name}: {kept}")

    def put_user(self, user: User) -> None:
        """Make a user of the accounting or change it."""
        outgoing.check_name("user", user.name)
        body = {"users": [self._speak().user(user)]}
        self._put("/slurmdb/{}/users", body, f"write user {user.name}")

    def delete_account(self, name: str) -> None:
        """Remove an account with its associations; one that is not there is no error."""
        self._delete("account", name)

    def delete_qos(self, name: str) -> None:
        """Remove a quality of service; one that is not there is no error."""
        try:
            self._delete("qos", name)
        finally:
            self._count_qos_write()

    def _count_qos_write(self) -> None:
        with self._lock:
            self._qos_writes += 1

    def delete_association(self, account: str, *, cluster: str, user: str) -> None:
        """Take a user out of an account; one that is not in it is no error."""
        # Without a user it would take every user of the account.
        parameters = {"account": account, "cluster": cluster, "user": user}
        for key, name in parameters.items():
            outgoing.check_name(key, name)
        what = f"delete association {account}/{user}"
        answer = self._write("DELETE", "/slurmdb/{}/association", None, what, parameters=parameters)
        self._check_removal(answer, what)

    def _delete(self, kind: str, name: str) -> None:
        outgoing.check_name(kind, name)
        what = f"delete {kind} {name}"
        answer = self._write("DELETE", f"/slurmdb/{{}}/{kind}/{_part(name)}", None, what)
        self._check_removal(answer, what)

    def _check_removal(self, answer: Answer, what: str) -> None:
        if answer.status != 304 or answer.errors:
            self._check_write(answer, what, fine=_NOTHING_TO_DO)

    def _put(self, path: str, body: Mapping[str, Any], what: str) -> None:
        answer = self._write("POST", path, body, what)
        if answer.status != 304 or answer.errors:
            self._check_write(answer, what, fine=frozenset({answers.NO_CHANGE}))

    # One call.

    def _list(
        self,
        path: str,
        key: str,
        decoder: Callable[[Dialect], Callable[[Mapping[str, Any]], Item]],
        parameters: Mapping[str, str] | None = None,
        *,
        keys: tuple[str, ...] = (),
        odd: Callable[[str], None] | None = None,
        timeout_s: float | None = None,
    ) -> tuple[Item, ...]:
        answer = self._read(path, parameters, timeout_s)
        if answer.error and answer.error.number == answers.NOTHING_FOUND:
            return ()
        body = self._checked(answer, key)
        decode = decoder(self._speak())
        records = answers.records(body, *(keys or (key,)))
        if odd is None:
            return tuple(decode(record) for record in records)
        found, unread = _sensible(records, decode)
        for record, error in unread:
            odd(f"{key} {str(record.get('name'))[:60]!r} makes no sense: {error}")
        return tuple(found)

    def _get(
        self, path: str, what: str, parameters: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        return self._checked(self._read(path, parameters), what)

    def _checked(self, answer: Answer, what: str) -> Mapping[str, Any]:
        """The body of a good answer. Raises AuthenticationFailed for a refused token even where
        the version shows it like a dead controller."""
        try:
            return answers.check_read(answer, what)
        except AuthenticationFailed:
            raise
        except ClusterUnavailable:
            self._raise_refused_token(answer, what, self._service_user)
            raise

    def _check_write(
        self, answer: Answer, what: str, *, fine: frozenset[int] = frozenset()
    ) -> None:
        """As answers.check_write, and a service user without the right makes the cluster
        unusable, not a workload wrong."""
        try:
            answers.check_write(answer, what, fine=fine)
        except OutcomeUnknown:
            self._raise_refused_token(answer, what, self._service_user)
            raise
        except SlurmRefused as error:
            if error.number in (answers.PERMISSION, answers.NO_SUCH_USER):
                raise ClusterUnavailable(
                    f"{what}: {self._service_user} is not allowed to; make it an operator or "
                    f"administrator of Slurm ({error})"
                ) from error
            raise

    def _explained(self, answer: Answer, what: str, user: str) -> Exception:
        """Why a submission made no job."""
        error = answers.failure(answer, what)
        if isinstance(error, OutcomeUnknown):
            self._raise_refused_token(answer, what, user)
        return error

    def _raise_refused_token(self, answer: Answer, what: str, user: str) -> None:
        """v0.0.38 shows a refused token like a dead controller (-1), and writes like broken
        connections (1000, 5005); its accounting side names it (1007) and needs no controller.
        Tokens last longer than a call, so one that is refused now was refused then."""
        error = answer.error
        if error is None or answers.verdict(error.number) is not answers.Verdict.UNKNOWN:
            return
        if not self._speak().hides_refused_tokens:
            return
        try:
            error = self._call("GET", "/slurmdb/{}/clusters", user=user).error
        except ConnectorError:
            return
        if error and answers.verdict(error.number) is answers.Verdict.AUTHENTICATION:
            raise AuthenticationFailed(
                f"the cluster refuses the token of {user} ({what}); {answers.REFUSAL_HINT}"
            )

    def _read(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """GET, once more on a connection that was closed under it."""
        try:
            try:
                answer = self._call("GET", path, parameters=parameters, timeout_s=timeout_s)
            except _ConnectionClosed:
                answer = self._call("GET", path, parameters=parameters, timeout_s=timeout_s)
        except NotOffered as error:
            # Every version has every read, so that this is not slurmrestd, or not all of it.
            raise ClusterUnavailable(str(error)) from error
        if answer.cluster:
            self._note({answer.cluster})
        return answer

    def _write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        what: str,
        *,
        parameters: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Answer:
        if self._wanted is not None and self._told != self._wanted:
            self.check_cluster()
        try:
            answer = self._call(method, path, parameters=parameters, body=body, user=user)
        except _NotAnswered as error:
            raise OutcomeUnknown(f"{what}: {error}") from error
        # What another cluster says of a job is not said of ours: "no such job" least of all.
        if answer.cluster:
            self._note({answer.cluster})
        return answer

    def _call(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """One call in the version in use. An address that is gone asks for the version again,
        once: nothing was done then, so that a write may be sent again too."""
        dialect = self._speak()
        who = self._service_user if user is None else user
        answer = self._send(method, path.format(dialect.version), parameters, body, who, timeout_s)
        if answer.is_absent and self._pinned is None:
            with self._lock:
                if self._dialect is dialect:
                    self._dialect = None
            again = self._speak()
            if again is not dialect:
                if body is not None:
                    raise ClusterUnavailable("the cluster's API version changed; send again")
                path_again = path.format(again.version)
                answer = self._send(method, path_again, parameters, body, who, timeout_s)
        if answer.is_absent:
            raise NotOffered(f"the cluster has no {method} {path.format(dialect.version)}")
        return answer

    def _speak(self) -> Dialect:
        """The dialect in use. The versions are tried newest first: 404 is one that is absent."""
        dialect = self._dialect
        if dialect is not None:
            return dialect
        for version in (self._pinned,) if self._pinned else DIALECTS:
            answer = self._ping_version(version)
            if not answer.is_absent:
                if answer.status == 401:
                    raise AuthenticationFailed(
                        f"the cluster refuses the token of {self._service_user}; "
                        f"{answers.REFUSAL_HINT}"
                    )
                with self._lock:
                    self._dialect = DIALECTS[version]
                return DIALECTS[version]
        raise ClusterUnavailable(
            f"the cluster offers none of the API versions {self._pinned or ', '.join(DIALECTS)}; "
            "is this slurmrestd's address?"
        )

    def _ping_version(self, version: str) -> Answer:
        def ping() -> Answer:
            return self._send("GET", f"/slurm/{version}/ping", None, None, self._service_user)

        try:
            try:
                return ping()
            except _ConnectionClosed:
                return ping()
        except _NotAnswered as error:
            # Of whatever the version is wanted for, nothing was sent yet.
            raise ClusterUnavailable(str(error)) from error

    def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        user: str,
        timeout_s: float | None = None,
    ) -> Answer:
        """One request. Raises ClusterUnavailable when it was certainly not sent, and
        _NotAnswered or _ConnectionClosed when it may have been carried out."""
        outgoing.check_name("user", user)
        headers = {
            "X-SLURM-USER-NAME": user,
            "X-SLURM-USER-TOKEN": self._tokens.token_for(user),
            "Accept-Encoding": "identity",
        }
        request = self._http.build_request(
            method, path, params=parameters or None, json=body, headers=headers
        )
        whole_s = self._answer_timeout_s
        if timeout_s is not None:
            whole_s = timeout_s * _WHOLE_ANSWER_TIMEOUTS
            limits_s = {"read": timeout_s, "write": timeout_s}
            request.extensions["timeout"] = {**request.extensions["timeout"], **limits_s}
        until_s = self._monotonic_s() + whole_s
        content = bytearray()
        try:
            response = self._http.send(request, stream=True)
            try:
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise _NotAnswered(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
                    if self._monotonic_s() > until_s:
                        raise _NotAnswered("the answer took too long")
            finally:
                response.close()
        except _NEVER_SENT as error:
            raise ClusterUnavailable(f"no connection to the cluster: {error}") from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise _ConnectionClosed(f"the cluster closed the connection: {error}") from error
        except httpx.TimeoutException as error:
            seconds = self._http.timeout.read if timeout_s is None else timeout_s
            raise _NotAnswered(f"the cluster did not answer within {seconds:g} s") from error
        except httpx.HTTPError as error:
            raise _NotAnswered(f"the cluster did not answer: {error!r}") from error
        return answers.read_answer(response.status_code, bytes(content))


class _NotAnswered(ClusterUnavailable):
    """The request may have reached the cluster; there is no answer."""


class _ConnectionClosed(_NotAnswered):
    """The connection ended before the answer did."""


def _another(wanted: str, found: str) -> AnotherCluster:
    return AnotherCluster(
        f"this address answers as {found[:100]}, and {wanted} is what answered before; nothing of "
        f"it is believed and nothing is sent. Let the address lead to {wanted} again"
    )


def _sensible(
    records: Sequence[Mapping[str, Any]], decode: Callable[[Mapping[str, Any]], Item]
) -> tuple[list[Item], list[tuple[Mapping[str, Any], Exception]]]:
    """What `records` say, and those that make no sense: one odd record is no reason to see
    nothing at all. Raises ClusterUnavailable when there are too many of them."""
    found: list[Item] = []
    odd: list[tuple[Mapping[str, Any], Exception]] = []
    for record in records:
        try:
            found.append(decode(record))
        except (ClusterUnavailable, ValueError, TypeError, OverflowError) as error:
            odd.append((record, error))
            if len(odd) > ODD_RECORDS_MAX:
                raise ClusterUnavailable(
                    f"more than {ODD_RECORDS_MAX} records of the cluster make no sense: {error}"
                ) from error
    return found, odd


def _read_jobs(
    records: Sequence[Mapping[str, Any]], dialect: Dialect
) -> tuple[list[SlurmJob], tuple[UnreadJob, ...]]:
    found, odd = _sensible(records, dialect.job)
    return found, tuple(
        UnreadJob(number if type(number) is int else None, str(error))
        for record, error in odd
        for number in (record.get("job_id"),)
    )


def _job_id(answer: Answer) -> int | None:
    """The number of the job that a submission made: it exists, whatever else is said."""
    body = answer.body or {}
    result = body.get("result")
    for place in (body, result if isinstance(result, Mapping) else {}):
        job_id = place.get("job_id")
        if isinstance(job_id, int) and not isinstance(job_id, bool) and job_id > 0:
            return job_id
    return None


def _differs(wanted: Association, known: Association) -> bool:
    """Whether writing `wanted` would change `known`."""
    return (
        any(known.group_tres.get(name) != limit for name, limit in wanted.group_tres.items())
        or wanted.parent_account not in ("", known.parent_account)
        or (wanted.qos != () and set(wanted.qos) != set(known.qos))
        or wanted.default_qos not in (None, known.default_qos)
        or wanted.shares not in (None, known.shares)
    )


def _rules(qos: Qos) -> tuple[object, ...]:
    """What a quality of service does; the order of its lists and its words are no part of it."""
    return (
        *(qos.priority, qos.grace_s, set(qos.flags), set(qos.preempts), set(qos.preempt_mode)),
        *(dict(qos.group_tres), dict(qos.user_tres), dict(qos.job_tres)),
    )


def _from_now(offset_s: int) -> str:
    """A time in the form that every version reads alike, in any time zone."""
    return f"now{'+' if offset_s >= 0 else '-'}{abs(offset_s)}seconds"


def _check_arrived(runs: list[HistoryJob], now: int) -> None:
    """The accounting hears of a job's steps before the job: until then it makes up a record with
    no partition, one node and another name."""
    for run in runs:
        if not run.partition and (run.start_time or run.submit_time) > now - STUB_S:
            raise AccountUndecided(f"the accounting has only a stub of job {run.job_id} yet")


def _part(name: str) -> str:
    return quote(name, safe="")
