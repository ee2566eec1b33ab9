"""What the accounting of a Slurm cluster (slurmdbd) is asked and told over REST."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from connectors.errors import AccountUndecided, NotOffered
from connectors.slurm import answers, outgoing, tres
from connectors.slurm.answers import Answer
from connectors.slurm.neutral import Account, Association, Diag, HistoryJob, Qos, User
from connectors.slurm.transport import SlurmTransport, path_part

#: A stub of the accounting that is older than this is all that there will ever be.
STUB_S = 600
#: A limit that nobody reaches, where none at all would not be heard of.
NO_LIMIT = 1_000_000_000
#: Questions about one job of the accounting; they hold up the look at everything else.
HISTORY_TIMEOUT_S = 10.0
# The window is asked for from "now" on, whatever the time zone of the server is; this much is
# asked for on both sides and cut off here, for clocks that differ.
_HISTORY_MARGIN_S = 120
_NOTHING_TO_DO = frozenset({answers.NO_CHANGE, answers.NOTHING_FOUND})


class SlurmAccounting:
    """The accounts, associations, users and qualities of service of one cluster, and what ran.
    For several threads at once; fails as `SlurmController` does.

    `diag` asks the controller, whose clock goes for the history.
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
        """Every run that the accounting has of a job, oldest first; () when it has none."""
        runs = [
            run
            for run in self._runs(f"/slurmdb/{{}}/job/{int(job_id)}", {}, HISTORY_TIMEOUT_S)
            if run.job_id == job_id
        ]
        if runs:
            _check_arrived(runs, self._diag().observed_at)
        return tuple(sorted(runs, key=lambda run: (run.submit_time, run.start_time or 0)))

    def _runs(
        self, path: str, parameters: Mapping[str, str], timeout_s: float | None = None
    ) -> list[HistoryJob]:
        answer = self._transport.read(path, parameters, timeout_s)
        # Errors first: with its database down, v0.0.38 answers 200 and an empty list.
        if answer.error and answer.error.number == answers.NOTHING_FOUND:
            return []
        dialect = self._transport.speak()
        records = answers.records(self._transport.checked(answer, "history"), "jobs")
        return [dialect.history(record) for record in records]

    def clusters(self) -> tuple[str, ...]:
        """The names of the clusters that the accounting knows."""
        return self._transport.read_list(
            "/slurmdb/{}/clusters", "clusters", lambda _: lambda record: str(record.get("name"))
        )

    def tracked_resources(self) -> tuple[str, ...]:
        """The names of what the accounting counts, such as "gres/gpu:h100"."""
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
        """All qualities of service; asked for `timeout_s` where that is shorter than usual."""
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
        """How often a quality of service was written or removed here."""
        return self._qos_writes

    def users(self) -> tuple[User, ...]:
        """All users of the accounting."""
        return self._transport.read_list(
            "/slurmdb/{}/users", "users", lambda dialect: dialect.read_user
        )

    def put_account(self, account: Account) -> None:
        """Make an account or change its words. Where it stands is its association's matter."""
        outgoing.check_name("account", account.name)
        outgoing.check_line("description", account.description)
        outgoing.check_line("organization", account.organization)
        body = {"accounts": [self._transport.speak().account(account)]}
        self._put("/slurmdb/{}/accounts", body, f"write account {account.name}")

    @property
    def changes_accounts_by_detour(self) -> bool:
        """Whether an account's own association changes only when it gets another parent."""
        return not self._transport.speak().changes_account_associations

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
                f"API {self._transport.version} can not change the association of account "
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
        body = {"associations": [self._transport.speak().association(association)]}
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
        """Make a user of the accounting who is to be a member of `account`: some versions make
        the membership at once, and `put_association` makes it in all."""
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
