"""All errors of one request body, each with its JSON pointer, told at once.

A check of a single member raises `refused`, as pydantic expects of a validator. `Problems` collects
what pydantic found in all members, and what the checks over several members find afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from jobs.submission.sbatch_notes import Note, refused_of
from primitives.errors import FieldError, InvalidRequest, PortalError

#: The most errors of one answer, and of its sentence.
_ERRORS_MAX = 100
_TOLD_MAX = 5
#: The longest step of a pointer.
_STEP_MAX = 80
_REFUSED = "refused"
#: What is said of errors that pydantic itself finds.
_SENTENCES = {
    "missing": ("is required", "required"),
    "extra_forbidden": ("is not a member of this request", "unknown_field"),
    "int_type": ("must be a whole number", "wrong_type"),
    "bool_type": ("must be true or false", "wrong_type"),
}


class Problem(NamedTuple):
    """An error in a member, or in the part of it to which `steps` lead."""

    detail: str
    code: str = "invalid"
    steps: tuple[str, ...] = ()


def refused(*problems: Problem) -> PydanticCustomError:
    """Return the error that a check of one member raises."""
    return PydanticCustomError(_REFUSED, _REFUSED, {"problems": problems})


class Problems:
    """The errors of one body.

    `lines` are the lines of the text that members came from: `source` names the member with the
    text, "sbatch" or "manifest".
    """

    def __init__(self) -> None:
        self.source = "sbatch"
        self.lines: dict[str, int] = {}
        self._errors: list[FieldError] = []

    def fail(self, name: str, detail: str, code: str = "invalid", *steps: str) -> None:
        """Add an error at the member, or at the line of the sbatch text that it came from."""
        if name in self.lines:
            detail = f"line {self.lines[name]}: {name} {detail}"
            name = self.source
        pointer = "".join(
            "/" + step[:_STEP_MAX].replace("~", "~0").replace("/", "~1") for step in (name, *steps)
        )
        self._errors.append(FieldError(pointer, detail, code))

    def pointer(self, name: str, *steps: str) -> str:
        """Return the JSON pointer for an error about the member that is found later."""
        return f"/{self.source}" if name in self.lines else "/" + "/".join((name, *steps))

    def take(self, found: ValidationError, model: type[BaseModel]) -> set[str]:
        """Add what pydantic found in the members of `model`. Return their names."""
        names = set()
        for error in found.errors(include_url=False, include_input=False):
            name = str(error["loc"][0])
            names.add(name)
            for detail, code, steps in _problems_of(error, model, name):
                self.fail(name, detail, code, *steps)
        return names

    def raise_any(self, notes: Sequence[Note] = ()) -> None:
        """Raise InvalidRequest with all errors in the order of their pointers, if any.

        `notes` say what became of the lines of the text. Its refused lines are errors, too.
        Refused lines of a manifest raise by themselves, since nothing else is known of it.
        """
        refusals = refused_lines(notes, self.source)
        if self._errors or (refusals and self.source == "manifest"):
            errors = sorted(self._errors, key=lambda error: error.pointer)
            errors += refusals
            raise InvalidRequest(
                "; ".join(f"{e.pointer.removeprefix('/')}: {e.detail}" for e in errors[:_TOLD_MAX]),
                errors=errors[:_ERRORS_MAX],
                **({"notes": [note.as_json() for note in notes]} if notes else {}),
            )


@contextmanager
def telling(notes: Iterable[Note]) -> Iterator[None]:
    """Add `notes` to a refusal that has none: what became of each line helps to mend the text."""
    try:
        yield
    except PortalError as refusal:
        tell_notes(refusal, notes)
        raise


def tell_notes(refusal: PortalError, notes: Iterable[Note]) -> None:
    """Add `notes` to a refusal that has none."""
    if found := [note.as_json() for note in notes]:
        refusal.data = {"notes": found, **refusal.data}


def refused_lines(notes: Iterable[Note], source: str = "sbatch") -> list[FieldError]:
    """Return an error for each refused line of the text in the member `source`."""
    return [
        FieldError(f"/{source}", f"line {note.line}: {note.text}: {note.detail}", "refused")
        for note in refused_of(notes)
    ]


def _problems_of(error: ErrorDetails, model: type[BaseModel], name: str) -> Sequence[Problem]:
    kind = error["type"]
    if kind == _REFUSED:
        problems: Sequence[Problem] = error["ctx"]["problems"]
        return problems
    if kind in _SENTENCES:
        return [Problem(*_SENTENCES[kind])]
    if kind not in ("greater_than_equal", "less_than_equal"):
        return [Problem("is not a valid value")]
    bounds = model.model_fields[name].metadata
    low = next(bound.ge for bound in bounds if isinstance(bound, Ge))
    high = next(bound.le for bound in bounds if isinstance(bound, Le))
    return [Problem(f"must be from {low:,} to {high:,}", "out_of_range")]


@contextmanager
def in_request() -> Iterator[None]:
    """Turn pointers of errors in the job request into those of the whole body."""
    try:
        yield
    except PortalError as problem:
        problem.errors = tuple(
            replace(one, pointer=f"/request{one.pointer}") for one in problem.errors
        )
        raise
