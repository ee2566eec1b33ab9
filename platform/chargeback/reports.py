"""The chargeback report by any two dimensions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from bank.settling import zone_of
from billing.amounts import SHIFTS, Amounts, total_of
from billing.models import ExtraCharge, RateLine, UsageClass
from billing.periods import Period, period_of
from billing.queries import corrections_in
from billing.scopes import (
    EVERY_ATTEMPT,
    AttemptFilter,
    currencies_of,
    nodes_of,
    numbered_scope,
    pools_named,
)
from billing.usage_sql import CLASSES, rows_of
from chargeback.buckets import Bucket, buckets_of
from chargeback.dimensions import (
    CODES,
    DIMENSIONS_MAX,
    NODES,
    PART,
    TIMES,
    UNCODED,
    Dimension,
    node_label,
)
from chargeback.grouping_sql import nodes_parameter, statement
from chargeback.sums import CurrencySums, Sums
from clusters.models import Cluster, Pool
from periods.code_book import CodedPlace, coded_places
from periods.code_models import CodeKind
from primitives.days import midnight
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind
from tenants.access import PLATFORM, Actor
from tenants.models import Node, NodeKind, User
from tenants.places import Place, placed_between, visible_place
from tenants.roles import Permission

#: The most rows of one report.
ROWS_MAX = 10_000
#: The user, cluster, priority class and job type of a commitment.
NOBODY = "(commitment)"
_DEVICES = list(DeviceKind)
_UTC = ZoneInfo("UTC")


Charged = UsageClass | ExtraCharge


def charged_as(name: str) -> Charged:
    """Return the usage class or the charge beside use with this name. Raises ValueError."""
    return ExtraCharge(name) if name in ExtraCharge.values else UsageClass(name)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The part of all use that a report covers; None is everything.

    `node_path` covers everything below it. A code covers teams only in the months in which they
    have it, and `UNCODED` those without one.
    """

    node_path: str | None = None
    pool: str | None = None
    usage_class: Charged | None = None
    attempts: AttemptFilter = EVERY_ATTEMPT
    cost_centre: str | None = None
    project_code: str | None = None

    def covers(self, charged: str) -> bool:
        """Return whether the report covers a usage class or a charge beside use.

        A commitment is of no attempt.
        """
        if charged == ExtraCharge.COMMITMENT and self.attempts != EVERY_ATTEMPT:
            return False
        return self.usage_class in (None, charged)

    def places(self, actor: Actor, period: Period, below: str | None) -> list[Place]:
        """Return the nodes below a path whose costs the actor may see, cut to the codes' months.

        Raises Forbidden as `placed_between`.
        """
        found = placed_between(actor, Permission.VIEW_COSTS, period.start, period.end, below=below)
        wanted = {
            CodeKind.COST_CENTRE: self.cost_centre,
            CodeKind.PROJECT_CODE: self.project_code,
        }
        codes = {kind: code for kind, code in wanted.items() if code is not None}
        if not codes:
            return found
        teams = [place for place in found if place.node.kind == NodeKind.TEAM]
        coded = coded_places(teams, list(codes), period.start, period.end)
        return [
            *(place for place in found if place.node.kind != NodeKind.TEAM),
            *(
                place
                for place, has in coded
                if [one or UNCODED for one in has] == [*codes.values()]
            ),
        ]


