"""Adds and changes pools and clusters, for an administrator of the installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from audit.recording import record
from clusters.models import Cluster, Pool, PoolAlias
from clusters.observation import store_capacity
from clusters.pool_names import read_aliases, set_aliases
from clusters.trusted import check_trusted
from connectors.errors import ClusterUnavailable
from connectors.options import OptionsRefused, pointer
from connectors.registry import KINDS, kind_named
from live.publishing import publish
from live.waking import wake
from primitives.errors import Conflict, FieldError, InvalidRequest
from primitives.units import DeviceKind
from webapi.middleware import current_request_id
from webapi.removing import delete_unused


@dataclass(frozen=True, slots=True)
class Administrator:
    """A person whose right to administer the installation has been checked.

    Only `quotas.fleet.administrator` creates one from a person.
    """

    id: UUID
    login: str


#: The default value of one device relative to the reference GPU, per mille. A core costs about a
#: hundredth of a GPU.
DEFAULT_WEIGHTS: Mapping[DeviceKind, int] = {DeviceKind.GPU: 1_000, DeviceKind.CPU: 10}


@transaction.atomic
def add_pool(
    name: str,
    *,
    description: str = "",
    weight: int | None = None,
    device: DeviceKind = DeviceKind.GPU,
    aliases: Sequence[str] = (),
    by: Administrator,
    now: datetime,
) -> Pool:
    """Add a pool of `device`. Raises Conflict when the name or an alias is taken.

    `weight` is the value of one device relative to the reference GPU, per mille. None means
    `DEFAULT_WEIGHTS`.
    """
    _refuse_taken(
        Pool.objects.filter(name=name).exists() or PoolAlias.objects.filter(folded=name).exists(),
        *("pool", name),
    )
    worth = DEFAULT_WEIGHTS[device] if weight is None else weight
    pool = Pool.objects.create(
        name=name, description=description, weight=worth, device=device.value
    )
    set_aliases(pool, read_aliases(aliases))
    _record("pool.created", pool, {"weight": worth, "device": device.value}, by=by, now=now)
    return pool


@transaction.atomic
def change_pool(
    pool: Pool,
    *,
    description: str | None = None,
    weight: int | None = None,
    device: DeviceKind | None = None,
    aliases: Sequence[str] | None = None,
    by: Administrator,
    now: datetime,
) -> Pool:
    """Change what is not None. The name stays: clusters and jobs use it.

    Raises Conflict for another `device` once the pool is used: amounts that were counted in GPUs
    would be read as cores. `aliases` replace all others; raises Conflict for one of another pool,
    and InvalidRequest for a name that no type has.
    """
    locked = Pool.objects.select_for_update().get(pk=pool.pk)
    before: dict[str, Any] = {
        "description": locked.description,
        "weight": locked.weight,
        "device": locked.device,
    }
    locked.description = locked.description if description is None else description
    locked.weight = locked.weight if weight is None else weight
    if device is not None and device != locked.kind:
        _refuse_other_device(locked)
        locked.device = device.value
    after: dict[str, Any] = {
        "description": locked.description,
        "weight": locked.weight,
        "device": locked.device,
    }
    if aliases is not None:
        before["aliases"] = sorted(locked.aliases.values_list("folded", flat=True))
        after["aliases"] = read_aliases(aliases)
        set_aliases(locked, after["aliases"])
    if after != before:
        locked.save(update_fields=["description", "weight", "device"])
        _record("pool.changed", locked, {"before": before, "after": after}, by=by, now=now)
    return locked


def archive_pool(pool: Pool, *, by: Administrator, now: datetime) -> Pool:
    """Let nothing start in the pool until it is restored, and stop counting its capacity.

    A pool that is archived already stays so. Must run in a transaction. `jobs` asks what happens to
    the pool's work.
    """
    # Locked before the pool, as when an inventory is stored, so that no node is added meanwhile.
    clusters = list(Cluster.objects.select_for_update(no_key=True).order_by("pk"))
    locked = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    if locked.archived_at is None:
        locked.nodes.filter(is_schedulable=True).update(is_schedulable=False)
        for cluster in clusters:
            store_capacity(cluster, now)
        locked.archived_at = now
        locked.save(update_fields=["archived_at"])
        _record("pool.archived", locked, {}, by=by, now=now)
    return locked


@transaction.atomic
def restore_pool(pool: Pool, *, by: Administrator, now: datetime) -> Pool:
    """Let jobs start in an archived pool again. Its nodes count once their clusters answer."""
    locked = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
    if locked.archived_at is not None:
        locked.archived_at = None
        locked.save(update_fields=["archived_at"])
        _record("pool.restored", locked, {}, by=by, now=now)
    return locked


@transaction.atomic
def delete_pool(pool: Pool, *, by: Administrator, now: datetime) -> None:
    """Delete a pool that nothing refers to. Raises Conflict.

    Jobs that accept several pools refer only to the first of them, but their organization has a
    quota in each.
    """
    locked = Pool.objects.select_for_update().get(pk=pool.pk)
    locked.aliases.all().delete()
    delete_unused(locked, called=locked.name, instead="Archive it")
    _record("pool.deleted", pool, {"device": pool.device}, by=by, now=now)


@transaction.atomic
def add_cluster(
    name: str,
    kind: str,
    options: Mapping[str, Any],
    *,
    is_enabled: bool = True,
    by: Administrator,
    now: datetime,
) -> Cluster:
    """Add a cluster; the observer includes it from its next round on.

    Raises InvalidRequest for an unknown kind or options that its connector refuses. Raises Conflict
    when the name is taken, or when the cluster exists under another name. A cluster that does not
    answer yet is accepted.
    """
    refuse_bad_options(kind, options)
    _refuse_taken(Cluster.objects.filter(name=name).exists(), "cluster", name)
    cluster = Cluster(name=name, kind=kind, options=dict(options), is_enabled=is_enabled)
    _refuse_second(cluster)
    cluster.save(force_insert=True)
    _record("cluster.created", cluster, {"kind": kind, "is_enabled": is_enabled}, by=by, now=now)
    return cluster


@transaction.atomic
def change_cluster(
    cluster: Cluster,
    *,
    is_enabled: bool | None = None,
    options: Mapping[str, Any] | None = None,
    by: Administrator,
    now: datetime,
) -> Cluster:
    """Change what is not None; `options` are replaced whole and never written to the audit log.

    Disabling stops new starts; what runs there goes on.

    - Raises InvalidRequest for options that the cluster's connector refuses.
    - Raises Conflict for enabling an archived cluster, and for a cluster that exists under another
      name.
    - Raises Conflict while our workloads are on it, for options that would change its identity or
      the ownership of our workloads.
    """
    locked = Cluster.objects.select_for_update().get(pk=cluster.pk)
    detail: dict[str, Any] = {}
    if is_enabled is not None and is_enabled != locked.is_enabled:
        if locked.archived_at is not None:
            raise Conflict(f"{locked.name} is archived. Restore it instead.")
        detail["is_enabled"] = is_enabled
        locked.is_enabled = is_enabled
    if options is not None and dict(options) != locked.options:
        refuse_bad_options(locked.kind, options)
        if lasting := lasting_changes(locked, options):
            _refuse_while_in_use(locked, lasting)
            # The next answer defines the cluster's identity.
            locked.identity = {}
        detail["options"] = "replaced"
        locked.options = dict(options)
    if detail:
        _refuse_second(locked)
        locked.save(update_fields=["is_enabled", "options", "identity"])
        _record("cluster.changed", locked, detail, by=by, now=now)
    return locked


def archive_cluster(cluster: Cluster, *, by: Administrator, now: datetime) -> Cluster:
    """Disable the cluster until it is restored, and stop counting its capacity.

    A cluster that is archived already stays so. Must run in a transaction. `jobs` asks what happens
    to the cluster's work.
    """
    locked = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    if locked.archived_at is None:
        locked.nodes.filter(is_schedulable=True).update(is_schedulable=False)
        store_capacity(locked, now)
        locked.is_enabled = False
        locked.archived_at = now
        locked.save(update_fields=["is_enabled", "archived_at"])
        _record("cluster.archived", locked, {}, by=by, now=now)
    return locked


@transaction.atomic
def restore_cluster(cluster: Cluster, *, by: Administrator, now: datetime) -> Cluster:
    """Enable an archived cluster again; its nodes count once it answers.

    Raises Conflict if it was meanwhile added again under another name.
    """
    locked = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    if locked.archived_at is not None:
        locked.is_enabled = True
        locked.archived_at = None
        _refuse_second(locked)
        locked.save(update_fields=["is_enabled", "archived_at"])
        _record("cluster.restored", locked, {}, by=by, now=now)
    return locked


@transaction.atomic
def delete_cluster(cluster: Cluster, *, by: Administrator, now: datetime) -> None:
    """Delete a cluster that never answered and that nothing refers to. Raises Conflict."""
    locked = Cluster.objects.select_for_update().get(pk=cluster.pk)
    delete_unused(locked, called=locked.name, instead="Archive it")
    _record("cluster.deleted", cluster, {"kind": cluster.kind}, by=by, now=now)


def _refuse_other_device(pool: Pool) -> None:
    # The reverse relations come from `quotas` and `jobs`, which import this package and not vice
    # versa.
    used_by = {
        "nodes": pool.nodes.exists(),
        "quotas": pool.quotas.exists(),
        "jobs": pool.jobs.exists(),
    }
    if any(used_by.values()):
        what = " and ".join(name for name, is_used in used_by.items() if is_used)
        raise Conflict(
            f"{pool.name} has {what} that count its {pool.kind.plural}; add another pool for other "
            "devices."
        )


def lasting_changes(cluster: Cluster, options: Mapping[str, Any]) -> list[str]:
    """Return the changed options that identify the cluster or our workloads on it."""
    return sorted(
        name
        for name in kind_named(cluster.kind).lasting_options
        if options.get(name) != cluster.options.get(name)
    )


def _refuse_while_in_use(cluster: Cluster, changed: Sequence[str]) -> None:
    # The reverse relation comes from `jobs`, which imports this package and not vice versa.
    in_use = cluster.attempts.filter(released_at=None).count()
    if not in_use:
        return
    names = ", ".join(changed)
    raise Conflict(
        f"{in_use} attempts are open on {cluster.name}, and with another {names} they would be "
        "taken for lost. Disable the cluster, wait until they have ended or cancel their jobs, and "
        "change it then; if only its address moves, let the old address lead to the new one."
    )


def _refuse_second(cluster: Cluster) -> None:
    """Raise Conflict if the cluster exists under another name.

    Otherwise everything on it would be offered, in use and charged twice.
    """
    address = _address(cluster)
    if address is None or not cluster.is_enabled:
        return
    for other in Cluster.objects.filter(kind=cluster.kind).exclude(pk=cluster.pk):
        is_watched = other.is_enabled or other.attempts.filter(released_at=None).exists()
        if is_watched and _address(other) == address:
            raise Conflict(
                f"{other.name} is the cluster at {address} already. Change that one; under two "
                "names everything on it would be offered and charged twice."
            )


def _address(cluster: Cluster) -> str | None:
    found = cluster.options.get(kind_named(cluster.kind).address_option or "")
    return found.rstrip("/").lower() if isinstance(found, str) else None


def refuse_bad_options(kind: str, options: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for an unknown kind, or options that its connector refuses."""
    if kind not in KINDS:
        raise InvalidRequest(
            f"There is no kind of cluster {kind!r}. Kinds: {', '.join(sorted(KINDS))}.",
            errors=[FieldError("/kind", "is not a kind of cluster")],
        )
    try:
        check_trusted(kind, options)
        kind_named(kind).check_options(options)
    except ValueError as error:
        problems = error.problems if isinstance(error, OptionsRefused) else (((), str(error)),)
        raise InvalidRequest(
            f"A {kind} cluster cannot have these options: {error}.",
            errors=[FieldError("/options" + pointer(path), why) for path, why in problems],
        ) from error
    except ClusterUnavailable:
        # An unreachable cluster does not make the options wrong; its page will show it.
        return


def _refuse_taken(is_taken: bool, kind: str, name: str) -> None:
    if is_taken:
        raise Conflict(f"There is a {kind} {name!r} already; change that one.")


def _record(
    action: str,
    subject: Pool | Cluster,
    detail: dict[str, Any],
    *,
    by: Administrator,
    now: datetime,
) -> None:
    record(
        action=action,
        subject_kind=action.partition(".")[0],
        subject_id=subject.pk,
        now=now,
        actor_id=by.id,
        actor=by.login,
        detail={"name": subject.name, **detail},
        request_id=current_request_id(),
    )
    publish("clusters", ids=[subject.pk], organization_id=None)
    wake("observer")
    wake("arbiter")
