"""The values of sbatch options: counts, sizes of memory, times, GPUs, dependencies.

Each function raises NotUnderstood with what to write instead.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jobs.submission.array_text import ArrayShape, parse_array
from jobs.submission.sbatch_notes import NotUnderstood

NOTICE_SIGNALS = ("TERM", "USR1", "USR2", "INT", "HUP")

#: A feature of a node, for `fullmatch`.
FEATURE = re.compile(r"^[A-Za-z0-9._-]{1,64}$")

#: The most resources beside GPUs in one --gres, each of which gets a note.
OTHERS_MAX = 20

_COUNT = re.compile(r"\+?([0-9]{1,9})")
_NODES = re.compile(r"([0-9]{0,9})-([0-9]{1,9})|([0-9]{1,9})")
_MEMORY = re.compile(r"\+?([0-9]{1,9})(?:([KMGTkmgt])[Bb]?)?")
_MEMORY_SHIFTS = {"M": 0, "G": 10, "T": 20}
_TIME = re.compile(
    r"(?:([0-9]{1,9})-)(?:([0-9]{1,9})(?::([0-9]{1,9})(?::([0-9]{1,9}))?)?)?"
    r"|([0-9]{1,9})(?::([0-9]{1,9})(?::([0-9]{1,9}))?)?"
)
#: Words that are no types: a number is a count, and Slurm reads 2k as 2,048.
_NUMBER = re.compile(r"[0-9]+[kmgtpKMGTP]?")
_GPU_TYPE = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_PARTS_OF_GPUS = {"shard": "shards", "mps": "MPS shares"}
_JOB_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SIGNAL = re.compile(r"([RB]{0,2}):?(?:SIG)?([A-Z0-9]{1,10})(?:@([0-9]{0,5}))?")
_SIGNAL_NUMBERS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}


class Gpus(NamedTuple):
    """A number of GPUs, and their type if one is named."""

    number: int
    type: str | None = None


def count(value: str, what: str) -> int:
    """Return a whole number of `what`, at least 1."""
    found = _COUNT.fullmatch(value)
    if found is None or not int(found[1]):
        raise NotUnderstood(f"{value[:40]!r} is no number of {what}; write one whole number.")
    return int(found[1])


def node_range(value: str) -> tuple[int, int]:
    """Return the least and the most nodes."""
    found = _NODES.fullmatch(value)
    if found is None:
        raise NotUnderstood(f"{value[:40]!r} is no number of nodes; write 4, or 2-4 for a range.")
    least, most = int(found[3] or found[1] or 1), int(found[3] or found[2])
    if not least or not most:
        raise NotUnderstood(f"{value[:40]!r} has no nodes; a job takes 1 node at least.")
    if most < least:
        raise NotUnderstood(f"{value[:40]!r} is no range of nodes; write the smaller number first.")
    return least, most


def mebibytes(value: str) -> int:
    """Return an amount of memory in MiB; a plain number is MiB."""
    found = _MEMORY.fullmatch(value)
    if found is None:
        raise NotUnderstood(f"{value[:40]!r} is no amount of memory; write 512M or 64G.")
    amount, unit = int(found[1]), (found[2] or "M").upper()
    return -(-amount // 1_024) if unit == "K" else amount << _MEMORY_SHIFTS[unit]


def seconds_of(value: str) -> int | None:
    """Return the seconds of a time limit in Slurm's notation; None for no limit.

    Allowed are "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
    "days-hours:minutes" and "days-hours:minutes:seconds". "0", "-1", "UNLIMITED" and "INFINITE" are
    no limit. As in Slurm, seconds are rounded up to minutes.
    """
    if value.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    found = _TIME.fullmatch(value)
    if found is None:
        raise NotUnderstood(
            f"{value[:40]!r} is no time; write minutes, hours:minutes:seconds or "
            "days-hours:minutes:seconds."
        )
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    clock = [int(part) for part in found.groups()[4:] if part is not None]
    if len(clock) == 3:
        hours, minutes, seconds = clock
    elif clock:
        minutes, seconds = [*clock, 0][:2]
    total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return -(-total_s // 60) * 60 or None


def typed_gpus(value: str) -> Gpus:
    """Return the GPUs in the value of --gpus and its kin: 4, h100:4, or h100 for one."""
    if "," in value:
        raise NotUnderstood(
            f"{value[:40]!r} names several kinds of GPU; a job has one: write 4 or h100:4."
        )
    gpus = _gpus_of(value.split(":"))
    if gpus is None:
        raise NotUnderstood(f"{value[:40]!r} is no number of GPUs; write 4 or h100:4.")
    return gpus


def gres(value: str) -> tuple[Gpus | None, list[str]]:
    """Return the GPUs in the value of --gres (None: none named), and the other resources."""
    found: list[Gpus] = []
    others: list[str] = []
    for item in value.split(","):
        kind, *rest = item.removeprefix("gres:").split(":")
        if kind in _PARTS_OF_GPUS:
            raise NotUnderstood(
                f"No cluster gives {_PARTS_OF_GPUS[kind]} here: ask for slices of GPUs by their "
                "type or pool (gpu:1g.10gb:2), or for a part of one in the field `gpus` (0.25), "
                "where a cluster gives parts."
            )
        if "=" in item:
            raise NotUnderstood(f"--gres takes gpu:NUMBER or gpu:TYPE:NUMBER, not {item[:40]!r}.")
        if kind != "gpu":
            others.append(item)
            continue
        gpus = _gpus_of(rest or ["1"])
        if gpus is None:
            raise NotUnderstood(f"--gres takes gpu:NUMBER or gpu:TYPE:NUMBER, not {item[:40]!r}.")
        found.append(gpus)
    if len(others) > OTHERS_MAX:
        raise NotUnderstood(f"--gres names more than {OTHERS_MAX} other resources; remove them.")
    if len(found) > 1:
        raise NotUnderstood("--gres names GPUs twice; a job has one kind of GPU: keep one.")
    return (found[0] if found else None), [item for item in others if item.lower() != "none"]


def _gpus_of(parts: list[str]) -> Gpus | None:
    """Return the GPUs in `TYPE:NUMBER`, `NUMBER` or `TYPE`, split at the colons."""
    if len(parts) == 1 and not _NUMBER.fullmatch(parts[0]):
        parts = [parts[0], "1"]
    gpu_type = None if len(parts) == 1 else parts[0]
    if len(parts) > 2 or re.fullmatch(r"[0-9]{1,9}", parts[-1]) is None:
        return None
    if gpu_type is not None and not _GPU_TYPE.fullmatch(gpu_type):
        return None
    return Gpus(int(parts[-1]), gpu_type)


class Notice(NamedTuple):
    """A notice signal: how many seconds before the time limit, and whether for the shell alone."""

    name: str
    ahead_s: int
    is_for_shell_only: bool


def signal(value: str) -> Notice:
    """Return the notice in `[B:]SIG[@SECONDS]`, as sbatch reads it."""
    found = _SIGNAL.fullmatch(value.upper())
    name = "" if found is None else _SIGNAL_NUMBERS.get(found[2], found[2])
    if found is None or name not in NOTICE_SIGNALS:
        raise NotUnderstood(f"The notice signal must be one of {', '.join(NOTICE_SIGNALS)}.")
    ahead_s = 60 if found[3] is None else int(found[3] or 0)
    return Notice(name, ahead_s, "B" in found[1])


#: What stands in a note for the value of a variable, which may be a secret.
HIDDEN = "..."


def exported(value: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables in the value of --export, and the names that it gives no value.

    As for sbatch, a comma in quotes ends no item, and quotes around a whole item are not part of
    it.
    """
    given: dict[str, str] = {}
    nameless: list[str] = []
    for item in _items(value):
        name, equals, text = item.partition("=")
        if equals and not name:
            raise NotUnderstood(f"{item[:40]!r} names no variable; write NAME=VALUE.")
        if equals:
            given[name] = text
        elif item and item.upper() not in _EXPORT_WORDS:
            nameless.append(item)
    return given, nameless


