"""The names of our objects on a Slurm cluster.

A job's name is its tag: our key and a signature of key and user. Nobody can pass off a job as ours,
not even with a tag from the queue.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.workload_checks import is_key

_SIGNATURE_DIGITS = 12
_PATH_MAX = 200
#: Slurm's own account, above all others. A change of it would affect the whole cluster.
ROOT_ACCOUNT = "root"
#: The account below which an account is moved for a moment (see `entitlements`).
DETOUR = "tidegate-detour"
_PATH = re.compile(r"[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*){0,9}", re.ASCII)


def tag(secret: bytes, key: str, user: str) -> str:
    """Return the job name for `key` and `user`: the key, "-", 12 digits of their HMAC-SHA256.

    The user is signed too, so that the name is worthless on another user's job.
    """
    digest = hmac.new(secret, f"{key} {user}".encode(), hashlib.sha256).hexdigest()
    return f"{key}-{digest[:_SIGNATURE_DIGITS]}"


def key_of(secret: bytes, name: str, user: str) -> str | None:
    """Return the key of the tag `name` on a job of `user`; None for a name that we did not give."""
    key = name.rpartition("-")[0]
    if not is_key(key) or not name.isascii():
        return None
    return key if hmac.compare_digest(tag(secret, key, user), name) else None


def comment_of(secret: bytes, tagged: str, asked: Sequence[str | int]) -> str:
    """Return the comment of the job named `tagged` that was submitted as `asked`.

    The comment is for people. It is signed, so that changing the job invalidates it. The text is
    lower case, because Slurm turns some names into lower case.
    """
    text = " ".join(map(str, (tagged, *asked))).lower()
    digest = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
    return f"Tidegate {tagged.rpartition('-')[0]} {digest[:_SIGNATURE_DIGITS]}"


def secret_mark(secret: bytes) -> str:
    """Return a fingerprint that identifies `secret` without revealing it."""
    return hmac.new(secret, b"the secret itself", hashlib.sha256).hexdigest()[:_SIGNATURE_DIGITS]


class ReservedAccount(WorkloadRejected):
    """The account's name is reserved. The text says what to do."""


def account_name(team: str, prefix: str = "") -> str:
    """Return the account of the team at path `team`.

    "ai-company/research" has the account "ai-company_research". Slugs contain no "_", so that no
    two paths share an account. Raises WorkloadRejected for a text that is no path. Raises
    ReservedAccount for "root", names below it, and the like.
    """
    if len(team) > _PATH_MAX or not _PATH.fullmatch(team):
        raise WorkloadRejected(f"{team[:80]!r} is no path of a team, so it has no account")
    organization = team.partition("/")[0]
    # Slurm converts names to lower case.
    if (prefix + organization).lower() == ROOT_ACCOUNT or organization == DETOUR:
        raise ReservedAccount(
            f"the account {prefix + organization} is not the organization's; it has none on this "
            "cluster until the option account_prefix gives it another name"
        )
    return prefix + team.replace("/", "_")


def team_path(account: str, prefix: str = "") -> str | None:
    """Return the path of the team with account `account`: the inverse of `account_name`.

    None for a name that `account_name` never gives.
    """
    path = account.removeprefix(prefix).replace("_", "/")
    if not account.startswith(prefix) or "/" in account:
        return None
    try:
        return path if account_name(path, prefix) else None
    except WorkloadRejected:
        return None


def own_cluster(names: Sequence[str], wanted: str | None) -> str:
    """Return this cluster's name out of the accounting's cluster `names`.

    `wanted` is the name in its options; without it there must be exactly one. Raises
    ClusterUnavailable when neither identifies a cluster.
    """
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is not None and wanted in names:
        return wanted
    raise ClusterUnavailable(
        f"the accounting knows the clusters {', '.join(sorted(names)) or 'none'}; name this one "
        "in option cluster_name"
    )


def guaranteed_qos(account: str, prefix: str) -> str:
    """Return the QoS for jobs of `account` within its guarantee."""
    return prefix + account
