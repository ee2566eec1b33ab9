"""Reads and writes the accounting of a Slurm cluster (slurmdbd) over REST."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from connectors.errors import AccountUndecided, NotOffered
from connectors.slurm import answers, outgoing, tres
from connectors.slurm.answers import Answer
from connectors.slurm.dialects import Dialect
from connectors.slurm.neutral import Account, Association, Diag, HistoryJob, Qos, RunUse, User
from connectors.slurm.transport import SlurmTransport, path_part
from connectors.slurm.values import Record

Item = TypeVar("Item")

#: Seconds after which a stub in the accounting is final.
STUB_S = 600
#: A limit out of reach. The controller learns of it, but not of a cleared limit.
NO_LIMIT = 1_000_000_000
#: Time-out of a question about one job. It delays the observation of all other jobs.
HISTORY_TIMEOUT_S = 10.0
# The window is relative to "now", so that the server's time zone does not matter. For clocks that
# differ, it is extended by this on both sides, and the answer is cut here.
_HISTORY_MARGIN_S = 120
_NOTHING_TO_DO = frozenset({answers.NO_CHANGE, answers.NOTHING_FOUND})


class SlurmAccounting:
    """Accounts, associations, users, qualities of service and past runs of one cluster.

    For use by several threads at once. Its errors are those of `SlurmController`. `diag` asks the
    controller, whose clock is the clock of the history.
    """

    def __init__(self, transport: SlurmTransport, *, diag: Callable[[], Diag]) -> None:
        self._transport = transport
        self._diag = diag
        self._lock = threading.Lock()
        self._qos_writes = 0

    def history(
        self,
        *,
        start: int,
        end: int,
        account: str | None = None,
        listed: Collection[str] = (),
    ) -> tuple[HistoryJob, ...]:
        """Return every run that was eligible before `end` and had not ended before `start`.

        The answer is complete; times are epoch seconds. Each run has one record, so a requeued job
        has several.

        Held jobs have no record yet. The first record of a short job is a stub for some seconds,
        which raises ClusterUnavailable. To avoid that, ask for windows that ended a minute ago, or
        pass the jobs that are `listed` anyway.
        """
        if account is not None:
            outgoing.check_name("account", account)
        if end < start:
            raise ValueError("a window of the history must not end before it starts")
        now = self._diag().observed_at
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
        """Return every run of a job in the accounting, oldest first; () when it has none."""
        runs = [
            run
            for run in self._runs(f"/slurmdb/{{}}/job/{int(job_id)}", {}, HISTORY_TIMEOUT_S)
            if run.job_id == job_id
        ]
        if runs:
            _check_arrived(runs, self._diag().observed_at)
        return tuple(sorted(runs, key=lambda run: (run.submit_time, run.start_time or 0)))

    def job_uses(self, job_id: int) -> tuple[RunUse, ...]:
        """Return every run of a job with what its steps used, oldest first; () when it has none."""
        path = f"/slurmdb/{{}}/job/{int(job_id)}"
        found = self._records(path, {}, HISTORY_TIMEOUT_S, lambda dialect: dialect.run_use)
        uses = [use for use in found if use.run.job_id == job_id]
        return tuple(sorted(uses, key=lambda use: (use.run.submit_time, use.run.start_time or 0)))

    def _runs(
        self, path: str, parameters: Mapping[str, str], timeout_s: float | None = None
    ) -> list[HistoryJob]:
        return self._records(path, parameters, timeout_s, lambda dialect: dialect.history)

    def _records(
        self,
        path: str,
        parameters: Mapping[str, str],
        timeout_s: float | None,
        reader_of: Callable[[Dialect], Callable[[Record], Item]],
    ) -> list[Item]:
        answer = self._transport.read(path, parameters, timeout_s)
        # Errors first: with its database down, v0.0.38 answers 200 and an empty list.
        if answer.error and answer.error.number == answers.NOTHING_FOUND:
            return []
        read = reader_of(self._transport.speak())
        records = answers.records(self._transport.checked(answer, "history"), "jobs")
        return [read(record) for record in records]

    def clusters(self) -> tuple[str, ...]:
        """Return the names of the clusters in the accounting."""
        return self._transport.read_list(
            "/slurmdb/{}/clusters", "clusters", lambda _: lambda record: str(record.get("name"))
        )

    def tracked_resources(self) -> tuple[str, ...]:
        """Return the names of the resources that the accounting counts, such as "gres/gpu:h100"."""
        return self._transport.read_list(
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
        return self._transport.read_list(
            "/slurmdb/{}/accounts", "accounts", lambda dialect: dialect.read_account
        )

    def associations(
        self, *, account: str | None = None, user: str | None = None
    ) -> tuple[Association, ...]:
        """All associations, or those of one account or user."""
        parameters = {}
        for key, name in (("account", account), ("user", user)):
            if name is not None:
                outgoing.check_name(key, name)
                parameters[key] = name
        found = self._transport.read_list(
            "/slurmdb/{}/associations",
            "associations",
            lambda dialect: dialect.read_association,
            parameters,
        )
        return tuple(
            item for item in found if account in (None, item.account) and user in (None, item.user)
        )

    def qos(self, *, timeout_s: float | None = None) -> tuple[Qos, ...]:
        """Return all qualities of service. `timeout_s` replaces the usual time-out."""
        dialect = self._transport.speak()
        return self._transport.read_list(
            "/slurmdb/{}/qos",
            "qos",
            lambda dialect: dialect.read_qos,
            keys=dialect.qos_keys,
            timeout_s=timeout_s,
        )

    @property
    def qos_writes(self) -> int:
        """The number of times that this process wrote or removed a quality of service."""
        return self._qos_writes

    def users(self) -> tuple[User, ...]:
        """All users of the accounting."""
        return self._transport.read_list(
            "/slurmdb/{}/users", "users", lambda dialect: dialect.read_user
        )

    def put_account(self, account: Account) -> None:
        """Create an account or change its texts. Its association defines its parent."""
        outgoing.check_name("account", account.name)
        outgoing.check_line("description", account.description)
        outgoing.check_line("organization", account.organization)
        body = {"accounts": [self._transport.speak().account(account)]}
        self._put("/slurmdb/{}/accounts", body, f"write account {account.name}")

    @property
    def changes_accounts_by_detour(self) -> bool:
        """Return whether an account's own association changes only together with its parent."""
        return not self._transport.speak().changes_account_associations

    def put_association(
        self,
        association: Association,
        *,
        detour: str | None = None,
        known: Collection[Association] | None = None,
    ) -> None:
        """Create an association or change it. Limits that it does not name stay as they are.

        `known` are all associations of the account, if the caller has just read them.

        v0.0.38 changes an account's own association only together with its parent. Therefore the
        account is moved below the existing account `detour` and back at once. In between, its
        parent's limits do not apply. Without a detour, that version raises NotOffered.
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
        """Change an account's own association by moving the account away and back.

        slurmdbd ignores a change that "moves" an account to its current parent, and v0.0.38 always
        sends the parent.

        slurmdbd also does not report a cleared limit to the controller, which would apply it until
        its next restart. So the first move raises that limit out of reach, which slurmdbd does
        report.
        """
        parent = association.parent_account or known.parent_account
        if parent == known.parent_account and detour is None:
            raise NotOffered(
                f"API {self._transport.version} can not change the association of account "
                f"{association.account}; use sacctmgr"
            )
        whole = replace(
            association,
            # The move clears every field that is left out, and an empty list of limits kills
            # slurmrestd.
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
        body = {"associations": [self._transport.speak().association(association)]}
        self._put(
            "/slurmdb/{}/associations",
            body,
            f"write association {association.account}/{association.user}",
        )

    def put_qos(self, qos: Qos, *, known: Collection[Qos] | None = None) -> None:
        """Create a quality of service or change it to exactly `qos`, then read it back.

        `known` are all qualities of service, if the caller has just read them. Raises NotOffered
        when the cluster stored something else.
        """
        outgoing.check_qos(qos)
        before = self.qos() if known is None else known
        present = next((item for item in before if item.name == qos.name), None)
        dialect = self._transport.speak()
        body = {dialect.qos_keys[0]: [dialect.qos(qos, known=present)]}
        try:
            self._put("/slurmdb/{}/qos", body, f"write QOS {qos.name}")
        finally:
            self._count_qos_write()
        kept = next((item for item in self.qos() if item.name == qos.name), None)
        if kept is None or _rules(kept) != _rules(qos):
            raise NotOffered(
                f"API {self._transport.version} did not take the whole of QOS {qos.name}: {kept}"
            )

    def add_user(self, user: str, *, account: str, cluster: str) -> None:
        """Create a user of the accounting as a future member of `account`.

        Some versions create the membership at once. `put_association` creates it on every version.
        """
        for kind, name in (("user", user), ("account", account), ("cluster", cluster)):
            outgoing.check_name(kind, name)
        path, body = self._transport.speak().new_user(user, account=account, cluster=cluster)
        self._put(path, body, f"write user {user}")

    def put_user(self, user: User) -> None:
        """Change a user of the accounting."""
        outgoing.check_name("user", user.name)
        body = {"users": [self._transport.speak().user(user)]}
        self._put("/slurmdb/{}/users", body, f"write user {user.name}")

    def delete_account(self, name: str) -> None:
        """Remove an account with its associations; a missing account is no error."""
        self._delete("account", name)

    def delete_qos(self, name: str) -> None:
        """Remove a quality of service; a missing one is no error."""
        try:
            self._delete("qos", name)
        finally:
            self._count_qos_write()

    def _count_qos_write(self) -> None:
        with self._lock:
            self._qos_writes += 1

    def delete_association(self, account: str, *, cluster: str, user: str) -> None:
        """Remove a user from an account; a user who is no member is no error."""
        # Without a user, the call would remove every user of the account.
        parameters = {"account": account, "cluster": cluster, "user": user}
        for key, name in parameters.items():
            outgoing.check_name(key, name)
        what = f"delete association {account}/{user}"
        answer = self._transport.write(
            "DELETE", "/slurmdb/{}/association", None, what, parameters=parameters
        )
        self._check_removal(answer, what)

    def _delete(self, kind: str, name: str) -> None:
        outgoing.check_name(kind, name)
        what = f"delete {kind} {name}"
        answer = self._transport.write(
            "DELETE", f"/slurmdb/{{}}/{kind}/{path_part(name)}", None, what
        )
        self._check_removal(answer, what)

    def _check_removal(self, answer: Answer, what: str) -> None:
        if answer.status != 304 or answer.errors:
            self._transport.check_write(answer, what, fine=_NOTHING_TO_DO)

    def _put(self, path: str, body: Mapping[str, Any], what: str) -> None:
        answer = self._transport.write("POST", path, body, what)
        if answer.status != 304 or answer.errors:
            self._transport.check_write(answer, what, fine=frozenset({answers.NO_CHANGE}))


def _differs(wanted: Association, known: Association) -> bool:
    """Return whether writing `wanted` would change `known`."""
    return (
        any(known.group_tres.get(name) != limit for name, limit in wanted.group_tres.items())
        or wanted.parent_account not in ("", known.parent_account)
        or (wanted.qos != () and set(wanted.qos) != set(known.qos))
        or wanted.default_qos not in (None, known.default_qos)
        or wanted.shares not in (None, known.shares)
    )


def _rules(qos: Qos) -> tuple[object, ...]:
    """Return the rules of a quality of service, independent of its texts and of list order."""
    return (
        *(qos.priority, qos.grace_s, set(qos.flags), set(qos.preempts), set(qos.preempt_mode)),
        *(dict(qos.group_tres), dict(qos.user_tres), dict(qos.job_tres)),
    )


def _from_now(offset_s: int) -> str:
    """Return a time in the form that every API version reads alike, in any time zone."""
    return f"now{'+' if offset_s >= 0 else '-'}{abs(offset_s)}seconds"


def _check_arrived(runs: list[HistoryJob], now: int) -> None:
    """Raise AccountUndecided for a recent run that is only a stub.

    The accounting receives a job's steps before the job. Until then it invents a record without a
    partition, with one node and another name.
    """
    for run in runs:
        if not run.partition and (run.start_time or run.submit_time) > now - STUB_S:
            raise AccountUndecided(f"the accounting has only a stub of job {run.job_id} yet")
