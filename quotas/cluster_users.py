"""Maps users of the portal to UNIX names on clusters that have their own users.

A name belongs to one person of the portal, so that jobs and files never change owners. Where users
are not mapped, a name belongs to the user who signs in here with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from audit.recording import record
from clusters.models import Cluster
from clusters.registration import Administrator
from connectors.registry import kind_named
from live.waking import wake
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from quotas.models import ClusterUser
from tenants.models import Node, User, UserKind
from webapi.middleware import current_request_id

#: Names that useradd accepts. The cluster's minter also checks that the name exists there.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
#: Username for submissions on a cluster by unknown users.
SOMEBODY = "submitted-on-cluster"
_NEVER = frozenset({"root", "daemon", "nobody", "slurm", "munge", "bin", "sys"})


@transaction.atomic
def map_user(
    cluster: Cluster, user: User, name: str, *, by: Administrator, now: datetime
) -> ClusterUser:
    """Let `user` run on `cluster` as `name` from now on. Replaces an earlier mapping.

    Running jobs keep the name with which they were started. Raises InvalidRequest for a cluster
    without users of its own, or an invalid name. Raises Conflict if the name belongs to another
    user.
    """
    kind = kind_named(cluster.kind)
    if not kind.has_users:
        raise InvalidRequest(
            f"A {cluster.kind} cluster has no users of its own, so no user can be mapped."
        )
    if _NAME.fullmatch(name) is None or name in _NEVER:
        raise InvalidRequest(
            f"{name[:40]!r} cannot be the UNIX name of a person. Use the person's name on the "
            "cluster: lower-case letters, digits, '-' and '_'.",
            errors=[FieldError("/name", "is not a UNIX username of a person")],
        )
    if name == cluster.options.get(kind.service_user_option or ""):
        raise InvalidRequest(
            f"{name} is the user of Tidegate itself on {cluster.name}, so jobs cannot run as it. "
            "Give the person a UNIX user of their own.",
            errors=[FieldError("/name", "is the cluster's service user")],
        )
    try:
        with transaction.atomic():
            mapped, _ = ClusterUser.objects.update_or_create(
                cluster=cluster, user=user, defaults={"name": name}
            )
    except IntegrityError as error:
        raise Conflict(
            f"{name} on {cluster.name} is mapped to another user. Remove that mapping first."
        ) from error
    _record("cluster_user.mapped", cluster, user, name, by=by, now=now)
    return mapped


@transaction.atomic
def unmap_user(cluster: Cluster, mapping_id: UUID, *, by: Administrator, now: datetime) -> None:
    """Remove a mapping. Running jobs continue. Raises NotFound."""
    mapped = (
        ClusterUser.objects.select_for_update()
        .select_related("user")
        .filter(pk=mapping_id, cluster=cluster)
        .first()
    )
    if mapped is None:
        raise NotFound("There is no such mapping on this cluster.")
    mapped.delete()
    _record("cluster_user.unmapped", cluster, mapped.user, mapped.name, by=by, now=now)


def names_on(cluster: Cluster, user_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the names of users on `cluster`, without users that are not mapped."""
    return dict(
        ClusterUser.objects.filter(cluster=cluster, user__in=user_ids).values_list(
            "user_id", "name"
        )
    )


def users_by_name(cluster: Cluster) -> dict[str, UUID]:
    """Return the portal's user of every mapped name of `cluster`."""
    return dict(ClusterUser.objects.filter(cluster=cluster).values_list("name", "user_id"))


def users_beside_the_portal(
    wanted: Collection[tuple[UUID, str]], *, now: datetime
) -> dict[tuple[UUID, str], UUID]:
    """Return the user for each (organization, name) on a cluster whose users are not mapped.

    A name belongs to the user of the organization who signs in here with it ("bob@ai-company"),
    also after a deactivation. All other names share one user per organization, which is created
    when first needed and cannot sign in. So a team's charges do not depend on which of its members
    submitted.
    """
    if not wanted:
        return {}
    people = {
        (organization_id, login): pk
        for pk, organization_id, login in User.objects.filter(
            login__in={name for _, name in wanted}
        ).values_list("pk", "organization_id", "login")
    }
    others = {
        organization_id: _somebody(organization_id, now)
        for organization_id in {key[0] for key in wanted if key not in people}
    }
    return {key: people.get(key) or others[key[0]] for key in wanted}


def _somebody(organization_id: UUID, now: datetime) -> UUID:
    """Return the organization's user for unknown names."""
    found = User.objects.filter(organization=organization_id, username=SOMEBODY).first()
    if found is not None:
        return found.pk
    organization = Node.objects.get(pk=organization_id)
    user = User(
        organization=organization,
        username=SOMEBODY,
        login=f"{SOMEBODY}@{organization.slug}",
        name="Submitted on a cluster",
        kind=UserKind.SERVICE.value,
        created_at=now,
    )
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            record(
                action="user_created",
                subject_kind="user",
                subject_id=user.pk,
                now=now,
                organization_id=organization_id,
                node_path=organization.path,
                detail={"login": user.login},
            )
    except IntegrityError:
        # Another transaction created it at this moment.
        return User.objects.get(organization=organization_id, username=SOMEBODY).pk
    return user.pk


def _record(
    action: str, cluster: Cluster, user: User, name: str, *, by: Administrator, now: datetime
) -> None:
    record(
        action=action,
        subject_kind="cluster",
        subject_id=cluster.pk,
        now=now,
        actor_id=by.id,
        actor=by.login,
        detail={"cluster": cluster.name, "user": user.login, "name": name},
        request_id=current_request_id(),
    )
    wake("arbiter")
