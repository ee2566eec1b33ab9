"""How the accounts and QoS that a Slurm cluster has differ from what the tree wants: pure."""

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
    """Raises WorkloadRejected where an account stands below itself or below one that is not there:
    two writers at once make slurmdbd 22.05 do that, and a write to such a tree may never end."""
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
    """The complaint about a node that can have no account here. Nothing is done about it."""
    name = node.path if len(node.path) <= _SHOWN_MAX else f"{node.path[:_SHOWN_MAX]}..."
    return Change(ChangeKind.CREATE, ACCOUNT, name, note=reason, is_blocked=True)


def ceiling(node: Entitlement, pools: Iterable[str]) -> int | None:
    """GPUs of `pools` together that the node may use; a pool in which it has no share adds none."""
    total = 0
    for pool in pools:
        share = node.shares.get(pool)
        if share is not None and share.ceiling_gpus is None:
            return None
        total += share.ceiling_gpus or 0 if share else 0
    return total


def settings_of_qos(qos: Qos) -> dict[str, Value]:
    """What can differ of a QoS, by name; limits by that of what they count."""
    return {
        "priority": qos.priority,
        "preempts": sorted(qos.preempts),
        "preempt_mode": sorted(qos.preempt_mode),
        "grace_s": qos.grace_s,
        "flags": sorted(qos.flags),
        **qos.group_tres,
    }


def settings_of_account(account: Association) -> dict[str, Value]:
    """What can differ of an account, by name; limits by that of what they count."""
    return {
        "parent": account.parent_account,
        "fairshare": account.shares,
        "qos": sorted(account.qos),
        "default_qos": account.default_qos,
        **account.group_tres,
    }


def association_of(after: Mapping[str, Value], now: Association) -> Association:
    """`now` with the settings of `after`; all of it, so that none is lost on the way."""
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
    """What of `now` is not as in `after`: at most one change that takes and one that gives."""
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
    """Whether limit `value` allows less than `before`; None allows all."""
    return isinstance(value, int) and (not isinstance(before, int) or value < before)


def _note(limits: Mapping[str, Value], in_use: Mapping[str, int]) -> str:
    """Nothing that runs is stopped by a lower limit, which has to be said."""
    above = [
        f"{in_use[name]} {name} are in use and run on; nothing starts before less than {limit} are"
        for name, limit in limits.items()
        if isinstance(limit, int) and in_use.get(name, 0) > limit
    ]
    return "; ".join(above)


def in_use_by(jobs: Iterable[SlurmJob], counts: JobTest) -> Mapping[str, int]:
    """GPUs in use by the name of their limits."""
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
    """What takes it away, unless `jobs` use it."""
    note = f"in use, so it stays: {jobs_told(jobs)}" if jobs else "is no longer in the tree"
    if user and not jobs:
        note = "may not submit in this team"
    return Change(
        *(ChangeKind.DELETE, thing, name, user), before=before, note=note, is_blocked=bool(jobs)
    )


def kept_for_others(change: Change) -> Change:
    """Accounts and QoS are the accounting's and not one cluster's: they would go everywhere."""
    return replace(change, note=OF_OTHERS, is_blocked=True)


def jobs_told(jobs: Sequence[SlurmJob]) -> str:
    """Which and how many they are, for a sentence."""
    some = ", ".join(str(job.job_id) for job in jobs[:5])
    return f"job {some}" if len(jobs) == 1 else f"{len(jobs)} jobs ({some})"


def is_below(account: str, top: str) -> bool:
    """Whether the account's name is that of `top` or of something below it."""
    return account == top or account.startswith(f"{top}_")


def descendants(name: str, accounts: Mapping[str, Association]) -> set[str]:
    """`name` and all accounts below it."""
    found = {name}
    while more := {
        item.account
        for item in accounts.values()
        if item.parent_account in found and item.account not in found
    }:
        found |= more
    return found
