"""The body of a submission from a file, a command line, and options, which win."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cli.errors import CliError
from primitives.units import MGPU_MAX, MGPU_PER_GPU

FILE_BYTES_MAX = 1 << 20
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WITH_UNIT = re.compile(r"([0-9]{1,9})([smhd])")
_WITH_UNITS = re.compile(r"(?:[0-9]{1,9}[smhd])+")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9}(?::[0-9]{1,9}){0,2})")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MEMORY = re.compile(r"([0-9]{1,9})([MGTmgt])?")
_MEMORY_SHIFTS = {"M": 0, "G": 10, "T": 20}
_LARGE = re.compile(r"[0-9]{10,}(?:\.[0-9]+)?")


def body_of(
    source: str | None, command: Sequence[str] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What to send. `source` is a file (YAML by its ending, else a batch script; "-" is
    standard input), `command` is run as it stands. Options of None are absent.

    Raises CliError unless there is exactly one of both, and for a file that cannot be read.
    """
    if (source is None) == (command is None):
        raise CliError("Give a file, or a command after --, and not both.")
    if command is not None:
        if not command:
            raise CliError("There is no command after --.")
        body: dict[str, Any] = {
            "name": command[0].split()[0].rsplit("/", 1)[-1] if command[0].strip() else "job",
            "script": f"#!/bin/sh\n{_command_line(command)}\n",
        }
    else:
        assert source is not None
        text = _read(source)
        body = _from_yaml(text, source) if source.endswith((".yaml", ".yml")) else {"sbatch": text}
    given = {name: value for name, value in options.items() if value is not None}
    overruled = set()
    if "gpus" in given:
        overruled = {"gpus_per_node", "gpus_min", "nodes_min"}
    elif "gpus_per_node" in given:
        overruled = {"gpus", "gpus_min"}
    if "nodes" in given:
        overruled.add("nodes_min")
    if "pool" in given or "pools" in given:
        overruled |= {"pool", "pools"}
    body = {name: value for name, value in body.items() if name not in overruled}
    environment = {**(body.get("environment") or {}), **(given.pop("environment", None) or {})}
    return {**body, **given, **({"environment": environment} if environment else {})}


def variables(pairs: Sequence[str]) -> dict[str, str] | None:
    """K=V pairs as a mapping, None for none. Raises CliError."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CliError(f"--env {pair[:60]!r}: write NAME=VALUE.")
        found[name] = value
    return found or None


def mebibytes(text: str | None, option: str) -> int | None:
    """MiB in an amount of memory: 512M, 64G, 1T, a plain number being MiB. Raises CliError."""
    if text is None:
        return None
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise CliError(f"{option} {text[:40]!r}: write an amount of memory, such as 512M or 64G.")
    return int(found[1]) << _MEMORY_SHIFTS[(found[2] or "M").upper()]


def number(text: str | None, option: str) -> int | float | None:
    """A decimal number of GPUs, exactly as JSON will carry it. Raises CliError."""
    if text is None:
        return None
    if _LARGE.fullmatch(text):
        most = MGPU_MAX // MGPU_PER_GPU
        raise CliError(f"{option} {text[:40]}: at most {most:,} GPUs can be asked for.")
    if not _DECIMAL.fullmatch(text):
        raise CliError(f"{option} {text[:40]!r}: write a number such as 8 or 0.5.")
    return float(text) if "." in text else int(text)


def span(text: str | None, name: str) -> dict[str, int | float | None]:
    """`--name N` or `--name LEAST..MOST` as members of the request. Raises CliError."""
    least, dots, most = (text or "").partition("..")
    if not dots:
        return {name: number(text, f"--{name}")}
    if not (least and most):
        raise CliError(f"--{name} {text!r}: write both ends, such as 2..8.")
    return {f"{name}_min": number(least, f"--{name}"), name: number(most, f"--{name}")}


def pools(text: str | None) -> dict[str, Any]:
    """`--pool NAME` or `--pool BEST,NEXT` as a member of the request."""
    names = (text or "").split(",")
    return {"pool": text} if len(names) == 1 else {"pools": names}


def begin_time(text: str | None, *, now: datetime) -> str | None:
    """A time as the request has it: as it stands, or so long after `now`. Raises CliError."""
    if text is None or not text.startswith("+"):
        return text
    if not _WITH_UNITS.fullmatch(text[1:]):
        raise CliError(f"--begin {text[:40]!r}: write +90s, +30m, +2h, +1d12h or a time.")
    after_s = seconds(text[1:], "--begin")
    assert after_s is not None
    try:
        return f"{now + timedelta(seconds=after_s):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        raise CliError(f"--begin {text[:40]}: that is too far ahead.") from None


def seconds(text: str | None, option: str) -> int | None:
    """What `option` was given as a length of time: 90s, 30m, 2h, 1d12h. Raises CliError.

    A number without a unit is refused, as it means minutes to some and seconds to others; but for
    0, which means the same to all.
    """
    if text is None:
        return None
    if text != "0" and not _WITH_UNITS.fullmatch(text):
        said = f"{option}{'' if option.endswith('=') else ' '}{text[:40]!r}"
        if text.isascii() and text.isdigit():
            short = text[:9]
            raise CliError(f"{said}: of what? Write {short}s, {short}m or {short}h.")
        raise CliError(f"{said}: write 90s, 30m, 2h or 1d12h.")
    return sum(int(count) * _UNITS_S[unit] for count, unit in _WITH_UNIT.findall(text))


def time_limit(text: str | None) -> int | None:
    """`--time`: as `seconds`, or with colons as `#SBATCH --time` has it: minutes:seconds,
    hours:minutes:seconds, days-hours[:minutes[:seconds]]. Raises CliError."""
    match = None if text is None else _CLOCK.fullmatch(text)
    if match is None or not (match[1] or ":" in match[2]):
        return seconds(text, "--time")
    numbers = [int(part) for part in match[2].split(":")]
    if match[1] is not None:
        hours, minutes, rest = [*numbers, 0, 0][:3]
        return ((int(match[1]) * 24 + hours) * 60 + minutes) * 60 + rest
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + numbers[1]


def _read(source: str) -> str:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CliError(
            f"Cannot read {source}: {error.strerror}. (A command to run goes after --.)"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise CliError(f"{source} is larger than {FILE_BYTES_MAX:,} bytes.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is not UTF-8 text.") from error


def _from_yaml(text: str, source: str) -> dict[str, Any]:
    import yaml  # here, for `--help` to be quick

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CliError(f"{source} is not YAML: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise CliError(f"{source} must be a YAML mapping of the members of a job request.")
    environment = found.get("environment")
    if isinstance(environment, dict):
        found["environment"] = {
            str(name): _text(value, f"{source}: environment {name}")
            for name, value in environment.items()
        }
    return found


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CliError(f"{where} must be text; put it in quotes.")
    return str(value)


def _command_line(command: Sequence[str]) -> str:
    """`command` as a line of shell: several words as they stand; one quoted text, as with
    `sh -c`, is a line of shell already."""
    if len(command) == 1 and any(character.isspace() for character in command[0]):
        return command[0]
    return f"exec {shlex.join(command)}"
