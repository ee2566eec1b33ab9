"""The UNIX user of a workload's processes on this machine."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass

from connectors.local.attempt_spec import Credentials
from connectors.local.isolation import Isolation, Level
from connectors.local.options import LocalOptions, mapped_user, user_number
from connectors.protocol import Workload

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Owner:
    """The UNIX identity of a workload; `credentials` of None means the portal's own user.

    If `is_home_given`, `home` is a folder of the cluster, with the files of earlier jobs of the
    same person.
    """

    credentials: Credentials | None
    home: str
    name: str
    is_home_given: bool

    @property
    def has_own_home(self) -> bool:
        """Return whether the home is a folder of the owner alone.

        "/", the home of system users, never is.
        """
        if self.is_home_given:
            return True
        try:
            uid = os.stat(self.home).st_uid
        except OSError:
            return False
        return self.credentials is not None and uid == self.credentials.uid


def owner_of(options: LocalOptions, workload: Workload, isolation: Isolation) -> Owner:
    """Return the owner of `workload`: by `run_as`, by user number, or the portal's user.

    Raises WorkloadRejected when no user may run it.
    """
    if options.run_as is not None:
        entry = mapped_user(options, workload.user)
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        credentials = Credentials(entry.pw_uid, entry.pw_gid, groups)
        return Owner(credentials, entry.pw_dir, entry.pw_name, is_home_given=False)
    if isolation.level is Level.NONE:
        return Owner(None, pwd.getpwuid(os.geteuid()).pw_dir, "", is_home_given=False)
    number = user_number(options, workload.cluster_user)
    own = Credentials(number, number, ()) if isolation.has_users else None
    name = workload.user if _PLAIN_NAME.fullmatch(workload.user) else f"user-{number}"
    return Owner(own, f"{options.root}/homes/{number}", name, is_home_given=True)
