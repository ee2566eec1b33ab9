"""Output of commands: tables for people, and JSON, YAML and CSV for programs.

A command that lists or shows has the option `Output`, and prints what the API answers:

    def tides(ctx: typer.Context, output: Output = Format.TABLE) -> None:
        found = list(open_api(ctx).items("tides", most=100))
        if output is not Format.TABLE:
            print_data(found, output)
            return
        print_table(["NAME", "GPUS"], [[tide["name"], gpus(tide["mgpu"])] for tide in found])
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from primitives.csv_text import csv_line, plain_text
from primitives.currencies import money_text
from primitives.units import DeviceKind, gpu_hours

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NARROWEST = 6
#: Names of jobs are padded to at most this width where no text is cut.
NAME_PAD_MAX = 32
#: Terminals from this width on show all columns of a list.
_WIDE = 120
#: A number, or the word for a missing limit.
_NUMBER = re.compile("-?[0-9.,]*|none")


class Format(StrEnum):
    """The format of the output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]


def print_data(data: Any, output: Format, *, rows: str = "") -> None:
    """Print `data` as JSON, YAML or CSV, with its members in the order of the API.

    CSV has a line for each item of a list, of the member `rows` of an object, or for the object.
    """
    if output is Format.JSON:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif output is Format.CSV:
        items = data[rows] if rows else data
        typer.echo(csv_text(items if isinstance(items, list) else [items]), nl=False)
    else:
        import yaml  # imported here, so that `--help` is quick

        typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def csv_text(items: Sequence[Mapping[str, Any]]) -> str:
    """Return a header and a line for each item; nothing without items.

    A member of a member is `node.name`. A list of texts is one cell with spaces between, any other
    list is JSON. Texts are safe in a spreadsheet.
    """
    lines = [dict(_cells("", item)) for item in items]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    if not columns:
        return ""
    cells = [[line.get(name, "") for name in columns] for line in lines]
    return "".join(csv_line(line).replace("\r\n", "\n") for line in [columns, *cells])


def _cells(path: str, value: object) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict) and (value or not path):
        for name, member in value.items():
            yield from _cells(f"{path}.{name}" if path else name, member)
    elif value is None or value == {}:
        yield path, ""
    elif isinstance(value, bool):
        yield path, "true" if value else "false"
    elif isinstance(value, list):
        are_words = all(isinstance(each, str) and " " not in each for each in value)
        text = " ".join(value) if are_words else json.dumps(value, ensure_ascii=False)
        yield path, plain_text(text)
    else:
        yield path, plain_text(value) if isinstance(value, str) else str(value)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    squeeze: str = "",
    keep_end: bool = False,
    pad_max: int | None = None,
) -> None:
    """Print aligned columns. Columns of numbers (or "none") are aligned to the right.

    A terminal shows heads bold and states in colours, unless NO_COLOR is set.

    On a terminal, the column named `squeeze` is shortened until a line fits. It loses the ends of
    its texts, or with `keep_end` their beginnings. Elsewhere no text is cut, but that column is
    padded to at most `pad_max` characters. So one long text does not push all lines apart.
    """
    cells = [[plain(text) for text in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in cells), 0) if cells else len(name)
        for i, name in enumerate(columns)
    ]
    is_cut = is_terminal()
    if squeeze:
        at = list(columns).index(squeeze)
        over = sum(widths) + 2 * (len(widths) - 1) - terminal_width()
        if is_cut and over > 0:
            widths[at] = max(_NARROWEST, widths[at] - over)
        elif not is_cut and pad_max is not None:
            widths[at] = min(widths[at], pad_max)
    numeric = [
        bool(cells) and all(_NUMBER.fullmatch(row[i]) for row in cells) for i in range(len(columns))
    ]
    lines = []
    for row in [list(columns), *cells]:
        shown = []
        for text, width, is_number in zip(row, widths, numeric, strict=True):
            if is_cut and len(text) > width:
                text = f"…{text[1 - width :]}" if keep_end else f"{text[: width - 1]}…"
            shown.append(text.rjust(width) if is_number else text.ljust(width))
        lines.append(shown)
    if is_coloured():
        _print_coloured(lines)
        return
    for shown in lines:
        typer.echo("  ".join(shown).rstrip())


#: Colours of states of jobs, clusters, budgets and requests.
_STYLES = {
    **dict.fromkeys(("running", "ready", "ok", "approved", "open", "healthy"), "green"),
    **dict.fromkeys(("queued", "held", "preempting", "stale", "pending", "draft"), "yellow"),
    **dict.fromkeys(("failed", "exhausted", "unreachable", "rejected", "down"), "red"),
    **dict.fromkeys(("cancelled", "archived", "expired"), "bright_black"),
}


def _print_coloured(lines: Sequence[Sequence[str]]) -> None:
    from rich.console import Console  # imported here, so that pipes are quick
    from rich.text import Text

    console = Console(highlight=False)
    for number, shown in enumerate(lines):
        line = Text("  ").join(
            Text(text, "bold" if number == 0 else _STYLES.get(text.strip(), "")) for text in shown
        )
        line.rstrip()
        console.print(line, soft_wrap=True)


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print one line per field that has a value."""
    shown = [(name, plain(value)) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        typer.echo(f"{name.ljust(width)}  {text}")


def tell(text: str) -> None:
    """Print a remark on standard error, so that standard output has only data."""
    typer.echo(plain(text), err=True)


def plain(value: object) -> str:
    """Return `value` as text without control characters, except line feed and tab.

    Names and messages come from other users and must not control the terminal.
    """
    return "-" if value is None else _UNSEEN.sub("", str(value))


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def is_coloured() -> bool:
    """Return whether to print colours: on a terminal that has them, unless NO_COLOR is set."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the columns of the terminal. COLUMNS wins; 80 when unknown."""
    return shutil.get_terminal_size((80, 24)).columns


