"""Filters of SCIM as conditions of the database."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from uuid import UUID

from django.db.models import Q
from scim2_models import InvalidFilterException
from scim2_models.path import (
    CompareOperator,
    Comparison,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ScimFilter,
    ValuePath,
)

from identity.models import GroupMembership
from webapi.parsers import refuse_bad_text

FILTER_LENGTH_MAX = 1_000
_MEMBER = "memberships__person"
#: The lookups of attributes that filters may name, by SCIM's name in lower case.
USER_LOOKUPS = {
    "id": "pk",
    "username": "user_name__iexact",
    "externalid": "external_id",
    "displayname": "attributes__displayName__iexact",
    "active": "user__is_active",
}
GROUP_LOOKUPS = {
    "id": "pk",
    "displayname": "display_name__iexact",
    "externalid": "external_id",
    "members": _MEMBER,
    "members.value": _MEMBER,
}


def condition_of(text: str, lookups: Mapping[str, str]) -> Q:
    """Return the condition of a filter such as `userName eq "maria@example.org"`.

    Comparisons with `eq` of the attributes in `lookups` may be joined by `and` and `or`. Raises
    InvalidFilterException with what can be asked.
    """
    if len(text) > FILTER_LENGTH_MAX:
        raise InvalidFilterException(
            detail=f"A filter has at most {FILTER_LENGTH_MAX} characters. Send several."
        )
    return _Conditions(lookups).visit(ScimFilter(text).ast)


class _Conditions(FilterVisitor[Q]):
    """Turns the parts of a filter into conditions."""

    def __init__(self, lookups: Mapping[str, str]) -> None:
        self._lookups = lookups

    def visit_comparison(self, node: Comparison) -> Q:
        """Return the condition of `attribute eq value`."""
        path = node.attr_path
        name = ".".join(filter(None, (path.attr, path.sub_attr))).lower()
        lookup = self._lookups.get(name)
        if lookup is None or node.op != CompareOperator.eq:
            raise self._refusal()
        value = node.value
        if lookup.endswith("is_active"):
            if not isinstance(value, bool):
                raise InvalidFilterException(detail="active is compared with true or false.")
            return Q(**{lookup: value})
        if not isinstance(value, str):
            raise InvalidFilterException(detail=f"{path.attr} is compared with a text in quotes.")
        try:
            refuse_bad_text(value)
        except ValueError as error:
            raise InvalidFilterException(detail=str(error)) from error
        if lookup == _MEMBER:
            # A condition for each member: a join would look for both in one row.
            return Q(pk__in=GroupMembership.objects.filter(person=_uuid(value)).values("group"))
        if lookup == "pk":
            return Q(pk=_uuid(value)) if _uuid(value) else Q(pk__in=[])
        return Q(**{lookup: value})

    def visit_logical_expr(self, node: LogicalExpr) -> Q:
        """Return the condition of terms joined by `and` or `or`."""
        join = and_ if node.op == LogicalOperator.and_ else or_
        return reduce(join, (self.visit(term) for term in node.terms))

    def visit_present(self, node: Present) -> Q:
        """Refuse `pr`."""
        raise self._refusal()

    def visit_not(self, node: Not) -> Q:
        """Refuse `not`."""
        raise self._refusal()

    def visit_value_path(self, node: ValuePath) -> Q:
        """Refuse `attribute[...]`."""
        raise self._refusal()

    def _refusal(self) -> InvalidFilterException:
        return InvalidFilterException(
            detail='Filter with eq, joined by and or or, such as displayName eq "gpu". The '
            f"attributes are, without regard to case: {', '.join(sorted(self._lookups))}."
        )


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
