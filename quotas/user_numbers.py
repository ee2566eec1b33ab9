"""Fixed UNIX user numbers, one per person, for jobs on local clusters.

If a local cluster cannot isolate its jobs, they would run as the portal itself. Then only the
demo's people may run jobs there, unless a setting allows it to all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from clusters.models import Cluster
from connectors.local.isolation import Level, described
from connectors.local.options import is_taken
from connectors.registry import kind_named
from quotas.models import UserNumber
from tenants.models import User

#: Lock for the assignment of numbers. The key has no meaning.
_LOCK = 7_244_003
#: Most numbers skipped per person because this machine uses them.
_PASSED_OVER_MAX = 1_000


def needs_number(cluster: Cluster) -> bool:
    """Return whether jobs run on `cluster` with the user number of their owner."""
    return _runs_here(cluster) and cluster.isolation not in ("", Level.NONE)


def _runs_here(cluster: Cluster) -> bool:
    return kind_named(cluster.kind).runs_on_portal_machine


def numbers_of(user_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the numbers of these users, assigning new ones where missing.

    Users are missing in the result if the setting's range is used up.
    """
    found = _known(user_ids)
    missing = sorted(set(user_ids) - found.keys())
    if missing:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            known = _known(missing)
            free = iter(_free_numbers(len(missing) - len(known)))
            UserNumber.objects.bulk_create(
                UserNumber(user_id=user_id, number=number)
                for user_id, number in zip(
                    (one for one in missing if one not in known), free, strict=False
                )
            )
        found |= _known(missing)
    return {user_id: str(number) for user_id, number in found.items()}


def _known(user_ids: Collection[UUID]) -> dict[UUID, int]:
    return dict(UserNumber.objects.filter(user__in=user_ids).values_list("user_id", "number"))


def _free_numbers(count: int) -> list[int]:
    """Return the first numbers of the range that no user has, here or on this machine."""
    first, last = settings.LOCAL_UIDS
    given = set(
        UserNumber.objects.filter(number__range=(first, last)).values_list("number", flat=True)
    )
    found: list[int] = []
    passed_over = 0
    for number in range(first, last + 1):
        if len(found) == count or passed_over == _PASSED_OVER_MAX:
            break
        if number in given:
            continue
        if is_taken(number):
            passed_over += 1
        else:
            found.append(number)
    return found


def is_for_the_demo(cluster: Cluster) -> bool:
    """Return whether `cluster` cannot isolate jobs, so that only the demo's people may use it."""
    return _runs_here(cluster) and cluster.isolation == Level.NONE and not settings.LOCAL_UNISOLATED


def isolation_of(cluster: Cluster) -> str:
    """Return how well `cluster` isolates jobs and who may use it, in sentences.

    It is "" if that is unknown or not applicable.
    """
    told = described(cluster.isolation, cluster.isolation_reason)
    if cluster.isolation != Level.NONE:
        return told
    if is_for_the_demo(cluster):
        return f"{told} Only jobs of the demo's people run there."
    return f"{told} Jobs of all users run there, because TIDEGATE_LOCAL_UNISOLATED allows it."


def is_refused(cluster: Cluster, login: str) -> bool:
    """Return whether jobs of user `login` may not run on `cluster`, which cannot isolate them."""
    return is_for_the_demo(cluster) and login not in demo_logins()


def refusal(clusters: Sequence[str], login: str) -> str:
    """Return why the user's jobs cannot run on these clusters, and what to do."""
    return (
        f"Jobs are not isolated on {', '.join(clusters)}, so only the demo's people may use it, "
        f"which {login} is not. The operator can start the installation as root, or allow it with "
        "TIDEGATE_LOCAL_UNISOLATED=true."
    )


def demo_logins() -> frozenset[str]:
    """Return the logins of the demo's people, as `load_demo` wrote them; empty without a demo."""
    try:
        personas = json.loads((settings.STATE_DIR / "demo.json").read_bytes())["personas"]
        return frozenset(str(persona["login"]) for persona in personas)
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def demo_users() -> list[UUID]:
    """Return the ids of the demo's people who exist."""
    return list(User.objects.filter(login__in=demo_logins()).values_list("pk", flat=True))
