"""Who is who on a cluster that has users of its own: the portal's user and their UNIX name.

One person of the portal per name, so that nobody's jobs and files become somebody else's.
"""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from audit.recording import record
from clusters.models import Cluster
from clusters.registration import Administrator
from connectors.registry import KINDS_WITH_USERS
from live.waking import wake
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from quotas.models import ClusterUser
from tenants.models import User
from webapi.middleware import current_request_id

#: What useradd accepts; the minter of the cluster checks besides that the name resolves there.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
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
    if cluster.kind not in KINDS_WITH_USERS:
        raise InvalidRequest(f"A {cluster.kind} cluster has no users of its own; nothing to map.")
    if _NAME.fullmatch(name) is None or name in _NEVER:
        raise InvalidRequest(
            f"{name[:40]!r} cannot be the UNIX name of a person. Use the name under which the "
            "cluster knows them: lower-case letters, digits, '-' and '_'.",
            errors=[FieldError("/name", "is no UNIX user name of a person")],
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


def name_on(cluster: Cluster, user_id: UUID) -> str | None:
    """The user's name on `cluster`; None when nobody has mapped one."""
    return (
        ClusterUser.objects.filter(cluster=cluster, user=user_id)
        .values_list("name", flat=True)
        .first()
    )


def users_by_name(cluster: Cluster) -> dict[str, UUID]:
    """The portal's user of every mapped name of `cluster`."""
    return dict(ClusterUser.objects.filter(cluster=cluster).values_list("name", "user_id"))


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
