"""Paths of the checkout and of the state folder of this machine's Tidegate."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from embedded.errors import LauncherError

REPO = Path(__file__).resolve().parents[2]
_MARK = ".tidegate-state"
_DISK_NEEDED_BYTES = 256 * 1000**2


@dataclass(frozen=True)
class Layout:
    """The paths below a state folder, which is `var` of the checkout or TIDEGATE_STATE_DIR."""

    state: Path

    @property
    def run(self) -> Path:
        """Return the folder of process records."""
        return self.state / "run"

    @property
    def log(self) -> Path:
        """Return the folder with one log file per service."""
        return self.state / "log"

    @property
    def env_file(self) -> Path:
        """Return the file of addresses and secrets for the services, mode 600."""
        return self.state / "env"

    @property
    def superuser_file(self) -> Path:
        """Return the file with the password of PostgreSQL's superuser, mode 600.

        No service gets it.
        """
        return self.state / "postgres-superuser"

    @property
    def postgres(self) -> Path:
        """Return the folder of the embedded PostgreSQL."""
        return self.state / "postgres"

    @property
    def valkey(self) -> Path:
        """Return the folder of the embedded Valkey's configuration."""
        return self.state / "valkey"

    @property
    def local(self) -> Path:
        """Return the folder of the demo's cluster: attempts, logs and its users' folders."""
        return self.state / "local"

    @property
    def demo_file(self) -> Path:
        """Return the file of logins and tokens of the demo, mode 600."""
        return self.state / "demo.json"

    @property
    def phase_file(self) -> Path:
        """Return the file with the supervisor's phase, process id and port."""
        return self.state / "phase"

    @property
    def supervisor_lock(self) -> Path:
        """Return the file that the one supervisor of this state folder locks."""
        return self.state / "supervisor.lock"

    def log_of(self, name: str) -> Path:
        """Return the log file of one service."""
        return self.log / f"{name}.log"

    def heartbeat_of(self, name: str) -> Path:
        """Return the file that a service touches once a second while it makes progress."""
        return self.run / f"{name}.heartbeat"

    def prepare(self) -> None:
        """Create the folders. Raises LauncherError when that fails or the disk is full."""
        try:
            for folder in (self.state, self.run, self.log):
                folder.mkdir(parents=True, exist_ok=True)
            # Other users must be able to enter the state folder, as PostgreSQL may run as another
            # user.
            for folder in (self.run, self.log):
                folder.chmod(0o700)
            (self.state / _MARK).touch()
        except OSError as refused:
            raise LauncherError(
                f"Cannot write to {self.state} ({refused.strerror}): change its owner with "
                "`chown`, or name another folder in TIDEGATE_STATE_DIR."
            ) from refused
        free = shutil.disk_usage(self.state).free
        if free < _DISK_NEEDED_BYTES:
            raise LauncherError(
                f"Only {free / 1e6:.0f} MB are free on the disk of {self.state}, and the database "
                f"needs at least {_DISK_NEEDED_BYTES / 1e6:.0f} MB: free some space and try again."
            )

    def wipe(self) -> None:
        """Delete the state folder.

        Raises LauncherError for a folder that Tidegate did not create.
        """
        if not self.state.exists():
            return
        if not (self.state / _MARK).exists():
            raise LauncherError(
                f"{self.state} was not created by Tidegate, so it is not deleted: check "
                "TIDEGATE_STATE_DIR."
            )
        shutil.rmtree(self.state)


def layout_here() -> Layout:
    """Return the layout that the environment selects."""
    named = os.environ.get("TIDEGATE_STATE_DIR")
    return Layout(Path(named).resolve() if named else REPO / "var")
