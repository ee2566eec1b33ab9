"""Who is who on a cluster that has users of its own: the portal's user and their UNIX name.

One person of the portal per name, so that nobody's jobs and files become somebody else's. Where the
cluster's users are nobody's to map, a name counts as who signs in here with it.
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

#: What useradd accepts; the minter of the cluster checks besides that the name resolves there.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
#: User name of those who submit on a cluster and are not known by name.
SOMEBODY = "submitted-on-cluster"
_NEVER = frozenset({"root", "daemon", "nobody", "slurm", "munge", "bin", "sys"})


@transaction.atomic
def map_user(
    cluster: Cluster, user: User, name: str, *, by: Administrator, now: datetime
) -> ClusterUser:
    """From now on `user` runs on `cluster` as `name`; replaces what was.

    What already runs keeps the name that it was started with. Raises InvalidRequest for a
    cluster without users of its own or a name that cannot be one, Conflict when the name is
    somebody else's.
    """
    kind = kind_named(cluster.kind)
    if not kind.has_users:
        raise InvalidRequest(f"A {cluster.kind} cluster has no users of its own; nothing to map.")
    if _NAME.fullmatch(name) is None or name in _NEVER:
        raise InvalidRequest(
            f"{name[:40]!r} cannot be the UNIX name of a person. Use the name under which the "
            "cluster knows them: lower-case letters, digits, '-' and '_'.",
            errors=[FieldError("/name", "is no UNIX user name of a person")],
        )
    if name == cluster.options.get(kind.service_user_option or ""):
        raise InvalidRequest(
            f"{name} is the user as whom Tidegate itself acts on {cluster.name}; nobody's jobs can "
            "run as that. Give the person a UNIX user of their own.",
            errors=[FieldError("/name", "is the cluster's service user")],
        )
    try:
        with transaction.atomic():
            mapped, _ = ClusterUser.objects.update_or_create(
                cluster=cluster, user=user, defaults={"name": name}
            )
    except IntegrityError as error:
        raise Conflict(
            f"{name} on {cluster.name} is mapped to another user; remove that mapping first."
        ) from error
    _record("cluster_user.mapped", cluster, user, name, by=by, now=now)
    return mapped


@transaction.atomic
def unmap_user(cluster: Cluster, mapping_id: UUID, *, by: Administrator, now: datetime) -> None:
    """Take a mapping away; what runs goes on. Raises NotFound."""
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
    """The names of users on `cluster`, of those for whom somebody has mapped one."""
    return dict(
        ClusterUser.objects.filter(cluster=cluster, user__in=user_ids).values_list(
            "user_id", "name"
        )
    )


def users_by_name(cluster: Cluster) -> dict[str, UUID]:
    """The portal's user of every mapped name of `cluster`."""
    return dict(ClusterUser.objects.filter(cluster=cluster).values_list("name", "user_id"))


def users_beside_the_portal(
    wanted: Collection[tuple[UUID, str]], *, now: datetime
) -> dict[tuple[UUID, str], UUID]:
    """Who of each organization has each name, on a cluster whose users nobody maps.

    A name is somebody's who signs in here with it ("bob@ai-company") and is of the organization,
    also after they were deactivated.
    All others are one user of their organization, whom nobody can sign in as and who is made when
    first needed: what a team is charged does not depend on who in it has submitted.
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
    """The user of an organization for those who are not known by name."""
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
        # Somebody else made it at this moment.
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
