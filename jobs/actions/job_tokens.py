"""Tokens of running attempts: a job submits, lists, requeues and cancels jobs as its owner.

A token is valid while its attempt runs, and only for the requests whose views take it. Nothing is
stored: the token is a signature over the job and the attempt.
"""

from __future__ import annotations

import re
from secrets import compare_digest
from uuid import UUID

from django.conf import settings
from django.utils.crypto import salted_hmac

from clusters.models import Cluster
from connectors.registry import kind_named
from jobs.models import Attempt, AttemptState
from tenants.access import Actor, actor_of
from tenants.roles import Scope

#: The prefix of a token; the job, the attempt's number and a signature follow.
TOKEN_PREFIX = "tgj_"  # noqa: S105 - no secret
_SALT = "tidegate.jobs"
_FORM = re.compile(rf"{TOKEN_PREFIX}([0-9a-f]{{32}})_([0-9]{{1,9}})_[0-9a-f]{{64}}", re.ASCII)


def client_environment(attempt: Attempt) -> dict[str, str]:
    """Return the environment with which `tidegate`, and Slurm's commands, work inside the job.

    Nobody but the job's owner may read it. Empty if jobs cannot reach the portal, or if its kind of
    cluster cannot keep it from others. The job's own values win.
    """
    address = _address(attempt.cluster)
    given = attempt.job.environment
    names = ("TIDEGATE_SERVER", "TIDEGATE_TOKEN")
    if not address or any(name in given for name in names):
        return {}
    return dict(zip(names, (address, _token(attempt.job_id, attempt.number)), strict=True))


def reaches_portal(cluster: Cluster) -> bool:
    """Return whether jobs on `cluster` get an address and a token of the portal."""
    return bool(_address(cluster)) and not cluster.portal_refusal


def _address(cluster: Cluster) -> str:
    kind = kind_named(cluster.kind)
    is_kept = kind.keeps_environments or kind.takes_private_environment(cluster.options)
    return kind.portal_url(cluster.options, settings.PUBLIC_URL) if is_kept else ""


def actor_by_job_token(token: str) -> Actor | None:
    """Return the owner of the running job with this token; None for any other token.

    The actor has the owner's rights on jobs, and no others.
    """
    form = _FORM.fullmatch(token)
    if form is None:
        return None
    job_id, number = UUID(form[1]), int(form[2])
    # A job that runs for weeks keeps its first token, even if the secret key has changed since.
    ours = [
        compare_digest(token, _token(job_id, number, secret=key))
        for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]
    if not any(ours):
        return None
    attempt = (
        Attempt.objects.select_related("job__user__organization")
        .filter(job=job_id, number=number, released_at=None)
        .exclude(state=AttemptState.ENDED)
        .first()
    )
    return None if attempt is None else actor_of(attempt.job.user, (Scope.JOBS,))


def _token(job_id: UUID, number: int, *, secret: str | None = None) -> str:
    signed = salted_hmac(_SALT, f"{job_id} {number}", secret, algorithm="sha256").hexdigest()
    return f"{TOKEN_PREFIX}{job_id.hex}_{number}_{signed}"
