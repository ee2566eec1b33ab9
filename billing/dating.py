"""Dated rules of a rate card: added, ended and cancelled without any change of the past."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from django.db.models import Min, Q, QuerySet

from billing.models import Dated
from billing.periods import EARLIEST, LATEST
from primitives.errors import Conflict, FieldError

Rule = TypeVar("Rule", bound=Dated)
#: Record an act ("added", "ended", "extended", "cancelled") on a rule.
Recorder = Callable[[str, Dated], None]


def time_errors(start: datetime, end: datetime | None) -> list[FieldError]:
    """Return what is wrong with the times of a new rule."""
    errors = []
    if not EARLIEST <= start < LATEST:
        errors.append(FieldError("/start", "must be in the years 2000 to 2099"))
    if end is not None and not start < end <= LATEST:
        errors.append(FieldError("/end", "must be after start and before 2100"))
    return errors


def add_rule(
    rule: Rule, same: QuerySet[Rule], *, ends_current: bool, now: datetime, record: Recorder
) -> Rule:
    """Store a new rule; `same` are the rules for the same use.

    With `ends_current`, the rule that applies at its start ends there, and without an end the new
    one lasts until the next scheduled rule. Raises Conflict, with the conflicting rule, where there
    is a rule already.
    """
    if ends_current:
        rule.end = rule.end or same.filter(start__gt=rule.start).aggregate(at=Min("start"))["at"]
        current = same.filter(Q(end=None) | Q(end__gt=rule.start), start__lt=rule.start).first()
        if current is not None and rule.start >= now:
            _set_end(current, rule.start, record)
    overlapping = same.filter(Q(end=None) | Q(end__gt=rule.start))
    if rule.end is not None:
        overlapping = overlapping.filter(start__lt=rule.end)
    if (in_the_way := overlapping.order_by("start").first()) is not None:
        refusal = _refusal(in_the_way, rule.start, now)
        raise Conflict(refusal, conflicts_with=str(in_the_way.pk))
    rule.save(force_insert=True)
    record("added", rule)
    return rule


def _refusal(rule: Dated, start: datetime, now: datetime) -> str:
    """Return why a rule from `start` on conflicts with `rule`, and what to do about it."""
    found = f"{_sentence_of(rule)} "
    that = rule.words.definite
    if start < min(now, rule.start):
        return found + f"End yours at {_text(rule.start)} or earlier, or choose another start."
    if start < now:
        return found + "What has applied never changes. Choose a start from now on."
    if start == rule.start:
        return found + f"Cancel {that} first, or choose another start."
    return found + f"End {that} first, or choose another period."


def end_rule(rule: Dated, end: datetime, *, now: datetime, record: Recorder) -> None:
    """End a rule at `end`, not in the past, so that no past report changes.

    Raises Conflict if `end` is in the past, not after the rule's start, or after its present end.
    """
    if end < now or end <= rule.start or (rule.end is not None and end > rule.end) or end > LATEST:
        raise Conflict(
            f"{_sentence_of(rule)} The new end must be earlier, but after the start and not in the "
            "past."
        )
    _set_end(rule, end, record)


def cancel_rule(rule: Rule, same: QuerySet[Rule], *, now: datetime, record: Recorder) -> None:
    """Delete a scheduled rule. One of `same` that ends at its start lasts until its end instead.

    Raises Conflict for a rule that has started.
    """
    if rule.start <= now:
        raise Conflict(
            f"{_sentence_of(rule)} What has started cannot be cancelled. "
            f"End {rule.words.definite} instead."
        )
    before = same.filter(end=rule.start).first()
    record("cancelled", rule)
    rule.delete()
    if before is not None:
        before.end = rule.end
        before.save(update_fields=["end"])
        record("extended", before)


def _set_end(rule: Dated, end: datetime, record: Recorder) -> None:
    rule.end = end
    rule.save(update_fields=["end"])
    record("ended", rule)


def _sentence_of(rule: Dated) -> str:
    """Return the sentence that says from when to when the rule holds."""
    words = rule.words.indefinite
    return f"{rule.subject} has {words} from {_text(rule.start)} to {_text(rule.end)}."


def _text(moment: datetime | None) -> str:
    return "further notice" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
