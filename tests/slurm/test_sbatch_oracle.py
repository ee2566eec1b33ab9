"""The real sbatch is asked again, also about spellings that nobody wrote down."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.sbatch_comparison import differences
from builders.sbatch_oracle import Oracle, running_oracle, why_absent
from jobs.submission.begin_times import begin_of
from jobs.submission.sbatch_notes import NotUnderstood
from jobs.submission.sbatch_options import OPTIONS, Takes
from recordings.record_sbatch_options import RECORDING

# Without Slurm nobody can be asked. Where Slurm must be there, the start of the oracle fails.
pytestmark = pytest.mark.skipif(
    bool(why_absent()) and os.environ.get("TIDEGATE_REQUIRE_SLURM") != "1",
    reason=f"no sbatch to ask: {why_absent()}",
)

#: Options with values that sbatch takes together, whatever is drawn.
VALUES: dict[str, st.SearchStrategy[str]] = {
    "nodes": st.one_of(
        st.integers(1, 4).map(str), st.sampled_from(["1-2", "2-4", "-3", "2-2", "04"])
    ),
    "ntasks": st.integers(1, 16).map(str),
    "ntasks-per-node": st.integers(1, 4).map(str),
    "cpus-per-task": st.integers(1, 6).map(str),
    "mem": st.tuples(st.integers(1, 64), st.sampled_from(["", "M", "g", "G", "GB", "gb"])).map(
        lambda drawn: f"{drawn[0]}{drawn[1]}"
    ),
    "time": st.sampled_from(
        ["30", "10:30", "0:45", "1:30:00", "0-12", "1-0:30", "2-1:2:3", "UNLIMITED", "0", "-1"]
    ),
    "array": st.sampled_from(["0-9", "1,3,5-7", "0-31:4", "0-9%2", "7", "3-3"]),
    "dependency": st.sampled_from(
        ["afterok:1", "afterany:1:2", "afternotok:3,afterok:1", "singleton", "singleton,afterok:2"]
    ),
    "begin": st.sampled_from(["2027-12-01", "2027-12-01T08:00", "12/31/27", "uts1800000000"]),
    "output": st.sampled_from(["%x-%j.out", "logs/%4t.log", "/dev/null", "none"]),
    "error": st.sampled_from(["e.%J", "/abs/%A_%a.err"]),
    "chdir": st.sampled_from(["/tmp", "run"]),
    "export": st.sampled_from(["ALL", "NONE", "A=1", "ALL,A=1,B=x y"]),
    "open-mode": st.sampled_from(["append", "truncate", "a"]),
    "job-name": st.sampled_from(["bert", "a b", "it's", 'the "big" one', "x#1", "a\\b", "-N"]),
    "partition": st.sampled_from(["main", "h100", "h100,main"]),
    "signal": st.sampled_from(["USR1", "B:USR1@60", "sigterm@5", "R:12@30"]),
}
GPUS: dict[str, st.SearchStrategy[str]] = {
    "gpus": st.sampled_from(["1", "4", "8", "h100:2", "h100"]),
    "gpus-per-node": st.sampled_from(["1", "2", "8", "h100:4", "0"]),
    "gres": st.sampled_from(["gpu", "gpu:1", "gpu:8", "gpu:h100:2", "gpu:0"]),
    "gpus-per-task": st.sampled_from(["1", "2"]),
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with running_oracle() as running:
        yield running


@st.composite
def spelled(draw: st.DrawFn, name: str, value: str) -> str:
    """Draw one of the ways to write an option with its value, without its line."""
    option = OPTIONS[name]
    value = draw(st.sampled_from(list(_quoted(value))))
    heads = [f"--{name}=", f"--{name} ", f"--{name}\t"]
    heads += [f"--{name[:length]}=" for length in range(2, len(name)) if _is_prefix(name[:length])]
    if option.short is not None:
        heads += [f"-{option.short}", f"-{option.short} ", f"-{option.short}  "]
    return draw(st.sampled_from(heads)) + value


def _is_prefix(text: str) -> bool:
    return sum(name.startswith(text) for name in OPTIONS) == 1


def _quoted(value: str) -> Iterator[str]:
    """Yield the ways to write a value so that sbatch takes it whole."""
    escaped = "".join(
        f"\\{character}" if character in "\\\"'#" else character for character in value
    )
    if '"' not in value and "\\" not in value:
        yield f'"{value}"'
    if "'" not in value and "\\" not in value:
        yield f"'{value}'"
    if " " not in value:
        yield escaped


@st.composite
def texts(draw: st.DrawFn) -> list[str]:
    """Draw the lines of a script: some options, one or several on a line, with comments."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=5))
    words = [draw(spelled(name, draw(VALUES[name]))) for name in names]
    for name in draw(st.lists(st.sampled_from(sorted(GPUS)), max_size=2, unique=True)):
        words.append(draw(spelled(name, draw(GPUS[name]))))
    lines: list[str] = []
    for word in draw(st.permutations(words)):
        if lines and draw(st.booleans()):
            lines[-1] += draw(st.sampled_from([" ", "\t", "   "])) + word
        else:
            lines.append(f"#SBATCH{draw(st.sampled_from([' ', '  ', chr(9)]))}{word}")
    ends = [draw(st.sampled_from(["", "", " ", " # why", "\t#"])) for _ in lines]
    return [line + end for line, end in zip(lines, ends, strict=True)]


