"""The quota tree as accounts, associations and QoS of a Slurm cluster, in its accounting.

A node is an account below its parent's account. Its fair-share is the weight, and its GrpTRES the
ceiling, including borrowed GPUs. Slurm has limits, but no "guaranteed first, then borrowed". So
each team has a QoS of its own. Its GrpTRES is the guarantee, and its jobs preempt those of the one
borrow QoS. Both count against the account.

We own the accounts with names from `naming.account_name` below organizations of the portal, their
QoS, and the borrow QoS. Other settings of an administrator, such as limits on cores, are never
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connectors.entitlements import Change, ChangeKind, Entitlement, Entitlements, Value
from connectors.errors import ClusterUnavailable, OutcomeUnknown, WorkloadRejected
from connectors.protocol import ClusterConnector
from connectors.slurm import outgoing
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.controller import SlurmController
from connectors.slurm.entitlement_changes import (
    ACCOUNT,
    GPUS,
    MEMBER,
    OF_OTHERS,
    QOS,
    JobTest,
    association_of,
    ceiling,
    check_tree,
    descendants,
    differences,
    in_use_by,
    is_below,
    jobs_told,
    kept_for_others,
    removal,
    settings_of_account,
    settings_of_qos,
    without_account,
)
from connectors.slurm.naming import (
    DETOUR,
    ROOT_ACCOUNT,
    ReservedAccount,
    account_name,
    guaranteed_qos,
    own_cluster,
)
from connectors.slurm.neutral import Account, Association, Qos, SlurmJob, User
from connectors.slurm.options import SlurmOptions

#: The higher priority goes first if the cluster weighs it (PriorityWeightQOS).
GUARANTEED_PRIORITY = 1_000
BORROW_PRIORITY = 10
#: Borrowing jobs get no backfill reservation: it would keep GPUs idle that their owners reclaim.
_NO_RESERVE = "NO_RESERVE"
_REQUEUE = "REQUEUE"
_ALIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
#: Objects are created in this order and removed in the reverse order.
_THINGS = {QOS: 0, ACCOUNT: 1, MEMBER: 2}


def control_entitlements(connector: ClusterConnector) -> SlurmEntitlements:
    """Return the entitlement control of the Slurm cluster of `connector`."""
    assert isinstance(connector, SlurmConnector)
    return SlurmEntitlements(
        connector.rest.controller, connector.rest.accounting, connector.options
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """The current state of the cluster. Members are by (account, user).

    `is_shared` says that other clusters of the same accounting use the same accounts and QoS.
    """

    cluster: str
    is_shared: bool
    accounts: Mapping[str, Association]
    members: Mapping[tuple[str, str], Association]
    qos: Mapping[str, Qos]
    resources: frozenset[str]
    jobs: tuple[SlurmJob, ...]


class SlurmEntitlements:
    """Implements `connectors.entitlements.EntitlementControl`."""

    def __init__(
        self, controller: SlurmController, accounting: SlurmAccounting, options: SlurmOptions
    ) -> None:
        self._controller = controller
        self._accounting = accounting
        self._options = options
        self._name: str | None = None

    def changes(self, wanted: Entitlements) -> tuple[Change, ...]:
        """See the protocol. Raises WorkloadRejected when no node is entitled to anything.

        Applying that would remove everything; it is more likely a mistake than an intention.
        """
        if not wanted.nodes:
            raise WorkloadRejected(
                "no organization has quota in a pool of this cluster, so nothing is compared and "
                "nothing removed; set a quota first, or take what is left off with sacctmgr"
            )
        self._name = None
        known = self._read()
        resources = self._resources(known)
        found = [*self._of_borrowers(wanted, known)]
        for node in wanted.nodes:
            # A node without a possible name must not block the changes of all others.
            try:
                self._check_names(node)
            except ReservedAccount as error:
                found.append(without_account(node, str(error)))
            except WorkloadRejected as error:
                hint = "give it or what is above it a shorter name, or move it up"
                found.append(without_account(node, f"{error}; {hint}"))
            else:
                found += self._of_node(node, known, resources)
        found += self._of_those_who_left(wanted, known)
        return tuple(sorted(found, key=self._order))

    def apply(self, change: Change) -> None:
        """See the protocol."""
        match change.thing:
            case "qos":
                self._apply_to_qos(change)
            case "account":
                self._apply_to_account(change)
            case "member":
                self._apply_to_member(change)
            case _:
                raise WorkloadRejected(f"a Slurm cluster has no {change.thing[:40]!r} to change")

    # What the cluster has.

    def _read(self) -> _Known:
        cluster = self._cluster()
        associations = [
            item
            for item in self._accounting.associations()
            if item.cluster == cluster and not item.partition
        ]
        accounts = {item.account: item for item in associations if not item.user}
        check_tree(accounts)
        return _Known(
            cluster=cluster,
            is_shared=self._is_shared(),
            accounts=accounts,
            members={(item.account, item.user): item for item in associations if item.user},
            qos={item.name: item for item in self._accounting.qos()},
            resources=frozenset(self._accounting.tracked_resources()),
            jobs=tuple(job for job in self._controller.jobs().jobs if job.state in _ALIVE),
        )

    def _cluster(self) -> str:
        """Return the accounting's name of this cluster, read once for all changes.

        Every answer of an older accounting takes a fifth of a second.
        """
        if self._name is None:
            self._name = own_cluster(self._accounting.clusters(), self._options.cluster_name)
        return self._name

    def _is_shared(self) -> bool:
        return len(self._accounting.clusters()) > 1

    def _resources(self, known: _Known) -> Mapping[str, tuple[str, ...]]:
        """Return the pools whose GPUs each limit counts.

        Jobs that ask for GPUs of any type are not counted by type before they run. So there is also
        a limit on all GPUs together, unless the cluster has GPUs of no pool. Cores are not limited:
        Slurm would also count the cores of GPU jobs.
        """
        pools = self._options.gpu_pools
        if not pools:
            return {}
        by_type = {f"{GPUS}:{pool.gres_type}": (name,) for name, pool in pools.items()}
        tracked = {name for name in known.resources if name.startswith(f"{GPUS}:")}
        if untracked := sorted(by_type.keys() - tracked):
            if len(pools) > 1 or tracked or GPUS not in known.resources:
                raise ClusterUnavailable(
                    f"the cluster does not count {', '.join(untracked)}; add {GPUS} and these to "
                    "AccountingStorageTRES in slurm.conf"
                )
            return {GPUS: tuple(pools)}
        if GPUS in known.resources and tracked == by_type.keys():
            return {GPUS: tuple(pools), **by_type}
        return by_type

    # The difference.

    def _check_names(self, node: Entitlement) -> None:
        """Raise WorkloadRejected for a node whose account or QoS can have no name."""
        account = account_name(node.path, self._options.account_prefix)
        outgoing.check_name("account", account)
        if node.is_team:
            outgoing.check_name("QOS", guaranteed_qos(account, self._options.qos_prefix))

    def _names(self, paths: Iterable[str]) -> Iterable[str]:
        """Yield the accounts of `paths`, without paths that can have none."""
        for path in paths:
            try:
                yield account_name(path, self._options.account_prefix)
            except WorkloadRejected:
                continue

    def _of_borrowers(self, wanted: Entitlements, known: _Known) -> Iterable[Change]:
        name = self._options.borrow_qos
        now = known.qos.get(name)
        after: dict[str, Value] = {
            "priority": BORROW_PRIORITY,
            "preempt_mode": [_REQUEUE],
            "grace_s": wanted.grace_s,
            "flags": sorted({*(now.flags if now else ()), _NO_RESERVE}),
        }
        if now is None:
            yield Change(ChangeKind.CREATE, QOS, name, after=after)
        else:
            yield from differences(QOS, name, settings_of_qos(now), after)

    def _of_node(
        self, node: Entitlement, known: _Known, resources: Mapping[str, tuple[str, ...]]
    ) -> Iterable[Change]:
        options = self._options
        account = account_name(node.path, options.account_prefix)
        parent = node.path.rpartition("/")[0]
        after: dict[str, Value] = {
            "parent": account_name(parent, options.account_prefix) if parent else ROOT_ACCOUNT,
            "fairshare": node.weight,
            **{name: ceiling(node, pools) for name, pools in resources.items()},
        }
        if node.is_team:
            qos = guaranteed_qos(account, options.qos_prefix)
            after |= {"qos": sorted((qos, options.borrow_qos)), "default_qos": qos}
            yield from self._of_team_qos(node, qos, known, resources)
        now = known.accounts.get(account)
        if now is None:
            yield Change(ChangeKind.CREATE, ACCOUNT, account, after=after)
        else:
            yield from differences(
                *(ACCOUNT, account, settings_of_account(now), after),
                in_use=in_use_by(known.jobs, lambda job: is_below(job.account, account)),
            )
        if node.is_team:
            yield from self._of_members(node, account, known)

    def _of_team_qos(
        self, node: Entitlement, name: str, known: _Known, resources: Mapping[str, tuple[str, ...]]
    ) -> Iterable[Change]:
        now = known.qos.get(name)
        after: dict[str, Value] = {
            "priority": GUARANTEED_PRIORITY,
            "preempts": sorted({*(now.preempts if now else ()), self._options.borrow_qos}),
        }
        for resource, pools in resources.items():
            after[resource] = sum(
                node.shares[pool].guaranteed_gpus for pool in pools if pool in node.shares
            )
        if now is None:
            yield Change(ChangeKind.CREATE, QOS, name, after=after)
        else:
            yield from differences(
                *(QOS, name, settings_of_qos(now), after),
                in_use=in_use_by(known.jobs, lambda job: job.qos == name),
            )

    def _of_members(self, node: Entitlement, account: str, known: _Known) -> Iterable[Change]:
        qos = guaranteed_qos(account, self._options.qos_prefix)
        may_use = {qos, self._options.borrow_qos}
        inherited = known.accounts.get(account)
        for user in sorted(set(node.users)):
            now = known.members.get((account, user))
            if now is None:
                yield Change(ChangeKind.CREATE, MEMBER, account, user, after={"account": account})
            elif set(now.qos) != may_use and inherited and set(now.qos) != set(inherited.qos):
                yield Change(
                    *(ChangeKind.CHANGE, MEMBER, account, user),
                    before={"qos": sorted(now.qos)},
                    after={"qos": sorted(may_use)},
                )
        for of_account, user in sorted(known.members):
            if of_account == account and user not in node.users:
                yield removal(
                    *(MEMBER, account, {"account": account}),
                    [job for job in known.jobs if (job.account, job.user) == (account, user)],
                    user=user,
                )

    def _of_those_who_left(self, wanted: Entitlements, known: _Known) -> Iterable[Change]:
        options = self._options
        stays = set(self._names(node.path for node in wanted.nodes))
        roots = list(self._names(wanted.organizations))

        def is_ours(account: str) -> bool:
            return any(is_below(account, root) for root in roots)

        left = [name for name in known.accounts if is_ours(name) and name not in stays]
        for name in left:
            yield self._removal_of_account(name, set(left), known)
        for name, qos in known.qos.items():
            account = name.removeprefix(options.qos_prefix)
            is_of_node = name.startswith(options.qos_prefix) and is_ours(account)
            if not is_of_node or name == options.borrow_qos or account in stays:
                continue
            users = [job for job in known.jobs if job.qos == name or job.account == account]
            change = removal(QOS, name, settings_of_qos(qos), users)
            yield kept_for_others(change) if known.is_shared else change

    def _removal_of_account(self, name: str, left: set[str], known: _Known) -> Change:
        """Return the removal of an account, blocked while anything below it is in use or not ours.

        Slurm removes an account together with everything below it.
        """
        below = descendants(name, known.accounts)
        change = removal(
            *(ACCOUNT, name, settings_of_account(known.accounts[name])),
            [job for job in known.jobs if job.account in below],
        )
        if known.is_shared:
            return kept_for_others(change)
        if not change.is_blocked and (others := sorted(below - left)):
            note = f"accounts below it stay: {', '.join(others[:5])}"
            return replace(change, note=note, is_blocked=True)
        return change

    def _order(self, change: Change) -> tuple[int, int, int, str, str]:
        """Return the sort key of a change: accounts still below the detour come first.

        Then come reductions and removals, children first. Last come increases and creations,
        parents first. The number of "_" in an account's name is its depth. The borrow QoS comes
        before the team QoS that refer to it.
        """
        if change.before.get("parent") == self._detour and change.kind is not ChangeKind.DELETE:
            return -1, 0, 0, change.name, change.user
        levels = -1 if change.name == self._options.borrow_qos else change.name.count("_")
        thing = _THINGS[change.thing]
        match change.kind:
            case ChangeKind.LOWER:
                return 0, -thing, -levels, change.name, change.user
            case ChangeKind.DELETE:
                return 1, -thing, -levels, change.name, change.user
            case _:
                return 2, thing, levels, change.name, change.user

    # One change.

    def _apply_to_qos(self, change: Change) -> None:
        if change.kind is ChangeKind.DELETE:
            self._refuse_shared(change)
            self._refuse_in_use(change, lambda job: job.qos == change.name)
            self._accounting.delete_qos(change.name)
            self._check_gone(change, change.name in {qos.name for qos in self._accounting.qos()})
            return
        known = self._accounting.qos()
        now = next((qos for qos in known if qos.name == change.name), None)
        is_borrow = change.name == self._options.borrow_qos
        qos = now or Qos(change.name, "Tidegate: borrowed" if is_borrow else "Tidegate: guaranteed")
        limits: dict[str, int] = dict(qos.group_tres)
        for name, value in change.after.items():
            match name, value:
                case "priority", int():
                    qos = replace(qos, priority=value)
                case "grace_s", int():
                    qos = replace(qos, grace_s=value)
                case "flags", list():
                    qos = replace(qos, flags=tuple(value))
                case "preempts", list():
                    qos = replace(qos, preempts=tuple(value))
                case "preempt_mode", list():
                    qos = replace(qos, preempt_mode=tuple(value))
                case resource, int():
                    limits[resource] = value
                case resource, _:
                    limits.pop(resource, None)
        # `put_qos` itself reads back what was stored.
        self._accounting.put_qos(replace(qos, group_tres=limits), known=known)

    def _apply_to_account(self, change: Change) -> None:
        name, cluster = change.name, self._cluster()
        if change.kind is ChangeKind.DELETE:
            self._refuse_shared(change)
            below = descendants(name, self._accounts())
            self._refuse_in_use(change, lambda job: job.account in below)
            for member in self._accounting.associations():
                is_here = member.cluster == cluster
                if is_here and member.user and member.account in below:
                    self._remove_member(member, leaving=below)
            self._accounting.delete_account(name)
            self._check_gone(change, bool(self._accounting.associations(account=name)))
            return
        now = self._accounts().get(name)
        if now is None:
            self._accounting.put_account(Account(name, f"Tidegate: {name}", name.partition("_")[0]))
        wanted = association_of(change.after, now or Association(name, cluster))
        detour = self._detour if wanted.parent_account == ROOT_ACCOUNT else ROOT_ACCOUNT
        is_own_detour = detour != ROOT_ACCOUNT and now is not None
        if is_own_detour and self._accounting.changes_accounts_by_detour:
            self._accounting.put_account(Account(detour, "Tidegate: passed through", "tidegate"))
            self._accounting.put_association(
                Association(detour, cluster, parent_account=ROOT_ACCOUNT)
            )
        self._accounting.put_association(wanted, detour=detour, known=() if now is None else (now,))
        kept = self._accounts().get(name)
        self._check_kept(change, None if kept is None else settings_of_account(kept))
        if is_own_detour and self._accounting.changes_accounts_by_detour:
            self._remove_detour(detour, cluster)

    @property
    def _detour(self) -> str:
        return self._options.account_prefix + DETOUR

    def _remove_detour(self, detour: str, cluster: str) -> None:
        """Remove the detour account, unless an account is still below it.

        Slurm removes an account together with everything below it. An interrupted move leaves its
        account there, and a change of its own moves it back.
        """
        is_used = any(
            item.parent_account == detour or (item.account == detour and item.cluster != cluster)
            for item in self._accounting.associations()
        )
        if not is_used:
            self._accounting.delete_account(detour)

    def _apply_to_member(self, change: Change) -> None:
        cluster = self._cluster()
        account, user = change.name, change.user
        if change.kind is ChangeKind.DELETE:
            self._refuse_in_use(change, lambda job: (job.account, job.user) == (account, user))
            for member in self._memberships(account, user, cluster):
                self._remove_member(member, leaving={account})
            self._check_gone(change, bool(self._memberships(account, user, cluster)))
            return
        if all(known.name != user for known in self._accounting.users()):
            self._accounting.add_user(user, account=account, cluster=cluster)
        qos = change.after.get("qos")
        wanted = Association(
            account, cluster, user, qos=tuple(qos) if isinstance(qos, list) else ()
        )
        self._accounting.put_association(wanted)
        kept = self._memberships(account, user, cluster)
        seen: dict[str, Value] | None = None
        if kept:
            seen = {"account": account, "qos": sorted(kept[0].qos)}
        self._check_kept(change, seen)

    def _remove_member(self, member: Association, *, leaving: set[str]) -> None:
        """Remove a membership, after choosing another default account for its user.

        Slurm refuses to remove the default membership while the user has others.
        """
        others = sorted(
            item.account
            for item in self._accounting.associations(user=member.user)
            if item.cluster == member.cluster and item.account not in leaving
        )
        if member.is_default and others:
            self._accounting.put_user(User(member.user, others[0]))
        self._accounting.delete_association(
            member.account, cluster=member.cluster, user=member.user
        )

    def _memberships(self, account: str, user: str, cluster: str) -> list[Association]:
        """Return the memberships on this cluster, out of all clusters of the accounting."""
        found = self._accounting.associations(account=account, user=user)
        return [item for item in found if item.cluster == cluster]

    def _accounts(self) -> Mapping[str, Association]:
        cluster = self._cluster()
        return {
            item.account: item
            for item in self._accounting.associations()
            if item.cluster == cluster and not item.user
        }

    def _refuse_shared(self, change: Change) -> None:
        if self._is_shared():
            raise WorkloadRejected(f"{change.subject} {OF_OTHERS}")

    def _refuse_in_use(self, change: Change, uses: JobTest) -> None:
        jobs = [job for job in self._controller.jobs().jobs if job.state in _ALIVE and uses(job)]
        if jobs:
            raise WorkloadRejected(f"{change.subject} is in use: {jobs_told(jobs)}")

    def _check_gone(self, change: Change, is_there: bool) -> None:
        if is_there:
            raise OutcomeUnknown(f"{change.subject} was to be removed and is still there")

    def _check_kept(self, change: Change, kept: Mapping[str, Value] | None) -> None:
        """Raise OutcomeUnknown unless the cluster has the written settings."""
        for name, value in change.after.items():
            if kept is None or kept.get(name) != value:
                has = "nothing" if kept is None else repr(kept.get(name))
                raise OutcomeUnknown(
                    f"{change.subject}: {name} was set to {value!r} and the cluster has {has}"
                )
