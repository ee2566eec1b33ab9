"""Every difference between the versions of Slurm's REST API.

v0.0.38 uses plain values. v0.0.40 and later wrap most numbers in {set, infinite, number} and rename
many fields. The rest of the code asks a Dialect and knows no version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from connectors.errors import ClusterUnavailable, NotOffered
from connectors.slurm import tres, values
from connectors.slurm.answers import NO_DATABASE, Verdict, verdict
from connectors.slurm.neutral import (
    Account,
    Association,
    Diag,
    HistoryJob,
    Qos,
    RunUse,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    StepUse,
    Submission,
    User,
)
from connectors.slurm.values import Record

_NODE_STATES = ("IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "FUTURE", "UNKNOWN")


class Dialect(ABC):
    """Encoders and decoders of one API version.

    Decoders raise ClusterUnavailable on invalid records.
    """

    version: str
    #: The path that reports a refused token as such. Other paths may report a daemon that is down.
    refusal_path: str
    #: DELETE of a job says when it was not allowed.
    tells_failed_cancels: bool
    #: An account's own association can be changed once it is there.
    changes_account_associations: bool
    #: A node can be drained and resumed.
    changes_nodes: bool
    job_list_parameters: Mapping[str, str]
    qos_keys: tuple[str, ...]
    #: The beginning of an error that may accompany a correct list of partitions.
    beside_partitions: str | None
    _default_association: Mapping[str, Any]

    def __init__(self, version: str) -> None:
        self.version = version

    # What goes out.

    @abstractmethod
    def submission(self, submission: Submission) -> dict[str, Any]:
        """Return the body of a submit call."""

    @abstractmethod
    def node_update(self, *, drain: bool, reason: str) -> dict[str, Any]:
        """Return the body of a node update. Raises NotOffered."""

    def time_limit(self, minutes: int) -> Any:
        """Return the time limit of a job, for an update."""
        return self._out_number(minutes)

    def association(self, association: Association) -> dict[str, Any]:
        """Return the record of one association to write."""
        # An account's own association has user null: "" stores it without a parent, and without
        # the key v0.0.38 stores it with an error and the others not at all.
        body: dict[str, Any] = {
            "account": association.account,
            "cluster": association.cluster,
            "user": association.user or None,
            **_association_parts(association),
        }
        if association.is_default:
            body.update(self._default_association)
        return body

    @abstractmethod
    def changed_since(self, time: int) -> str:
        """Return the `update_time` that asks for changes since an epoch second."""

    @abstractmethod
    def may_be_a_refused_token(self, error_number: int | None) -> bool:
        """Return whether an error may hide a refused token.

        A call of `refusal_path` then decides.
        """

    def user(self, user: User) -> dict[str, Any]:
        """Return the record of one user to write."""
        body: dict[str, Any] = {"name": user.name}
        if user.default_account:
            body["default"] = {"account": user.default_account}
        if user.admin_level is not None:
            body["administrator_level"] = self._admin_level(user.admin_level)
        return body

    @abstractmethod
    def new_user(self, user: str, *, account: str, cluster: str) -> tuple[str, dict[str, Any]]:
        """Return path and body that create a user of the accounting as a member of `account`."""

    @abstractmethod
    def _admin_level(self, level: str) -> Any: ...

    def account(self, account: Account) -> dict[str, Any]:
        """Return the record of one account to write."""
        return {
            "name": account.name,
            "description": account.description,
            "organization": account.organization,
        }

    def qos(self, qos: Qos, *, known: Qos | None) -> dict[str, Any]:
        """Return the record of one quality of service to write.

        Limits of `known`, its present state, that `qos` lacks are cleared explicitly: the cluster
        would keep them. In contrast, it resets a mode and flags that are left out.
        """
        before = known or Qos(qos.name)
        limits: dict[str, Any] = {"grace_time": qos.grace_s}
        total = _limits(qos.group_tres, before.group_tres)
        per = {
            "user": _limits(qos.user_tres, before.user_tres),
            "job": _limits(qos.job_tres, before.job_tres),
        }
        # An empty list among the limits of an association kills slurmrestd of v0.0.38, so none
        # goes out here either.
        limited: dict[str, Any] = {"total": total} if total else {}
        if any(per.values()):
            limited["per"] = {key: entries for key, entries in per.items() if entries}
        if limited:
            limits["max"] = {"tres": limited}
        return {
            "name": qos.name,
            "description": qos.description or qos.name,
            "priority": self._out_number(qos.priority),
            "flags": list(qos.flags),
            "limits": limits,
            "preempt": {
                "list": list(qos.preempts) or self._no_preempts(before.preempts),
                "mode": list(qos.preempt_mode),
            },
        }

    @abstractmethod
    def _no_preempts(self, before: tuple[str, ...]) -> list[str]:
        """Return the list that removes `before` from the preemptable qualities of service."""

    @abstractmethod
    def _out_number(self, number: int) -> Any: ...

    # What comes in.

    @abstractmethod
    def _number(self, value: Any) -> int | None:
        """Return an integer, or None for an unset or unlimited value."""

    @abstractmethod
    def _exit(self, record: Record) -> tuple[int | None, int | None]:
        """Return exit code and signal of an ended job of the controller."""

    @abstractmethod
    def _is_up(self, ping: Record) -> bool: ...

    @abstractmethod
    def partition(self, record: Record) -> SlurmPartition:
        """Return one partition."""

    def is_responding(self, pings: list[Record]) -> bool:
        """Return whether a controller answers."""
        return any(self._is_up(ping) for ping in pings)

    def is_unchanged(self, body: Record, warnings: tuple[str, ...]) -> bool:
        """Return whether an empty list of jobs means that the previous list is unchanged."""
        return any(text.startswith("No job changes") for text in warnings)

    def diag(self, statistics: Record) -> Diag:
        """Return the controller's clock, and the backlog of the accounting."""
        return Diag(
            observed_at=self._required(statistics, "req_time"),
            accounting_backlog=self._required(statistics, "dbd_agent_queue_size"),
        )

    def job(self, record: Record) -> SlurmJob:
        """Return one job of the controller."""
        job_id = self._required(record, "job_id")
        state, flags = values.job_state(record.get("job_state"))
        nodes = values.hosts(values.text(record, "nodes"))
        requested = values.gpus(values.text(record, "tres_req_str"))
        allocated = values.gpus(values.text(record, "tres_alloc_str"))
        types = values.types_by_node(record, nodes, allocated)
        exit_code, exit_signal = None, None
        if state in values.ENDED_STATES and "COMPLETING" not in flags:
            exit_code, exit_signal = self._exit(record)
        time_limit = self._number(record.get("time_limit"))
        return SlurmJob(
            job_id=job_id,
            name=values.text(record, "name"),
            user=values.text(record, "user_name"),
            account=values.text(record, "account"),
            partition=values.text(record, "partition"),
            qos=values.text(record, "qos"),
            comment=values.text(record, "comment"),
            state=state,
            state_flags=flags,
            reason=values.text(record, "state_reason"),
            is_held=state == "PENDING" and self._number(record.get("priority")) == 0,
            submit_time=self._required(record, "submit_time"),
            start_time=self._time(record.get("start_time")),
            end_time=self._time(record.get("end_time")),
            exit_code=exit_code,
            exit_signal=exit_signal,
            node_count=self._number(record.get("node_count")) or len(nodes),
            nodes=nodes,
            gpus_requested=requested,
            gpus_allocated=allocated,
            gpus_by_node=values.gpus_by_node(record, types, nodes, allocated),
            types_by_node=types,
            time_limit_s=None if time_limit is None else time_limit * 60,
            resize_time=self._time(record.get("resize_time")),
            restarts=self._number(record.get("restart_cnt")) or 0,
        )

    def node(self, record: Record) -> SlurmNode:
        """Return one node."""
        words = values.words(record.get("state")) + values.words(record.get("state_flags"))
        base = next((word for word in words if word in _NODE_STATES), "UNKNOWN")
        return SlurmNode(
            name=values.name(record),
            state=base,
            state_flags=frozenset(words) - {base},
            reason=values.text(record, "reason"),
            partitions=tuple(values.texts(record.get("partitions"))),
            features=tuple(values.texts(record.get("features"))),
            gpus=values.gpus(values.text(record, "tres")),
            has_shards="gres/shard=" in values.text(record, "tres")
            or any(one.startswith("shard:") for one in values.texts(record.get("gres"))),
            cpus=self._number(record.get("effective_cpus") or record.get("cpus")) or None,
            memory_mb=self._memory_mb(record),
        )

    def _memory_mb(self, record: Record) -> int | None:
        """Return the MiB of a node's memory that are available to jobs."""
        real = self._number(record.get("real_memory"))
        if not real:
            return None
        return max(0, real - (self._number(record.get("specialized_memory")) or 0))

    def history(self, record: Record) -> HistoryJob:
        """Return one run of a job from the accounting."""
        state, time, comment = (values.record(record, key) for key in ("state", "time", "comment"))
        allocated = values.record(record, "tres").get("allocated") or []
        base, flags = values.job_state(state.get("current"))
        end_time = self._time(time.get("end"))
        exit_code, exit_signal = (None, None)
        if end_time is not None:
            exit_code, exit_signal = self._history_exit(values.record(record, "exit_code"))
        if exit_code == 0 and base != "COMPLETED":
            # v0.0.38 gives 0 for every job that exited.
            exit_code = None
        limit = self._number(time.get("limit"))
        return HistoryJob(
            job_id=self._required(record, "job_id"),
            name=values.text(record, "name"),
            user=values.text(record, "user")
            or values.text(values.record(record, "association"), "user"),
            account=values.text(record, "account"),
            cluster=values.text(record, "cluster"),
            partition=values.text(record, "partition"),
            qos=values.text(record, "qos"),
            comment=values.text(comment, "job"),
            state=base,
            state_flags=flags,
            reason=values.text(state, "reason"),
            submit_time=self._required(time, "submission"),
            eligible_time=self._time(time.get("eligible")),
            start_time=self._time(time.get("start")),
            end_time=end_time,
            nodes=values.hosts(
                "" if record.get("nodes") == "None assigned" else values.text(record, "nodes")
            ),
            gpus=tres.gpus_of(self._tres(allocated)),
            exit_code=exit_code,
            exit_signal=exit_signal,
            time_limit_s=None if limit is None else limit * 60,
        )

    def run_use(self, record: Record) -> RunUse:
        """Return one run of a job from the accounting, with what its steps used."""
        given = self._tres(values.record(record, "tres").get("allocated") or [])
        steps = record.get("steps") or []
        if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
            raise ClusterUnavailable("the steps of a job are no list of records")
        return RunUse(
            self.history(record),
            given.get("cpu", 0),
            given.get("mem", 0),
            tuple(self._step_use(step) for step in steps),
        )

    def _step_use(self, step: Record) -> StepUse:
        total = values.record(values.record(step, "time"), "total")
        cpu_time_ms = 1_000 * (self._number(total.get("seconds")) or 0)
        cpu_time_ms += (self._number(total.get("microseconds")) or 0) // 1_000
        asked = values.record(values.record(step, "tres"), "requested")
        used = self._tres(asked.get("total") or [])
        return StepUse(
            is_batch=values.text(values.record(step, "step"), "name") == "batch",
            cpu_time_ms=cpu_time_ms,
            memory_bytes=used.get("mem"),
            gpu_percent=used.get("gres/gpuutil"),
            gpu_memory_bytes=used.get("gres/gpumem"),
        )

    def _history_exit(self, exit_code: Record) -> tuple[int | None, int | None]:
        found = values.record(exit_code, "signal")
        signal = self._number(found.get("id", found.get("signal_id")))
        if signal:
            return None, signal
        return self._number(exit_code.get("return_code")), None

    def read_account(self, record: Record) -> Account:
        """Return one account."""
        return Account(
            values.name(record),
            values.text(record, "description"),
            values.text(record, "organization"),
        )

    def read_association(self, record: Record) -> Association:
        """Return one association."""
        limits = values.record(values.record(record, "max"), "tres").get("total") or []
        user = values.text(record, "user")
        return Association(
            account=values.text(record, "account"),
            cluster=values.text(record, "cluster"),
            user=user,
            partition=values.text(record, "partition"),
            parent_account=values.text(record, "parent_account"),
            group_tres=dict(self._tres(limits)),
            qos=tuple(values.texts(record.get("qos"))),
            default_qos=values.text(values.record(record, "default"), "qos") or None,
            # 24.11 also sets it for an account's own association, which has no user.
            is_default=bool(user and record.get("is_default")),
            shares=self._number(record.get("shares_raw")),
        )

    def read_qos(self, record: Record) -> Qos:
        """Return one quality of service."""
        limits, preempt = values.record(record, "limits"), values.record(record, "preempt")
        limited = values.record(values.record(limits, "max"), "tres")
        per = values.record(limited, "per")
        return Qos(
            name=values.name(record),
            description=values.text(record, "description"),
            priority=self._number(record.get("priority")) or 0,
            flags=tuple(values.texts(record.get("flags"))),
            preempts=tuple(values.texts(preempt.get("list"))),
            preempt_mode=tuple(
                mode
                for mode in values.words(preempt.get("mode"))
                if mode not in ("DISABLED", "OFF")
            ),
            grace_s=self._number(limits.get("grace_time")) or 0,
            group_tres=self._tres(limited.get("total") or []),
            user_tres=self._tres(per.get("user") or []),
            job_tres=self._tres(per.get("job") or []),
        )

    def read_user(self, record: Record) -> User:
        """Return one user of the accounting."""
        levels = values.texts(record.get("administrator_level"))
        return User(
            values.name(record),
            values.text(values.record(record, "default"), "account"),
            levels[0] if levels else "None",
        )

    def _tres(self, entries: Any) -> dict[str, int]:
        """Return resource names and counts; an entry without a count limits nothing."""
        if not isinstance(entries, list):
            raise ClusterUnavailable("the cluster's resources are no list")
        found = {}
        for entry in entries:
            if not isinstance(entry, Mapping):
                raise ClusterUnavailable("one of the cluster's resources is no record")
            count = self._number(entry.get("count"))
            if count is not None:
                found[tres.joined_name(values.text(entry, "type"), values.text(entry, "name"))] = (
                    count
                )
        return found

    def _required(self, record: Record, key: str) -> int:
        number = self._number(record.get(key))
        if number is None:
            raise ClusterUnavailable(f"a record of the cluster has no {key}")
        return number

    def _time(self, value: Any) -> int | None:
        return self._number(value) or None