EVERYTHING = Narrowed()


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The use of one group, in one kind of devices and one currency (None: no rate card).

    `keys` are the names of the group in each dimension of the report.
    """

    keys: tuple[str, ...]
    device: DeviceKind
    currency: str | None
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class GroupedReport(Sums):
    """A chargeback report by groups. Its rows sum to the totals, but for jobs in several rows.

    `time_zone` is the organization's, or UTC for several organizations. `buckets` are the times of
    the dimension of time, those without use included; empty without one.
    """

    by: tuple[Dimension, ...]
    period: Period
    time_zone: str
    narrowed: Narrowed
    rows: tuple[GroupRow, ...]
    by_currency: tuple[CurrencySums, ...]
    buckets: tuple[Bucket, ...]
    corrections: tuple[RateLine, ...]
    #: All costs are hypothetical: at the prices of this moment. None: costs as charged.
    priced_at: datetime | None

    @property
    def currency(self) -> str | None:
        """Return the currency of all costs; None if there are several, or no rate card."""
        return self.by_currency[0].currency if len(self.by_currency) == 1 else None


@dataclass(frozen=True, slots=True)
class Asked:
    """The period that a person asked for.

    A day means its midnight in the time zone of the report. None: the running month.
    """

    start: date | datetime | None
    end: date | datetime | None
    as_of: datetime | None = None

    def period(self, zone: ZoneInfo, now: datetime) -> Period:
        """Return the period in the zone. Raises InvalidRequest as `period_of`, or for half."""
        if (self.start is None) != (self.end is None):
            raise InvalidRequest(
                "Give both start and end, or neither for this month.",
                errors=[FieldError("/start" if self.start is None else "/end", "is missing")],
            )
        if self.start is None or self.end is None:
            first = now.astimezone(zone).date().replace(day=1)
            following = (first.replace(day=28) + (date(1, 1, 5) - date(1, 1, 1))).replace(day=1)
            start, end = midnight(first, zone), midnight(following, zone)
        else:
            start, end = (_moment(each, zone) for each in (self.start, self.end))
        return period_of(start, end, as_of=self.as_of, now=now)


def _moment(day_or_time: date | datetime, zone: ZoneInfo) -> datetime:
    return day_or_time if isinstance(day_or_time, datetime) else midnight(day_or_time, zone)


def grouped_report(
    *,
    actor: Actor,
    by: Sequence[Dimension],
    asked: Asked,
    narrowed: Narrowed = Narrowed(),
    priced_at: datetime | None = None,
    now: datetime,
) -> GroupedReport:
    """Return use and cost of the period by at most two dimensions, sorted by their names.

    It covers all nodes whose costs the actor may see. One statement reads the use, and at most ten
    small ones the names. Raises InvalidRequest for dimensions that do not go together and for more
    than `ROWS_MAX` rows. Raises Forbidden without the right to see costs, and NotFound for a node,
    pool, user or cluster that is invisible or does not exist.
    """
    _check(by)
    top = None
    if narrowed.node_path is not None:
        top = visible_place(actor, narrowed.node_path, Permission.VIEW_COSTS)
    zone = zone_for(actor, narrowed.node_path)
    period = asked.period(zone, now)
    places = narrowed.places(actor, period, top)
    scope = _Scope.of(places, narrowed, [each for each in by if each in CODES], period)
    time = next((dimension for dimension in by if dimension in TIMES), None)
    buckets = [] if time is None else buckets_of(period, time, zone)
    condition, attempts = narrowed.attempts.condition(scope.organizations)
    found = rows_of(
        statement(by, narrowed.usage_class, condition),
        {
            **numbered_scope(scope.places, scope.teams, scope.pools, period),
            **attempts,
            **scope.numbers(by),
            "priced_at": priced_at,
            "buckets": [int(bucket.start.timestamp()) for bucket in buckets],
            "bucket_numbers": list(range(1, len(buckets) + 1)),
            "classes": [number for number, name in CLASSES.items() if narrowed.covers(name)],
            "rows_max": ROWS_MAX + 1,
        },
    )
    raw = [row for row in found if row[0] == "row"]
    if len(raw) > ROWS_MAX:
        raise InvalidRequest(
            f"The report has more than {ROWS_MAX} rows. Ask for a shorter period or longer times, "
            "group by less, or add a filter.",
            errors=[FieldError("/by", "makes too many rows")],
        )
    names = [
        scope.names(each, {row[place] for row in raw}, buckets) for place, each in enumerate(by, 1)
    ]
    rows = []
    for row in raw:
        keys = tuple(name[key] for name, key in zip(names, row[1:], strict=False))
        amounts = Amounts(*(int(value) for value in row[5:]))
        rows.append(GroupRow(keys, _DEVICES[row[4] - 1], scope.currencies[row[3] - 1], amounts))
    rows.sort(key=lambda row: (row.keys, row.currency or "", row.device))
    whole = scope.sums(rows, found, set(scope.organizations))
    return GroupedReport(
        totals=whole.totals,
        totals_by_device=whole.totals_by_device,
        segments_mgpu_s=whole.segments_mgpu_s,
        by=tuple(by),
        period=period,
        time_zone=zone.key,
        narrowed=narrowed,
        rows=tuple(rows),
        by_currency=scope.by_currency(rows, found),
        buckets=tuple(buckets),
        corrections=()
        if priced_at is not None
        else corrections_in(period, scope.organizations, scope.pools),
        priced_at=priced_at,
    )


def zone_for(actor: Actor, node_path: str | None) -> ZoneInfo:
    """Return the zone of the node's organization, or of the only one whose costs the actor sees.

    It is UTC for several organizations.
    """
    paths = [node_path] if node_path is not None else actor.prefixes(Permission.VIEW_COSTS)
    organizations = Node.objects.filter(kind=NodeKind.ORGANIZATION)
    if PLATFORM not in paths:
        organizations = organizations.filter(path__in={f"{path.split('/')[0]}/" for path in paths})
    found = list(organizations[:2])
    return zone_of(found[0].pk) if len(found) == 1 else _UTC


def _check(by: Sequence[Dimension]) -> None:
    wrong = None
    if len(by) > DIMENSIONS_MAX:
        wrong = f"Group by at most {DIMENSIONS_MAX} dimensions."
    elif len(set(by)) < len(by):
        wrong = "Group by two different dimensions, or by one."
    elif sum(dimension in TIMES for dimension in by) > 1:
        wrong = f"Group by one of {', '.join(TIMES)}, not by two of them."
    if wrong is not None:
        raise InvalidRequest(wrong, errors=[FieldError("/by", "does not go together")])


@dataclass(frozen=True, slots=True)
class _Scope:
    """The teams, pools and organizations of a report, by their numbers in its statement.

    In a report by accounting codes a team has a number for each of its codes.
    """

    #: The paths of all visible nodes.
    wholes: frozenset[str]
    places: Sequence[tuple[int, Place]]
    teams: Sequence[Node]
    #: The codes of each number, in the order of the report's dimensions.
    codes: Sequence[Mapping[Dimension, str]]
    pools: Mapping[UUID, Pool]
    organizations: Sequence[UUID]
    slugs: Sequence[str]
    currency_of: Mapping[UUID, str]
    currencies: Sequence[str | None]

    @classmethod
    def of(
        cls,
        places: Sequence[Place],
        narrowed: Narrowed,
        kinds: Sequence[Dimension],
        period: Period,
    ) -> _Scope:
        nodes = nodes_of(places)
        of_teams = [one for one in places if one.node.kind == NodeKind.TEAM]
        coded = [CodedPlace(place, ()) for place in of_teams]
        if kinds:
            wanted = [CodeKind(kind) for kind in kinds]
            coded = coded_places(of_teams, wanted, period.start, period.end)
        members = {(place.node.path, codes): place.node for place, codes in coded}
        numbers = {member: number for number, member in enumerate(members, 1)}
        slugs = {node.organization_id: node.display_path.split("/")[0] for node in nodes}
        organizations = sorted(slugs)
        currency_of = currencies_of(organizations)
        return cls(
            wholes=frozenset(node.display_path for node in nodes),
            places=[(numbers[place.node.path, codes], place) for place, codes in coded],
            teams=list(members.values()),
            codes=[dict(zip(kinds, codes, strict=True)) for _, codes in members],
            pools=pools_named(narrowed.pool),
            organizations=organizations,
            slugs=[slugs[pk] for pk in organizations],
            currency_of=currency_of,
            currencies=[*sorted(set(currency_of.values())), None],
        )

    def numbers(self, by: Sequence[Dimension]) -> dict[str, Any]:
        """Return the parameters that say to which rows, organizations and devices use belongs."""
        numbers = {pk: number for number, pk in enumerate(self.organizations, 1)}
        devices = [_DEVICES.index(pool.kind) + 1 for pool in self.pools.values()]
        return {
            "organization_numbers": [numbers[team.organization_id] for team in self.teams],
            "device_numbers": devices,
            "currency_numbers": [
                self.currencies.index(self.currency_of.get(pk)) + 1 for pk in self.organizations
            ],
            "shifts": [SHIFTS[device] for device in _DEVICES],
            "charged": self.organizations,
            **{
                nodes_parameter(dimension): [
                    self._labels(dimension).index(label) + 1
                    for label in self._labels_of_numbers(dimension)
                ]
                for dimension in by
                if dimension in (*NODES, *CODES)
            },
        }

    def _labels(self, dimension: Dimension) -> list[str]:
        return sorted(set(self._labels_of_numbers(dimension)))

    def _labels_of_numbers(self, dimension: Dimension) -> list[str]:
        if dimension in CODES:
            return [codes[dimension] or UNCODED for codes in self.codes]
        return [self._label(team, dimension) for team in self.teams]

    def _label(self, team: Node, dimension: Dimension) -> str:
        label = node_label(team.display_path, dimension)
        return label if label in self.wholes or not label else label + PART

    def names(
        self, dimension: Dimension, keys: Collection[str], buckets: Sequence[Bucket]
    ) -> Mapping[str, str]:
        """Return the names of the rows with these keys of the statement."""
        nobody = {"": NOBODY}
        known = [key for key in keys if key]
        if dimension in (Dimension.PRIORITY_CLASS, Dimension.JOB_TYPE):
            return nobody | {key: key for key in known}
        if dimension is Dimension.USER:
            several = len(self.organizations) > 1
            users = User.objects.filter(pk__in=known)
            names = {str(user.pk): user.login if several else user.username for user in users}
            return nobody | names
        if dimension is Dimension.CLUSTER:
            clusters = Cluster.objects.filter(pk__in=known)
            return nobody | {str(cluster.pk): cluster.name for cluster in clusters}
        if dimension is Dimension.POOL:
            labels = [pool.name for pool in self.pools.values()]
        elif dimension is Dimension.USAGE_CLASS:
            labels = list(CLASSES.values())
        elif dimension in TIMES:
            labels = [bucket.label for bucket in buckets]
        else:
            labels = self._labels(dimension)
        return {str(number): label for number, label in enumerate(labels, 1)}

    def by_currency(
        self, rows: Collection[GroupRow], found: Collection[Sequence[Any]]
    ) -> tuple[CurrencySums, ...]:
        """Sum the organizations of each currency, sorted by its code.

        Organizations without a rate card have their own item only if there are several currencies.
        A period without use has one item.
        """
        used = {self.organizations[row[3] - 1] for row in found if row[0] == "jobs"}
        charged = [pk for pk in used or self.organizations if pk in self.currency_of]
        wanted: list[str | None] = [*sorted({self.currency_of[pk] for pk in charged})]
        if len(wanted) < 2 or not used:
            members = {wanted[0] if len(wanted) == 1 else None: set(self.organizations)}
        else:
            members = {
                currency: {pk for pk in self.organizations if self.currency_of.get(pk) == currency}
                for currency in [*wanted, None]
            }
        return tuple(
            CurrencySums(
                totals=sums.totals,
                totals_by_device=sums.totals_by_device,
                segments_mgpu_s=sums.segments_mgpu_s,
                currency=currency,
                organizations=tuple(
                    slug
                    for pk, slug in zip(self.organizations, self.slugs, strict=True)
                    if pk in theirs & used
                ),
            )
            for currency, theirs in members.items()
            if theirs & used or len(members) == 1
            for sums in [
                self.sums(
                    [row for row in rows if len(members) == 1 or row.currency == currency],
                    found,
                    theirs,
                )
            ]
        )

    def sums(
        self,
        rows: Collection[GroupRow],
        found: Collection[Sequence[Any]],
        members: Collection[UUID],
    ) -> Sums:
        """Sum the rows, with the jobs and the check of the organizations `members`."""
        theirs = [
            row for row in found if row[0] != "row" and self.organizations[row[3] - 1] in members
        ]
        counts = [(row[4], int(row[5])) for row in theirs if row[0] == "jobs"]
        return Sums(
            totals=total_of([row.amounts for row in rows], _DEVICES, counts),
            totals_by_device={
                kind: total_of([row.amounts for row in rows if row.device is kind], [kind], counts)
                for kind in _DEVICES
                if any(row.device is kind for row in rows)
            },
            segments_mgpu_s=sum(int(row[5]) for row in theirs if row[0] == "check"),
        )
