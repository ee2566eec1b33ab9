"""The software of a cluster's nodes, as its administrator describes it in the options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.options import checked, listed, option, optional, text

#: Software that scripts take for granted on some clusters and miss on others: the name by which
#: options list it, and its title.
SOFTWARE = {
    "module": "Environment modules (module load)",
    "mpirun": "MPI (mpirun)",
    "conda": "Conda",
    "singularity": "Singularity",
    "apptainer": "Apptainer",
    "docker": "Docker",
    "podman": "Podman",
    "enroot": "Enroot",
}
FOLDERS_MAX = 64
_FOLDER = re.compile(r"(/[A-Za-z0-9._-]+)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Software:
    """The programs and folders that jobs find on the nodes. None: nobody has said."""

    programs: frozenset[str] | None
    folders: tuple[str, ...] | None

    def has_folder(self, path: str) -> bool | None:
        """Return whether `path` lies in one of the folders; None where nobody has said."""
        if self.folders is None:
            return None
        return any(path == folder or path.startswith(f"{folder}/") for folder in self.folders)

    def has_program(self, name: str) -> bool | None:
        """Return whether jobs find the program; None where nobody has said."""
        return None if self.programs is None else name in self.programs


def software_of(options: Mapping[str, Any]) -> Software:
    """Return the software that checked options of any kind of cluster describe."""
    programs, folders = options.get("software"), options.get("shared_folders")
    return Software(
        None if programs is None else frozenset(programs),
        None if folders is None else tuple(folders),
    )


def software_option() -> Any:
    """Return the option with the programs of the nodes."""
    return option(
        optional(listed(text(_program), len(SOFTWARE))),
        title="Software on the nodes",
        help=f"Of {', '.join(SOFTWARE)}. Plans warn about scripts that use what is missing. "
        "Default: unknown.",
        example=["module", "mpirun"],
        default=None,
        is_more=True,
    )


def shared_folders_option() -> Any:
    """Return the option with the folders of the nodes."""
    return option(
        optional(listed(checked(_folder, {"type": "string"}), FOLDERS_MAX)),
        title="Shared folders",
        help="Folders with data that every node sees. Plans warn about other absolute paths in "
        "scripts. Default: unknown.",
        example=["/home", "/scratch"],
        default=None,
        is_more=True,
    )


def _program(option: str, value: object) -> str:
    if not isinstance(value, str) or value not in SOFTWARE:
        raise ValueError(f"option {option} must be one of {', '.join(SOFTWARE)}")
    return value


def _folder(option: str, value: object) -> str:
    if not isinstance(value, str) or _FOLDER.fullmatch(value) is None:
        raise ValueError(f"option {option} must be an absolute path, such as /scratch")
    return value