class _Plain(Dialect):
    """v0.0.38, of Slurm 22.05 and 23.02."""

    refusal_path = "/slurmdb/{}/clusters"
    tells_failed_cancels = True
    changes_nodes = False
    # It answers 200 and changes nothing, or slurmrestd dies.
    changes_account_associations = False
    job_list_parameters: Mapping[str, str] = {}
    # GET and POST of this version spell it QOS; its document spells it qos.
    qos_keys = ("QOS", "qos")
    beside_partitions = None
    _default_association: Mapping[str, Any] = {"flags": ["DEFAULT"]}

    def submission(self, submission: Submission) -> dict[str, Any]:
        # nodes as [2, 2], the documented form, silently means 1 node.
        job: dict[str, Any] = {
            "name": submission.name,
            "comment": submission.comment,
            "account": submission.account,
            "partition": submission.partition,
            "qos": submission.qos,
            "nodes": submission.node_count,
            "tasks": submission.all_tasks,
            "tasks_per_node": submission.tasks_per_node,
            "current_working_directory": submission.working_directory,
            "standard_output": submission.standard_output,
            "standard_error": submission.standard_error,
            "environment": dict(submission.environment),
            "hold": submission.hold,
            # Any value of `requeue`, false too, lets the job be requeued.
            "no_requeue": True,
        }
        optional = {
            "gres": f"gpu:{submission.gres_type}:{submission.gpus_per_node}"
            if submission.has_gpus
            else None,
            "cpus_per_task": submission.cpus_per_task,
            "memory_per_node": submission.memory_mb_per_node,
            "time_limit": submission.time_limit_minutes,
            "constraints": submission.constraint,
            "exclude_nodes": ",".join(submission.excluded_nodes) or None,
        }
        job.update({key: value for key, value in optional.items() if value is not None})
        return {"job": job, "script": submission.script}

    def node_update(self, *, drain: bool, reason: str) -> dict[str, Any]:
        raise NotOffered(f"API {self.version} can not drain or resume nodes; use scontrol")

    def changed_since(self, time: int) -> str:
        return str(time)

    def may_be_a_refused_token(self, error_number: int | None) -> bool:
        # -1 of the controller, 1000 and 5005 of writes.
        return verdict(error_number) is Verdict.UNKNOWN

    def new_user(self, user: str, *, account: str, cluster: str) -> tuple[str, dict[str, Any]]:
        return "/slurmdb/{}/users", {"users": [self.user(User(user))]}

    def _admin_level(self, level: str) -> Any:
        return level

    def _no_preempts(self, before: tuple[str, ...]) -> list[str]:
        # An empty list changes nothing; an empty name clears the list.
        return [""] if before else []

    def _out_number(self, number: int) -> Any:
        return number

    def _number(self, value: Any) -> int | None:
        return values.plain_number(value)

    def _exit(self, record: Record) -> tuple[int | None, int | None]:
        status = self._number(record.get("exit_code"))
        if status is None:
            return None, None
        signal = status & 0x7F
        return (None, signal) if signal else (status >> 8, None)

    def _is_up(self, ping: Record) -> bool:
        return ping.get("ping") == "UP"

    def partition(self, record: Record) -> SlurmPartition:
        limit = self._number(record.get("max_time_limit"))
        return SlurmPartition(
            name=values.name(record),
            state=values.text(record, "state").upper(),
            nodes=values.hosts(values.text(record, "nodes")),
            max_time_limit_s=None if limit is None else limit * 60,
            gpus=values.gpus(values.text(record, "tres")),
        )