def without_values(value: str) -> str:
    """Return the value of --export with `...` in place of each variable's value."""
    try:
        items = _items(value)
    except NotUnderstood:
        return HIDDEN
    return ",".join(
        f"{name}={HIDDEN}" if equals else name
        for name, equals, _ in (item.partition("=") for item in items)
    )


def _items(value: str) -> list[str]:
    items, item, quote = [], "", ""
    for character in value:
        if character == "," and not quote:
            items.append(item)
            item = ""
            continue
        item += character
        if character in "\"'" and quote in ("", character):
            quote = "" if quote else character
    if quote:
        raise NotUnderstood(f"A quote {quote} is left open; close it.")
    return [
        one[1:-1] if len(one) > 1 and one[0] == one[-1] and one[0] in "\"'" else one
        for one in [*items, item]
    ]


_EXPORT_WORDS = frozenset({"ALL", "NONE", "NIL"})
_CONDITIONS = {"afterok": "succeeded", "afterany": "ended", "afternotok": "failed"}
_OTHER_CONDITIONS = {
    "after": "A job can wait for the end of another, not for its start; write afterany.",
    "aftercorr": "Tasks cannot wait for single tasks of an array; write afterok.",
    "afterburstbuffer": "Burst buffers are not offered; write afterany.",
    "expand": "Jobs cannot be expanded; submit one job of the size that is needed.",
}


