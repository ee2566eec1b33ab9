"""Where everything is: the checkout, and the folder with all that this machine's Tidegate keeps."""

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
    """The paths below one state folder (`var` of the checkout unless TIDEGATE_STATE_DIR is set)."""

    state: Path

    @property
    def run(self) -> Path:
        """Process records."""
        return self.state / "run"

    @property
    def log(self) -> Path:
        """One log file per service."""
        return self.state / "log"

    @property
    def env_file(self) -> Path:
        """Addresses and secrets for the services, mode 600."""
        return self.state / "env"

    @property
    def superuser_file(self) -> Path:
        """The password of PostgreSQL's superuser, mode 600; no service gets it."""
        return self.state / "postgres-superuser"

    @property
    def postgres(self) -> Path:
        """The embedded PostgreSQL."""
        return self.state / "postgres"

    @property
    def valkey(self) -> Path:
        """The embedded Valkey's configuration."""
        return self.state / "valkey"

    @property
    def local(self) -> Path:
        """What the example's own cluster keeps: attempts, logs and the folders of its users."""
        return self.state / "local"

    @property
    def demo_file(self) -> Path:
        """Logins and tokens of the loaded example, mode 600."""
        return self.state / "demo.json"

    @property
    def phase_file(self) -> Path:
        """`starting`, `ready` or `stopping`, and the address, while a supervisor runs."""
        return self.state / "phase"

    @property
    def supervisor_lock(self) -> Path:
        """Locked by the one supervisor of this folder."""
        return self.state / "supervisor.lock"

    def log_of(self, name: str) -> Path:
        """The log file of one service."""
        return self.log / f"{name}.log"

    def heartbeat_of(self, name: str) -> Path:
        """The file that a service touches once a second while it gets on."""
        return self.run / f"{name}.heartbeat"

    def prepare(self) -> None:
        """Create the folders. Raises LauncherError when that cannot be, or the disk is full."""
        try:
            for folder in (self.state, self.run, self.log):
                folder.mkdir(parents=True, exist_ok=True)
            # The state folder itself must be passable: PostgreSQL may run as another user.
            for folder in (self.run, self.log):
                folder.chmod(0o700)
            (self.state / _MARK).touch()
        except OSError as refused:
            raise LauncherError(
                f"Cannot write to {self.state} ({refused.strerror}): make it yours with `chown`, "
                "or name another folder in TIDEGATE_STATE_DIR."
            ) from refused
        free = shutil.disk_usage(self.state).free
        if free < _DISK_NEEDED_BYTES:
            raise LauncherError(
                f"Only {free / 1e6:.0f} MB are free on the disk of {self.state}, and the database "
                f"needs at least {_DISK_NEEDED_BYTES / 1e6:.0f} MB: make room and try again."
            )

    def wipe(self) -> None:
        """Delete the state folder. Raises LauncherError for a folder that was never ours."""
        if not self.state.exists():
            return
        if not (self.state / _MARK).exists():
            raise LauncherError(
                f"{self.state} was not made by Tidegate, so it is not deleted: check "
                "TIDEGATE_STATE_DIR."
            )
        shutil.rmtree(self.state)


def layout_here() -> Layout:
    """The layout that the environment names."""
    named = os.environ.get("TIDEGATE_STATE_DIR")
    return Layout(Path(named).resolve() if named else REPO / "var")