class _Structured(Dialect):
    """v0.0.40 and later, of Slurm 23.11 and later."""

    refusal_path = "/slurm/{}/diag"
    changes_account_associations = True
    # Leaves out the cores of every running job, which are nine tenths of a list.
    job_list_parameters: Mapping[str, str] = {"flags": "ALL"}
    qos_keys = ("qos",)
    # slurmrestd asks the accounting for names that we do not need; the accounting may be down.
    beside_partitions = "Slurmdb query failed"
    _default_association: Mapping[str, Any] = {"is_default": True}

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.changes_nodes = True
        self.tells_failed_cancels = version not in ("v0.0.40", "v0.0.41")

    def submission(self, submission: Submission) -> dict[str, Any]:
        job: dict[str, Any] = {
            "name": submission.name,
            "comment": submission.comment,
            "account": submission.account,
            "partition": submission.partition,
            "qos": submission.qos,
            "nodes": str(submission.node_count),
            "tasks": submission.all_tasks,
            "tasks_per_node": submission.tasks_per_node,
            "current_working_directory": submission.working_directory,
            "standard_output": submission.standard_output,
            "standard_error": submission.standard_error,
            "environment": [f"{key}={value}" for key, value in submission.environment.items()],
            "hold": submission.hold,
            "requeue": False,
            "script": submission.script,
        }
        if submission.has_gpus:
            job["tres_per_node"] = f"gres/gpu:{submission.gres_type}:{submission.gpus_per_node}"
        if submission.cpus_per_task is not None:
            job["cpus_per_task"] = submission.cpus_per_task
        if submission.memory_mb_per_node is not None:
            job["memory_per_node"] = self._out_number(submission.memory_mb_per_node)
        if submission.time_limit_minutes is not None:
            job["time_limit"] = self._out_number(submission.time_limit_minutes)
        if submission.constraint is not None:
            job["constraints"] = submission.constraint
        if submission.excluded_nodes:
            job["excluded_nodes"] = list(submission.excluded_nodes)
        return {"job": job}

    def node_update(self, *, drain: bool, reason: str) -> dict[str, Any]:
        return {"state": ["DRAIN"], "reason": reason} if drain else {"state": ["RESUME"]}

    def changed_since(self, time: int) -> str:
        # v0.0.40 and v0.0.41 refuse bare digits; all of them know this form.
        return f"uts{time}"

    def may_be_a_refused_token(self, error_number: int | None) -> bool:
        # The accounting side says only that there is no connection to the database.
        return error_number == NO_DATABASE

    def new_user(self, user: str, *, account: str, cluster: str) -> tuple[str, dict[str, Any]]:
        # Only this call restores a removed user who had run jobs. A call of users/ succeeds without
        # restoring it.
        condition = {
            "accounts": [account],
            "clusters": [cluster],
            "users": [user],
            "association": {},
        }
        return "/slurmdb/{}/users_association", {
            "association_condition": condition,
            "user": {"defaultaccount": account},
        }

    def _admin_level(self, level: str) -> Any:
        return [level]

    def _no_preempts(self, before: tuple[str, ...]) -> list[str]:
        # Contrary to Slurm's source, this changes nothing, and an empty name kills slurmrestd. Only
        # sacctmgr can remove the last one.
        return []

    def _out_number(self, number: int) -> Any:
        return {"set": True, "infinite": False, "number": number}

    def _number(self, value: Any) -> int | None:
        if not isinstance(value, Mapping):
            return values.plain_number(value)
        if not value.get("set") or value.get("infinite"):
            return None
        return values.plain_number(value.get("number"))

    def _exit(self, record: Record) -> tuple[int | None, int | None]:
        return self._history_exit(values.record(record, "exit_code"))

    def _is_up(self, ping: Record) -> bool:
        # v0.0.45 has no `pinged`; the earliest versions have no `responding`.
        return ping.get("responding") is True or ping.get("pinged") == "UP"

    def partition(self, record: Record) -> SlurmPartition:
        limit = self._number(values.record(values.record(record, "maximums"), "time"))
        states = values.words(values.record(record, "partition").get("state"))
        return SlurmPartition(
            name=values.name(record),
            state=states[0] if states else "",
            nodes=values.hosts(values.text(values.record(record, "nodes"), "configured")),
            max_time_limit_s=None if limit is None else limit * 60,
            gpus=values.gpus(values.text(values.record(record, "tres"), "configured")),
        )


#: The supported versions, newest first. v0.0.39 is left out: every release with it also has another
#: version.
DIALECTS: Mapping[str, Dialect] = {
    **{f"v0.0.{number}": _Structured(f"v0.0.{number}") for number in range(45, 39, -1)},
    "v0.0.38": _Plain("v0.0.38"),
}


def _association_parts(association: Association) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if association.group_tres:
        parts["max"] = {"tres": {"total": _limits(association.group_tres, {})}}
    if association.parent_account:
        parts["parent_account"] = association.parent_account
    if association.partition:
        parts["partition"] = association.partition
    if association.qos:
        parts["qos"] = list(association.qos)
    if association.default_qos is not None:
        parts["default"] = {"qos": association.default_qos}
    if association.shares is not None:
        parts["shares_raw"] = association.shares
    return parts


def _limits(wanted: Mapping[str, int | None], before: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return limits to write. A count of -1 clears a limit; null would become 0 or 4 billion."""
    limits: dict[str, int | None] = {**dict.fromkeys(before), **wanted}
    entries = []
    for name, count in sorted(limits.items()):
        kind, rest = tres.split_name(name)
        entries.append({"type": kind, "name": rest, "count": -1 if count is None else count})
    return entries
