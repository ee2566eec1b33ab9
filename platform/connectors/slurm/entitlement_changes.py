"""The differences between a Slurm cluster's accounts and QoS and the tree, as pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from connectors.entitlements import Change, ChangeKind, Entitlement, Value
from connectors.errors import WorkloadRejected
from connectors.slurm.naming import ROOT_ACCOUNT
from connectors.slurm.neutral import Association, Qos, SlurmJob
from connectors.slurm.tres import CORES

ACCOUNT = "account"
QOS = "qos"
MEMBER = "member"
#: The limit of GPUs of all types together.
GPUS = "gres/gpu"
_HOLDING = frozenset({"RUNNING", "SUSPENDED"})
OF_OTHERS = "stays: other clusters of the same accounting may use it"
_SHOWN_MAX = 200
JobTest = Callable[[SlurmJob], bool]


def check_tree(accounts: Mapping[str, Association]) -> None:
    """Raise WorkloadRejected for an account below itself or below a missing account.

    Two concurrent writers make slurmdbd 22.05 create that. A write to such a tree may never end.
    """
    for account in accounts:
        above, seen = account, set()
        while above not in ("", ROOT_ACCOUNT):
            if above in seen or above not in accounts:
                raise WorkloadRejected(
                    f"the accounting has account {account} below {above}, which "
                    f"{'stands below itself' if above in seen else 'is not there'}, so nothing is "
                    "written; it has to be repaired first, see 'Quotas on it' in docs/slurm.md"
                )
            seen.add(above)
            above = accounts[above].parent_account


def without_account(node: Entitlement, reason: str) -> Change:
    """Return the complaint about a node that can have no account here. It changes nothing."""
    name = node.path if len(node.path) <= _SHOWN_MAX else f"{node.path[:_SHOWN_MAX]}..."
    return Change(ChangeKind.CREATE, ACCOUNT, name, note=reason, is_blocked=True)


def ceiling(node: Entitlement, pools: Iterable[str]) -> int | None:
    """Return the ceiling of `node` in GPUs over `pools`; None when one of them has no limit.

    A pool in which the node has no share adds nothing.
    """
    total = 0
    for pool in pools:
        share = node.shares.get(pool)
        if share is not None and share.ceiling_gpus is None:
            return None
        total += share.ceiling_gpus or 0 if share else 0
    return total


def settings_of_qos(qos: Qos) -> dict[str, Value]:
    """Return the settings of a QoS that may differ, by name; limits by resource name."""
    return {
        "priority": qos.priority,
        "preempts": sorted(qos.preempts),
        "preempt_mode": sorted(qos.preempt_mode),
        "grace_s": qos.grace_s,
        "flags": sorted(qos.flags),
        **qos.group_tres,
    }


def settings_of_account(account: Association) -> dict[str, Value]:
    """Return the settings of an account that may differ, by name; limits by resource name."""
    return {
        "parent": account.parent_account,
        "fairshare": account.shares,
        "qos": sorted(account.qos),
        "default_qos": account.default_qos,
        **account.group_tres,
    }


def association_of(after: Mapping[str, Value], now: Association) -> Association:
    """Return `now` with the settings of `after`. It is complete, so that no setting is lost."""
    limits: dict[str, int | None] = dict(now.group_tres)
    wanted = replace(now, is_default=False)
    for name, value in after.items():
        match name, value:
            case "parent", str():
                wanted = replace(wanted, parent_account=value)
            case "fairshare", int():
                wanted = replace(wanted, shares=value)
            case "qos", list():
                wanted = replace(wanted, qos=tuple(value))
            case "default_qos", str():
                wanted = replace(wanted, default_qos=value)
            case resource, int() | None:
                limits[resource] = value
            case _:
                raise WorkloadRejected(f"an account has no {name[:40]} of {str(value)[:40]!r}")
    return replace(wanted, group_tres=limits)


def differences(
    thing: str,
    name: str,
    now: Mapping[str, Value],
    after: Mapping[str, Value],
    *,
    in_use: Mapping[str, int] | None = None,
) -> Iterable[Change]:
    """Yield the changes from `now` to `after`: at most one reduction and one increase."""
    taken: list[str] = []
    given: list[str] = []
    raised = False
    for key, value in after.items():
        before = now.get(key)
        if before == value:
            continue
        if key.startswith(GPUS) and _is_lower(value, before):
            taken.append(key)
        else:
            given.append(key)
            raised |= key.startswith(GPUS)
    if taken:
        yield Change(
            *(ChangeKind.LOWER, thing, name),
            before={key: now.get(key) for key in taken},
            after={key: after[key] for key in taken},
            note=_note({key: after[key] for key in taken}, in_use or {}),
        )
    if given:
        yield Change(
            *(ChangeKind.RAISE if raised else ChangeKind.CHANGE, thing, name),
            before={key: now.get(key) for key in given},
            after={key: after[key] for key in given},
        )


def _is_lower(value: Value, before: Value) -> bool:
    """Return whether limit `value` allows less than `before`; None allows everything."""
    return isinstance(value, int) and (not isinstance(before, int) or value < before)


def _note(limits: Mapping[str, Value], in_use: Mapping[str, int]) -> str:
    """Return a note that running jobs go on above a lower limit; "" if none do."""
    above = [
        f"{in_use[name]} {name} are in use and run on; nothing starts before less than {limit} are"
        for name, limit in limits.items()
        if isinstance(limit, int) and in_use.get(name, 0) > limit
    ]
    return "; ".join(above)


def in_use_by(jobs: Iterable[SlurmJob], counts: JobTest) -> Mapping[str, int]:
    """Return the GPUs in use, by the name of their limits."""
    found: Counter[str] = Counter()
    for job in jobs:
        if job.state in _HOLDING and counts(job):
            for kind, count in job.gpus_allocated.items():
                if kind == CORES:
                    continue
                found[GPUS] += count
                if kind:
                    found[f"{GPUS}:{kind}"] += count
    return found


def removal(
    thing: str,
    name: str,
    before: Mapping[str, Value],
    jobs: Sequence[SlurmJob],
    *,
    user: str = "",
) -> Change:
    """Return the change that removes the object. It is blocked while `jobs` use the object."""
    note = f"in use, so it stays: {jobs_told(jobs)}" if jobs else "is no longer in the tree"
    if user and not jobs:
        note = "may not submit in this team"
    return Change(
        *(ChangeKind.DELETE, thing, name, user), before=before, note=note, is_blocked=bool(jobs)
    )


def kept_for_others(change: Change) -> Change:
    """Return `change` as blocked: accounts and QoS belong to the accounting, not to one cluster.

    Removing them would remove them from all clusters.
    """
    return replace(change, note=OF_OTHERS, is_blocked=True)


def jobs_told(jobs: Sequence[SlurmJob]) -> str:
    """Return a phrase with the number of the jobs and some of their ids, for a sentence."""
    some = ", ".join(str(job.job_id) for job in jobs[:5])
    return f"job {some}" if len(jobs) == 1 else f"{len(jobs)} jobs ({some})"


def is_below(account: str, top: str) -> bool:
    """Return whether the account's name is `top` or that of an account below it."""
    return account == top or account.startswith(f"{top}_")


def descendants(name: str, accounts: Mapping[str, Association]) -> set[str]:
    """Return `name` and all accounts below it."""
    found = {name}
    while more := {
        item.account
        for item in accounts.values()
        if item.parent_account in found and item.account not in found
    }:
        found |= more
    return found
