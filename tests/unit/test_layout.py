"""Rules of the checkout that no linter knows."""

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
_NOT_OURS = {
    *(".git", ".venv", "var", "node_modules", "dist", "coverage", "__pycache__"),
    *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache"),
}
_BINARY = {".png", ".jpg", ".ico", ".woff2", ".gz"}
_REGISTRIES = tuple(
    f"{name}.{end}"
    for name, end in (
        *(("py" + "pi", "org"), ("python" + "hosted", "org"), ("npmjs", "org"), ("npmjs", "com")),
        *(("yarnpkg", "com"), ("debian", "org")),
    )
)


def our_files() -> list[Path]:
    """Every file of the checkout that a person wrote, or that a tool wrote to be committed."""
    found = []
    for folder, folders, files in os.walk(REPO):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS)
        found += [Path(folder) / name for name in sorted(files)]
    return [path for path in found if path.suffix not in _BINARY and path.suffix != ".log"]


def pyproject() -> dict:
    return tomllib.loads((REPO / "pyproject.toml").read_text())


def test_platform_holds_packages_only() -> None:
    """An __init__.py here breaks every `import platform`; a conftest.py or a test here breaks
    pytest --import-mode=importlib in the same way."""
    stray = [path.name for path in (REPO / "platform").iterdir() if path.is_file()]
    assert stray == []


def test_every_package_is_shipped_and_under_the_import_rule() -> None:
    folders = [*(REPO / "platform").iterdir(), *(REPO / name for name in pyproject_top_packages())]
    packages = {path.name for path in folders if (path / "__init__.py").is_file()}
    shipped = {
        Path(name).name
        for name in pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    }
    assert shipped == packages
    assert set(pyproject()["tool"]["importlinter"]["root_packages"]) == packages


def pyproject_top_packages() -> list[str]:
    return [path.parent.name for path in REPO.glob("*/__init__.py")]


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in (REPO / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert list((REPO / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize("host", _REGISTRIES)
def test_no_file_names_a_package_registry(host: str) -> None:
    named = [path for path in our_files() if host in path.read_text("utf-8", "replace")]
    assert named == []


def test_no_file_names_a_path_of_this_machine() -> None:
    """Checked where it can tell something: in a checkout that is not directly below the root."""
    places = [place for place in (REPO, Path.home()) if len(place.parts) > 2]
    named = [
        path
        for path in our_files()
        if any(f"{place}/" in path.read_text("utf-8", "replace") for place in places)
    ]
    assert named == []


def test_subtrees_are_cut_out_by_one_function() -> None:
    """`tenants.access.under` compares ranges of paths, which an index answers; a prefix match
    beside it is LIKE, which may not, and is one more place to get right."""
    matches = re.compile("path__" + "i?(startswith|contains|regex)")
    found = [
        path.relative_to(REPO)
        for path in our_files()
        if path.suffix == ".py"
        and not path.is_relative_to(REPO / "tests")
        and matches.search(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_python_lock_pins_every_package_by_hash_and_names_no_address(lock: str) -> None:
    text = (REPO / lock).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9._-]+(\[[a-z0-9,._-]+\])?==\S+", entry.split(" ")[0]), entry
        assert "--hash=sha256:" in entry, entry
    assert "://" not in text
    assert " @ " not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_python_lock_has_what_pyproject_asks_for() -> None:
    project = pyproject()["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(word for extra in extras for word in extra)]
    names = {re.split(r"[\[<>=~! ]", word)[0] for word in asked} - {project["name"]}
    text = (REPO / "requirements-dev.lock").read_text()
    locked = {line.split("==")[0] for line in text.splitlines()}
    assert {name for name in names if name not in locked} == set()


def test_frontend_lock_names_no_address() -> None:
    packages = json.loads((REPO / "frontend/package-lock.json").read_text())["packages"]
    assert [name for name, entry in packages.items() if "://" in entry.get("resolved", "")] == []
    assert [name for name, entry in packages.items() if name and "integrity" not in entry] == []


def test_console_scripts_start_with_a_python_of_any_machine() -> None:
    assert (REPO / "manage.py").read_text().startswith("#!/usr/bin/env python3\n")
    assert os.access(REPO / ".ci/run", os.X_OK)
