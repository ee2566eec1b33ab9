"""The body of a submission: from a file or a command, and from options, which win."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.errors import CliError
from primitives.durations import seconds_of_duration, seconds_of_time_limit
from primitives.units import MGPU_MAX, MGPU_PER_GPU

if TYPE_CHECKING:
    from yaml import SafeLoader

FILE_BYTES_MAX = 1 << 20
#: Number formats of YAML 1.2, as patterns for a YAML 1.1 parser.
_NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o[0-7]+)$",
    "tag:yaml.org,2002:float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
}
_REPLACED = {*_NUMBERS, "tag:yaml.org,2002:timestamp"}
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MEMORY = re.compile(r"([0-9]{1,9})([MGTmgt])?")
_MEMORY_SHIFTS = {"M": 0, "G": 10, "T": 20}
#: The field that every Kubernetes object has at its top: in YAML, and in a text of JSON.
_OBJECT = re.compile(r"^[\"']?apiVersion[\"']?[ \t]*:", re.MULTILINE)
_JSON_OBJECT = re.compile(r"^[ \t{]*\"apiVersion\"[ \t]*:", re.MULTILINE)
_JSON = re.compile(r"^\{", re.MULTILINE)
#: A line that begins a document of YAML. No text in a document can have it.
_MARKER = re.compile(r"---(?=[ \t\r\n]|$)")
_KIND = re.compile(r"^kind:[ \t]*[\"']?(\w+)", re.MULTILINE)
#: The label of a Pod that names its group.
_GROUP = re.compile(r"\bkueue\.x-k8s\.io/pod-group-name[\"']?:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)
_CRON_JOB = re.compile(r"^kind:[ \t]*[\"']?CronJob\b|\"kind\"\s*:\s*\"CronJob\"", re.MULTILINE)
#: Kinds of objects that belong to the jobs of their file.
_OTHER_OBJECTS = frozenset({"ConfigMap", "ResourceClaimTemplate", "Secret", "Service"})
#: The most jobs of a file.
JOBS_MAX = 20
_LARGE = re.compile(r"[0-9]{10,}(?:\.[0-9]+)?")


def body_of(
    source: str | None, command: Sequence[str] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body to send.

    `source` is a file: a Kubernetes manifest or the members of a request in YAML, by its ending and
    its content, or else a batch script; "-" is standard input. `command`
    has the words after `--`: the arguments of the file, or a command that runs unchanged. Options
    that are None are absent. Raises CliError for a file that cannot be read, and without a file,
    a command and a template.
    """
    if source is None and not command and options.get("template") is None:
        raise CliError("Nothing to run: give a script file, or a command after `--`.")
    body: dict[str, Any]
    if source is None and not command:
        body = {}
    elif source is None:
        assert command is not None
        body = {
            "name": command[0].split()[0].rsplit("/", 1)[-1] if command[0].strip() else "job",
            "script": f"#!/bin/sh\n{_command_line(command)}\n",
        }
    else:
        if command:
            options = {**options, "arguments": [*(options.get("arguments") or ()), *command]}
        text = _read(source)
        if _is_manifest(text, source):
            body = {"manifest": text}
        elif source.endswith((".yaml", ".yml")):
            body = _from_yaml(text, source)
        else:
            body = {"sbatch": text}
            if (name := Path(source).name) and source != "-":
                body["script_file"] = name
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


def bodies_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a body for each job of the manifest in `body`; `body` alone for any other request.

    Each has the whole file without the other jobs. Its lines keep their numbers. The items of a
    List stay together, and so do the Pods of a group. Raises CliError for too many jobs.
    """
    text = body.get("manifest")
    if not isinstance(text, str) or text.lstrip()[:1] == "{":
        return [dict(body)]
    documents: list[list[str]] = [[]]
    for line in text.splitlines(keepends=True):
        if _MARKER.match(line):
            documents.append([])
        documents[-1].append(line)
    texts = ["".join(lines) for lines in documents]
    kinds = [_KIND.search(one) for one in texts]
    # By job: the number of its document, or the name of its group of Pods.
    jobs: dict[int | str, list[int]] = {}
    for number, kind in enumerate(kinds):
        if kind is not None and kind[1] not in _OTHER_OBJECTS:
            group = _GROUP.search(texts[number]) if kind[1] == "Pod" else None
            jobs.setdefault(number if group is None else group[1], []).append(number)
    of_jobs = {number for numbers in jobs.values() for number in numbers}
    if len(jobs) < 2 or any(kind is not None and kind[1] == "List" for kind in kinds):
        return [dict(body)]
    if len(jobs) > JOBS_MAX:
        raise CliError(f"The file has {len(jobs)} jobs; at most {JOBS_MAX} are submitted at once.")
    return [
        {
            **body,
            "manifest": "".join(
                _emptied(line) if number in of_jobs and number not in own else line
                for number, lines in enumerate(documents)
                for line in lines
            ),
        }
        for own in jobs.values()
    ]


def is_cron_job(body: Mapping[str, Any]) -> bool:
    """Return whether the manifest in `body` is a CronJob."""
    text = body.get("manifest")
    return isinstance(text, str) and _CRON_JOB.search(text) is not None


def _emptied(line: str) -> str:
    return "---\n" if _MARKER.match(line) else "\n"


def variables(pairs: Sequence[str]) -> dict[str, str] | None:
    """Return NAME=VALUE pairs as a mapping, or None without any. Raises CliError."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CliError(f"--env {pair[:60]!r}: write NAME=VALUE.")
        found[name] = value
    return found or None