def terminal_height() -> int:
    """Return the lines of the terminal. LINES wins; 24 when unknown."""
    return shutil.get_terminal_size((80, 24)).lines


@contextmanager
def screen() -> Iterator[Callable[[], None]]:
    """Show what is printed on a screen of its own. Yields the function that clears it."""
    from rich.console import Console

    console = Console()
    with console.screen(hide_cursor=True):
        yield console.clear


def is_wide() -> bool:
    """Return whether to print all columns of a list: on a wide terminal, and always in a pipe."""
    return not is_terminal() or terminal_width() >= _WIDE


def gpus(mgpu: object) -> str:
    """Return milli-GPU as GPUs: 8000 is "8", 500 is "0.5", None is "-"."""
    if not isinstance(mgpu, int):
        return "-"
    whole, milli = divmod(abs(mgpu), 1000)
    fraction = f".{milli:03d}".rstrip("0") if milli else ""
    return f"{'-' if mgpu < 0 else ''}{whole:,}{fraction}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 job", "2,000 jobs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def level_text(level_permille: int | None) -> str:
    """Return a level of fair-share: 607 is "0.61", None is "no use"."""
    return "no use" if level_permille is None else f"{level_permille / 1_000:.2f}"


class Devices:
    """The devices in a table: GPUs or cores. `kinds` are the `device` of its rows.

    In a table with both, the column heads say GPUs, and the cells of cores name their unit. GPUs
    and cores are never summed.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        found = {DeviceKind(kind) for kind in kinds}
        self._heads = DeviceKind.CPU if found == {DeviceKind.CPU} else DeviceKind.GPU
        self._has_both = len(found) > 1

    @property
    def head(self) -> str:
        """Return the head of a column of amounts."""
        return self._heads.plural.upper()

    @property
    def hours_head(self) -> str:
        """Return the head of a column of amounts over time."""
        return f"{self._heads.singular}-hours".upper()

    @property
    def hours_words(self) -> str:
        """Return the unit of amounts over time for a sentence."""
        beside = " (core-hours where marked)" if self._has_both else ""
        return f"{self._heads.singular}-hours{beside}"

    @property
    def seconds_head(self) -> str:
        """Return the head of a column of small amounts over time."""
        return f"{self._heads.singular}-seconds".upper()

    def count(self, mgpu: object, device: str) -> str:
        """Return an amount of a row; None is "-"."""
        return self._named(gpus(mgpu), device, "s")

    def hours(self, mgpu_s: int, device: str) -> str:
        """Return an amount over time of a row."""
        return self._named(gpu_hours(mgpu_s), device, "-hours")

    def seconds(self, mgpu_s: int, device: str) -> str:
        """Return a small amount over time of a row, exactly."""
        return self._named(gpus(mgpu_s), device, "-seconds")

    def _named(self, amount: str, device: str, ending: str) -> str:
        kind = DeviceKind(device)
        is_said = kind is self._heads or amount == "-"
        return amount if is_said else f"{amount} {kind.singular}{ending}"


def cost(nano: int, unbilled_nano: int | None, mode: str | None, currency: str) -> str:
    """Return a billed cost, and what showback or a commitment leaves unbilled."""
    if not unbilled_nano:
        return f"{money_text(nano, currency)} {currency}"
    unbilled = f"{money_text(unbilled_nano, currency)} {currency}"
    if mode == "showback":
        return f"showback: not billed (would cost {unbilled})"
    return f"{money_text(nano, currency)} {currency}; covered by the commitment: {unbilled}"


def duration(seconds: int) -> str:
    """Return seconds in the two largest units, as people say it: "2d3h", "5m10s"."""
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def age(moment: object, *, now: datetime) -> str:
    """Return how long ago an ISO time was; "-" for None."""
    if not isinstance(moment, str):
        return "-"
    passed = now - datetime.fromisoformat(moment)
    return duration(max(0, int(passed.total_seconds())))


def now_utc() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def moment_text(epoch_s: int) -> str:
    """Return epoch seconds as ISO 8601 in UTC."""
    return f"{datetime.fromtimestamp(int(epoch_s), UTC):%Y-%m-%dT%H:%M:%SZ}"


def labels(numbers: Mapping[str, Any], device: str) -> list[tuple[str, str]]:
    """Return named quantities with their units in words.

    For example, `need_mgpu` becomes "need GPUs", or "need cores" in a pool of such a `device`.
    """
    devices = DeviceKind(device).plural
    shown = []
    for name, value in numbers.items():
        if name.endswith("_mgpu"):
            words = name.removesuffix("_mgpu").replace("_", " ")
            shown.append((f"{words} {devices}", gpus(value)))
        elif name.endswith("_s"):
            shown.append((name.removesuffix("_s").replace("_", " "), duration(int(value))))
        elif name.endswith("_tenths"):
            words = name.removesuffix("_tenths").replace("_", " ")
            shown.append((f"{words} in days of guarantee", f"{value / 10:g}"))
        elif name.endswith("_at"):
            shown.append((name.removesuffix("_at").replace("_", " "), moment_text(value)))
        else:
            words = name.replace("mgpu_", f"{devices} ").replace("_", " ")
            shown.append((words, gpus(value) if "mgpu" in name else str(value)))
    return shown
