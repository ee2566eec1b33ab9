"""As whom jobs of a person run on local clusters: a user number of their own, theirs for good.

Where a local cluster cannot isolate its jobs at all, they would run as the portal itself. Then only
the people of the demo may run there, unless a setting allows it to everybody.
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

#: Serializes who gets which number; the key has no meaning.
_LOCK = 7_244_003
#: Numbers that this machine has for others, passed over at most for one person.
_PASSED_OVER_MAX = 1_000


def needs_number(cluster: Cluster) -> bool:
    """Whether jobs run on `cluster` as the user number of their owner."""
    return _runs_here(cluster) and cluster.isolation not in ("", Level.NONE)


def _runs_here(cluster: Cluster) -> bool:
    return kind_named(cluster.kind).runs_on_portal_machine


def numbers_of(user_ids: Collection[UUID]) -> dict[UUID, str]:
    """The numbers of these users, given now to those who have none.

    Without any left in the range of the setting, the rest is missing.
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
    """The first numbers of the range that nobody has, here or on this machine."""
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
    """Whether `cluster` cannot isolate jobs, so that only those of the demo's people run there."""
    return _runs_here(cluster) and cluster.isolation == Level.NONE and not settings.LOCAL_UNISOLATED


def isolation_of(cluster: Cluster) -> str:
    """How far `cluster` isolates jobs and who may run there, in sentences; "" where it is not known
    or not ours to say."""
    told = described(cluster.isolation, cluster.isolation_reason)
    if cluster.isolation != Level.NONE:
        return told
    if is_for_the_demo(cluster):
        return f"{told} Only jobs of the demo's people run there."
    return f"{told} Everybody's jobs run there, as the setting TIDEGATE_LOCAL_UNISOLATED allows."


def is_refused(cluster: Cluster, login: str) -> bool:
    """Whether jobs of the user `login` may not run on `cluster`, which cannot isolate them."""
    return is_for_the_demo(cluster) and login not in demo_logins()


def refusal(clusters: Sequence[str], login: str) -> str:
    """Why jobs of the user do not run on these clusters, and what to do."""
    return (
        f"Jobs are not isolated on {', '.join(clusters)}, so only those of the demo's people run "
        f"there, and {login} is none of them. Whoever runs this installation can start it as root, "
        "or allow it with TIDEGATE_LOCAL_UNISOLATED=true."
    )


def demo_logins() -> frozenset[str]:
    """The people of the demo, as `load_demo` wrote them; nobody where it is not loaded."""
    try:
        personas = json.loads((settings.STATE_DIR / "demo.json").read_bytes())["personas"]
        return frozenset(str(persona["login"]) for persona in personas)
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def demo_users() -> list[UUID]:
    """The ids of those of them who are here."""
    return list(User.objects.filter(login__in=demo_logins()).values_list("pk", flat=True))
