"""The names that our things have on a Slurm cluster.

A job's name is its tag: our key and a signature of key and user, so that nobody can pass a job off
as one of ours, not even with a tag that he read in the queue.
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
#: Slurm's own account, above all others; to write to it would be to write to the whole cluster.
ROOT_ACCOUNT = "root"
#: Where an account is left for a moment on its way from one place to another (see `entitlements`).
DETOUR = "tidegate-detour"
_PATH = re.compile(r"[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*){0,9}", re.ASCII)


def tag(secret: bytes, key: str, user: str) -> str:
    """The name of the job of `key` and `user`: the key, "-", 12 digits of an HMAC-SHA256 of both.

    The user is signed too, so that the name is worth nothing on a job of anybody else.
    """
    digest = hmac.new(secret, f"{key} {user}".encode(), hashlib.sha256).hexdigest()
    return f"{key}-{digest[:_SIGNATURE_DIGITS]}"


def key_of(secret: bytes, name: str, user: str) -> str | None:
    """The key whose tag `name` is on a job of `user`, or None for a name that we did not give."""
    key = name.rpartition("-")[0]
    if not is_key(key) or not name.isascii():
        return None
    return key if hmac.compare_digest(tag(secret, key, user), name) else None


def comment_of(secret: bytes, tagged: str, asked: Sequence[str | int]) -> str:
    """The comment on the job of the name `tagged` that was submitted as `asked`: for people, and
    signed, so that whoever changes the job cannot make the comment fit. Slurm makes small letters
    of large ones in some names."""
    text = " ".join(map(str, (tagged, *asked))).lower()
    digest = hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
    return f"Tidegate {tagged.rpartition('-')[0]} {digest[:_SIGNATURE_DIGITS]}"


def secret_mark(secret: bytes) -> str:
    """What tells `secret` from others without telling it."""
    return hmac.new(secret, b"the secret itself", hashlib.sha256).hexdigest()[:_SIGNATURE_DIGITS]


class ReservedAccount(WorkloadRejected):
    """The account's name is not to be had; the text says what to do."""


def account_name(team: str, prefix: str = "") -> str:
    """The account of the team at path `team`: "ai-company/research" is "ai-company_research".

    Slugs hold no "_", so that no two paths share an account. Raises WorkloadRejected for what
    is no path, and ReservedAccount for "root" and what is below it, and the like.
    """
    if len(team) > _PATH_MAX or not _PATH.fullmatch(team):
        raise WorkloadRejected(f"{team[:80]!r} is no path of a team, so it has no account")
    organization = team.partition("/")[0]
    # Slurm makes small letters of large ones.
    if (prefix + organization).lower() == ROOT_ACCOUNT or organization == DETOUR:
        raise ReservedAccount(
            f"the account {prefix + organization} is not the organization's; it has none on this "
            "cluster until the option account_prefix gives it another name"
        )
    return prefix + team.replace("/", "_")


def team_path(account: str, prefix: str = "") -> str | None:
    """The path of the team whose account is `account`: the inverse of `account_name`.

    None for a name that `account_name` gives to nobody.
    """
    path = account.removeprefix(prefix).replace("_", "/")
    if not account.startswith(prefix) or "/" in account:
        return None
    try:
        return path if account_name(path, prefix) else None
    except WorkloadRejected:
        return None


def own_cluster(names: Sequence[str], wanted: str | None) -> str:
    """Of the clusters' `names` that an accounting knows, which may be several, this cluster's.

    `wanted` is what its options say; without it there must be one. Raises ClusterUnavailable
    where that tells none.
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
    """The QoS of what `account` starts within its guarantee."""
    return prefix + account