def notice(text: str | None) -> dict[str, Any]:
    """Return the members for `[B:]SIG[@SECONDS]`, as Slurm writes it. Raises CliError."""
    if text is None:
        return {}
    found = re.fullmatch(r"(B:)?(?:SIG)?([A-Z0-9]+)(?:@([0-9]{1,5}))?", text.upper())
    if found is None:
        raise CliError(f"--signal: {text} is not [B:]SIGNAL[@SECONDS], such as USR1@300.")
    members: dict[str, Any] = {"notice_signal": found[2]}
    if found[3] is not None:
        members["signal_ahead_s"] = int(found[3])
    if found[1] is not None:
        members["signals_shell_only"] = True
    return members


def mebibytes(text: str | None, option: str) -> int | None:
    """Return MiB in an amount of memory: 512M, 64G, 1T. A plain number is MiB. Raises CliError."""
    if text is None:
        return None
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise CliError(f"{option} {text[:40]!r}: write an amount of memory, such as 512M or 64G.")
    return int(found[1]) << _MEMORY_SHIFTS[(found[2] or "M").upper()]


def number(text: str | None, option: str) -> int | float | None:
    """Return a decimal number of GPUs, exactly as in JSON. Raises CliError."""
    if text is None:
        return None
    if _LARGE.fullmatch(text):
        most = MGPU_MAX // MGPU_PER_GPU
        raise CliError(f"{option} {text[:40]}: at most {most:,} GPUs can be asked for.")
    if not _DECIMAL.fullmatch(text):
        raise CliError(f"{option} {text[:40]!r}: write a number such as 8 or 0.5.")
    return float(text) if "." in text else int(text)


def span(text: str | None, name: str) -> dict[str, int | float | None]:
    """Return `--name N` or `--name LEAST..MOST` as members of the request. Raises CliError."""
    least, dots, most = (text or "").partition("..")
    if not dots:
        return {name: number(text, f"--{name}")}
    if not (least and most):
        raise CliError(f"--{name} {text!r}: write both ends, such as 2..8.")
    return {f"{name}_min": number(least, f"--{name}"), name: number(most, f"--{name}")}


def pools(text: str | None) -> dict[str, Any]:
    """Return `--pool NAME` or `--pool BEST,NEXT` as a member of the request."""
    names = (text or "").split(",")
    return {"pool": text} if len(names) == 1 else {"pools": names}


def begin_time(text: str | None, *, now: datetime) -> str | None:
    """Return a time for the request: unchanged, or a delay after `now`. Raises CliError."""
    if text is None or not text.startswith("+"):
        return text
    try:
        after_s = seconds_of_duration(text[1:])
    except ValueError:
        raise CliError(f"--begin {text[:40]!r}: write +90s, +30m, +2h, +1d12h or a time.") from None
    try:
        return f"{now + timedelta(seconds=after_s):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        raise CliError(f"--begin {text[:40]}: that is too far ahead.") from None


def seconds(text: str | None, option: str) -> int | None:
    """Return the seconds in the value of `option`, written with a unit: 90s, 30m, 2h, 1d12h.

    None stays None. Raises CliError.
    """
    return _read_as(seconds_of_duration, text, option)


def time_limit(text: str | None) -> int | None:
    """Return the seconds in `--time`: as `seconds`, or with colons as in Slurm. Raises CliError."""
    return _read_as(seconds_of_time_limit, text, "--time")


def _read_as(read: Callable[[str], int], text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as refusal:
        raise CliError(f"{option.removesuffix('=')}: {refusal}") from None


def _read(source: str) -> str:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CliError(
            f"Cannot read {source}: {error.strerror}. (Put a command to run after `--`.)"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise CliError(f"{source} is larger than {FILE_BYTES_MAX:,} bytes.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is not UTF-8 text.") from error


def _is_manifest(text: str, source: str) -> bool:
    """Return whether the file has Kubernetes objects: by its ending, and by their first field.

    On standard input, where there is no ending, a script begins with "#!".
    """
    if not source.endswith((".yaml", ".yml", ".json", "-")) or text.startswith("#!"):
        return False
    if _OBJECT.search(text) is not None:
        return True
    # A request may hold such a text in a block, whose lines are indented.
    return _JSON.search(text) is not None and _JSON_OBJECT.search(text) is not None


def _from_yaml(text: str, source: str) -> dict[str, Any]:
    import yaml  # imported here, so that `--help` is quick

    try:
        found = yaml.load(text, _loader())  # noqa: S506 - a SafeLoader
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


def _loader() -> type[SafeLoader]:
    """Return a safe loader that reads times as text. YAML 1.1 reads 2:00:00 as the number 7200."""
    from yaml import SafeLoader

    class Loader(SafeLoader):
        yaml_implicit_resolvers = {
            first: [(tag, known) for tag, known in resolvers if tag not in _REPLACED]
            for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
        }

    for tag, pattern in _NUMBERS.items():
        Loader.add_implicit_resolver(tag, re.compile(pattern), list("-+.0123456789"))
    return Loader


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CliError(f"{where} must be text; put it in quotes.")
    return str(value)


def _command_line(command: Sequence[str]) -> str:
    """Return `command` as a line of shell.

    Several words are quoted as they are. A single text with spaces is a line of shell already, as
    for `sh -c`.
    """
    if len(command) == 1 and any(character.isspace() for character in command[0]):
        return command[0]
    return f"exec {shlex.join(command)}"