@given(lines=texts())
def test_whatever_the_spelling_the_same_is_read(oracle: Oracle, lines: list[str]) -> None:
    """Planted: prefixes that are refused, a tab that is no space, -N2 without its value."""
    found = differences(lines, oracle.read(lines))
    # Tidegate is stricter where the parts of a job would not be equal, or two lines disagree.
    stricter = ("cannot be spread evenly", "keep one", "too few for")
    assert [one for one in found if not any(part in one for part in stricter)] == []


#: Begin times that depend on the moment, with all kinds of days, clock times and delays.
TIMES = st.one_of(
    st.tuples(
        st.sampled_from(["now+", "now-", "now + "]),
        st.integers(0, 5_000).map(str),
        st.sampled_from(
            ["", "second", "seconds", " minutes", "hour", "HOURS", "days", "week", "s"]
        ),
    ).map("".join),
    st.tuples(
        st.sampled_from(
            ["", "today", "tomorrow", "1/2", "12/31", "11.30", "2028-02-29", "06/30/28"]
        ),
        st.sampled_from([" ", "T", "-"]),
        st.sampled_from(["", "noon", "midnight", "fika", "teatime", "0:00", "7:05", "23:59:59"])
        | st.sampled_from(["4:30PM", "12:00 am", "12:59pm", "13:00PM", "24:00", "9", "8:5"]),
    ).map("".join),
)


@given(text=TIMES)
def test_begin_times_are_those_of_sbatch(oracle: Oracle, text: str) -> None:
    """Against: days without a year that are past, 12 am as noon, a delay without its unit."""
    before = datetime.now().astimezone()
    answer = oracle.read([f"#SBATCH --begin='{text}'"]) if text.strip() else {"accepts": False}
    after = datetime.now().astimezone()
    try:
        found = [begin_of(text, now).replace(microsecond=0) for now in (before, after)]
    except NotUnderstood:
        assert answer["accepts"] is False
        return
    assert answer["accepts"], answer
    told = datetime.fromisoformat(answer["defined"]["begin"]).astimezone()
    assert min(found) <= told <= max(found)


def test_the_recording_is_what_sbatch_says(oracle: Oracle) -> None:
    """Against: a recording that nobody made anew after its cases changed."""
    recording = json.loads(RECORDING.read_text(encoding="utf-8"))
    assert oracle.version() == recording["sbatch"]
    read = [oracle.read(case["lines"]) for case in recording["cases"]]
    assert read == [case["answer"] for case in recording["cases"]]


def test_options_take_a_value_as_in_sbatch(oracle: Oracle) -> None:
    """Planted: --nice that needs a value."""
    names = OPTIONS.keys() - {"wait"}  # sbatch would wait for a held job
    answers = {name: oracle.read([f"#SBATCH --{name}"]) for name in names}
    needing = {name for name, one in answers.items() if "requires an arg" in one.get("error", "")}
    assert needing == {name for name, one in OPTIONS.items() if one.takes is Takes.VALUE}
    given_one = {name: oracle.read([f"#SBATCH --{name}=1"]) for name in names}
    refusing = {name for name, one in given_one.items() if "allow an arg" in one.get("error", "")}
    assert refusing == {name for name in names if OPTIONS[name].takes is Takes.NOTHING}