def dependencies(value: str) -> tuple[list[dict[str, str]], bool]:
    """Return the dependencies in `TYPE:ID[:ID...]` with commas between; the ids are Tidegate's.

    The second value says whether `singleton` is among them.
    """
    if "?" in value:
        raise NotUnderstood("A job can only wait for all of the jobs: write , instead of ?.")
    wishes = []
    is_singleton = False
    for part in value.split(","):
        if part.lower() == "singleton":
            is_singleton = True
            continue
        kind, *ids = part.split(":")
        if other := _OTHER_CONDITIONS.get(kind.lower()):
            raise NotUnderstood(other)
        condition = _CONDITIONS.get(kind.lower())
        if condition is None or not ids:
            raise NotUnderstood(
                f"{part[:40]!r} is no dependency; write afterok:ID, afterany:ID, "
                "afternotok:ID or singleton."
            )
        for text in ids:
            if not _JOB_ID.fullmatch(text):
                raise NotUnderstood(
                    f"{text[:60]!r} is no id of a Tidegate job; write the one that "
                    "`tidegate submit` printed."
                )
            # A later lookup finds whether the id is a job or an array.
            wishes.append({"id": text, "condition": condition})
    return wishes, is_singleton


def features(value: str) -> list[str]:
    """Return the features that a job's nodes must all have, sorted and unique."""
    names = value.split("&")
    if not all(FEATURE.fullmatch(name) for name in names):
        raise NotUnderstood(
            f"{value[:40]!r} is no list of features; write names with & between them, such as "
            "nvlink&ib. Alternatives (|), counts (*) and brackets are not offered."
        )
    return sorted(set(names))


def array(value: str) -> tuple[str, ArrayShape]:
    """Return the text and the shape of an array.

    As for Slurm, brackets around the indices and empty parts count for nothing, and %0 is no limit.
    """
    listed, percent, limit = value.partition("%")
    parts = [part for part in listed.removeprefix("[").removesuffix("]").split(",") if part]
    text = ",".join(parts) + (f"%{limit}" if percent and limit.strip("0") else "")
    try:
        return text, parse_array(text)
    except ValueError as problem:
        raise NotUnderstood(f"The array {problem}.") from None
