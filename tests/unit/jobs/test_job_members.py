"""The declaration of a job request's members: what errors say, and what a job keeps."""

from __future__ import annotations

from typing import Any

import pytest

from builders.job_builders import a_body
from builders.stored_members import STORED as STORED_UNLESS_GIVEN
from builders.stored_members import STORED_ON_PAGES as ON_PAGES_UNLESS_GIVEN
from jobs.models import Job
from jobs.submission.job_members import STORED, STORED_IN_LISTS, STORED_ON_PAGES, stored_by
from jobs.submission.requests import read_job_request
from primitives.errors import InvalidRequest

JOB = "00000000-0000-7000-8000-000000000001"


def refusals(**changes: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(**changes))
    return [(error.pointer, error.detail, error.code) for error in refusal.value.errors]


@pytest.mark.parametrize(
    ("name", "value", "detail", "code"),
    [
        ("team", ..., "is required", "required"),
        ("team", 7, "must be a text", "wrong_type"),
        ("cluster", "x" * 1_001, "must be 1 to 1000 printable characters", "invalid"),
        ("nodes", "2", "must be a whole number", "wrong_type"),
        ("nodes", True, "must be a whole number", "wrong_type"),
        ("nodes", 4_097, "must be from 1 to 4,096", "out_of_range"),
        ("memory_mib_per_node", 0, "must be from 1 to 1,073,741,824", "out_of_range"),
        ("held", 1, "must be true or false", "wrong_type"),
        ("gpus", "1", "must be a number", "wrong_type"),
        ("gpus", 0, "must be above 0 and at most 10,000,000", "out_of_range"),
        ("gpus", 0.0001, "has more than three decimals", "invalid"),
        ("type", "x", "must be one of training, distributed, interactive, inference, array", None),
        ("notice_signal", "KILL", "must be one of TERM, USR1, USR2, INT, HUP", None),
        ("required_topology", 1, "must be a text", "wrong_type"),
        ("array", 3, "must be a text", "wrong_type"),
        ("array", "3-1", "has the empty range '3-1'; write the smaller index first", None),
        ("pools", [], "has 0 names; give 1 to 4", "out_of_range"),
        ("grup", 1, "is not a member of this request", "unknown_field"),
    ],
)
def test_what_is_said_of_a_member(name: str, value: Any, detail: str, code: str | None) -> None:
    """Planted: `array` whose own refusal was caught as one of its text, and said "refused"."""
    assert refusals(**{name: value}) == [(f"/{name}", detail, code or "invalid")]


def test_all_errors_of_members_and_between_members_are_told_at_once() -> None:
    """Planted: checks between members left out once a single member has an error."""
    found = refusals(
        nodes=3,
        gpus=4,
        held="yes",
        required_topology="rack",
        preferred_topology="node",
        environment={"1": "x", "A": 2, "B": "x"},
        depends_on=[{"job": JOB, "condition": "soon"}, {"job": "1", "condition": "ended"}],
    )
    assert found == [
        ("/depends_on/0/condition", "must be one of succeeded, ended, failed", "invalid"),
        ("/depends_on/1/job", "must be the id of a job", "invalid"),
        (
            "/environment/1",
            "is not a variable name: letters, digits and _, not starting with a digit",
            "invalid",
        ),
        ("/environment/A", "must be a text", "invalid"),
        ("/gpus", "cannot be split into 3 equal parts of whole GPUs", "invalid"),
        ("/held", "must be true or false", "wrong_type"),
        (
            "/preferred_topology",
            "is given beside required_topology; give one of the two",
            "invalid",
        ),
    ]


def test_an_id_of_a_line_is_a_job_or_an_array_and_one_of_a_body_says_which() -> None:
    """Planted: the id of a body taken without its kind."""
    text = f"#SBATCH --dependency=afterok:{JOB}\nx\n"
    (wish,) = read_job_request(a_body(script=..., sbatch=text)).depends_on
    assert (wish.kind, wish.pointer) == ("id", "/sbatch")
    assert refusals(depends_on=[{"id": JOB, "condition": "ended"}]) == [
        ("/depends_on/0", "must have job or array, and condition, and nothing else", "invalid")
    ]


def test_a_kept_member_has_a_column_and_a_default() -> None:
    """Planted: a column for `held`, which a job has not."""
    assert set(STORED) <= {field.name for field in Job._meta.concrete_fields}
    assert stored_by(read_job_request(a_body())) == {**STORED_UNLESS_GIVEN, **ON_PAGES_UNLESS_GIVEN}
    assert set(STORED_UNLESS_GIVEN) == set(STORED_IN_LISTS)
    assert set(ON_PAGES_UNLESS_GIVEN) == set(STORED_ON_PAGES)


def test_what_is_given_is_kept() -> None:
    given = {
        "time_limit_s": 60,
        "is_preemptible": True,
        "is_requeueable": False,
        "checkpoint_path": "/save",
        "image": "x:1",
        "preferred_topology": "rack",
        "cpus_per_node": 3,
        "memory_mib_per_node": 5,
        "notice_signal": "USR1",
    }
    stored = stored_by(read_job_request(a_body(features=["b", "a"], **given)))
    assert {name: stored[name] for name in given} == given
    assert stored["features"] == ["a", "b"]
