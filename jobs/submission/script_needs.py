"""Reads a script for what it takes for granted: programs, Slurm's variables, and folders.

A shell script is not run and not parsed in full. Each line is split at the signs that begin a
command, and the first word of each command counts. Text in here-documents and comments does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from batch.command_line import Refused
from batch.step_options import read_options

LINES_MAX = 20_000
NEEDS_MAX = 200
_LINE_MAX = 4_000
_CONTINUED_MAX = 100


class NeedKind(StrEnum):
    """A kind of thing that a script needs."""

    PROGRAM = "program"
    SLURM_COMMAND = "slurm_command"
    SRUN_OPTION = "srun_option"
    SLURM_VARIABLE = "slurm_variable"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Need:
    """A program, variable or folder that the script needs, with the first line that names it.

    The `name` of an option of `srun` is the sentence with which our `srun` refuses it.
    """

    line: int
    text: str
    kind: NeedKind
    name: str


#: By first word, the software that provides it.
PROGRAMS = {
    "module": "module",
    "ml": "module",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "conda": "conda",
    "mamba": "conda",
    "micromamba": "conda",
    "singularity": "singularity",
    "apptainer": "apptainer",
    "docker": "docker",
    "podman": "podman",
    "enroot": "enroot",
}
SLURM_COMMANDS = frozenset(
    {"srun", "scontrol", "squeue", "sbatch", "scancel", "sacct", "sinfo", "sstat", "salloc"}
)
_SHELL = re.compile(r"#!\s*(/usr/bin/env\s+(-\S+\s+)?)?\S*?(ba|da|z|k|a)?sh\b")
_BEGINS = re.compile(
    r"\|\||&&|[;|&({`!]|\$\(|(?<!\S)(?:then|do|else|time|exec|nohup|if|while|until)(?!\S)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_WORD = re.compile(r"[^\s;|&()<>`]+")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HEREDOC = re.compile(r"<<-?\s*(['\"\\]?)([A-Za-z_][A-Za-z0-9_]*)\1")
#: A variable without a value to fall back on.
_VARIABLE = re.compile(
    r"\$(?:\{(SLURM_[A-Z0-9_]+)(?![A-Z0-9_]|:?[-+=])|(SLURM_[A-Z0-9_]+))"
    r"|environ(?:\[|\.get\()['\"](SLURM_[A-Z0-9_]+)['\"][\])]"
)
#: Set in every task of an array, on every cluster.
_OF_ARRAYS = frozenset(f"SLURM_ARRAY_TASK_{what}" for what in ("ID", "COUNT", "MIN", "MAX"))
_PATH = re.compile(r"(?<![\w.$/}\]:~*?@%+-])/[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)*")
#: Folders that every machine has.
_SYSTEM = frozenset(
    {"bin", "sbin", "lib", "lib64", "usr", "etc", "proc", "sys", "dev", "tmp", "var", "run", "opt"}
)


def needs_of(script: str) -> tuple[Need, ...]:
    """Return the needs of a script, in the order of their lines, each once.

    Programs and folders are sought in shell scripts only, Slurm's variables in any text. At most
    `NEEDS_MAX` needs of the first `LINES_MAX` lines.
    """
    is_shell = not script.startswith("#!") or _SHELL.match(script) is not None
    found: dict[tuple[NeedKind, str], Need] = {}
    ends_at = ""
    for number, text in _whole_lines(script.splitlines()[:LINES_MAX]):
        line = text[:_LINE_MAX]
        if ends_at:
            ends_at = "" if line.strip() == ends_at else ends_at
            continue
        if is_shell:
            # A quoted sign is rare enough: a wrong warning does not stop a job.
            line = _COMMENT.sub("", line)
            if match := _HEREDOC.search(line):
                ends_at = match[2]
        for kind, name in _of_line(line, is_shell=is_shell):
            if len(found) < NEEDS_MAX:
                found.setdefault((kind, name), Need(number, text.strip(), kind, name))
    return tuple(found.values())


def _whole_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, together with the lines that continue it after a backslash.

    A command goes on over at most `_CONTINUED_MAX` lines.
    """
    number = 0
    while number < len(lines):
        first, text = number, lines[number]
        while text.endswith("\\") and number + 1 < len(lines) and number - first < _CONTINUED_MAX:
            number += 1
            text = f"{text[:-1]} {lines[number]}"
        number += 1
        yield first + 1, text


def _of_line(line: str, *, is_shell: bool) -> Iterator[tuple[NeedKind, str]]:
    if "SLURM_" in line:
        for match in _VARIABLE.finditer(line):
            name = match[1] or match[2] or match[3]
            if name not in _OF_ARRAYS:
                yield NeedKind.SLURM_VARIABLE, name
    if not is_shell:
        return
    for words in _commands(line):
        name = _program(words[0])
        if name in SLURM_COMMANDS:
            yield NeedKind.SLURM_COMMAND, name
        if name == "srun":
            try:
                # A value in backquotes is cut off, so that words are added for it and the command.
                _, words = read_options([*words[1:], "", ""])
            except Refused as refusal:
                yield NeedKind.SRUN_OPTION, str(refusal)
                continue
            name = _program(words[0])
        if name in PROGRAMS:
            yield NeedKind.PROGRAM, PROGRAMS[name]
    for match in _PATH.finditer(line):
        path = match[0]
        if path.split("/", 2)[1] not in _SYSTEM:
            yield NeedKind.FOLDER, path


def _program(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command in a line, without the variables that are set before it."""
    starts = [0, *(match.end() for match in _BEGINS.finditer(line))]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        words = [match[0].strip("\"'") for match in _WORD.finditer(line, start, end)]
        while words and _ASSIGNMENT.match(words[0]):
            del words[0]
        if words:
            yield words
