"""The format of the demo's file, read strictly: unknown parts are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import yaml

from primitives.units import BASIS_POINTS, MGPU_PER_GPU, NANO_PER_UNIT
from tenants.roles import Role

Value = TypeVar("Value")
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_POOL = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?%", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_LENGTH_MAX = 200
_GPUS_MAX = 1_000_000


class CompanyFileError(ValueError):
    """The file is invalid. The text says where and why."""


@dataclass(frozen=True, slots=True)
class PoolPart:
    """A pool of `gpus` in total, on nodes of `gpus_per_node` named `node_prefix` plus a number."""

    name: str
    gpus: int
    gpus_per_node: int
    node_prefix: str
    weight: int


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A guarantee, either in basis points of the parent's or in milli-GPU."""

    basis_points: int | None = None
    mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class NodePart:
    """A department or team by its path below the organization ("research/nlp")."""

    path: str
    is_team: bool
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class ClassPart:
    """A priority class."""

    name: str
    order: int
    preempts_within_team: bool
    grace_period_s: int
    use: str


@dataclass(frozen=True, slots=True)
class PersonPart:
    """A person with one role on a node, by its path below the organization ("": on it)."""

    username: str
    name: str
    role: Role
    node: str


@dataclass(frozen=True, slots=True)
class Company:
    """The whole file. Parents come first in `nodes`. Prices are nano-currency per GPU-hour."""

    name: str
    slug: str
    pools: tuple[PoolPart, ...]
    rank: tuple[str, ...]
    grace_period_s: int
    fair_share_half_life_s: int
    priority_classes: tuple[ClassPart, ...]
    currency: str
    guaranteed_price_nano: int
    borrowed_price_nano: int
    nodes: tuple[NodePart, ...]
    people: tuple[PersonPart, ...]


def read_company(text: str) -> Company:
    """Return the company in `text` (YAML). Raises CompanyFileError."""
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, stricter
    except yaml.YAMLError as error:
        raise CompanyFileError(f"not YAML: {error}") from error
    top = _Part(document, "")
    name = top.take("organization", _text)
    pools = tuple(_pool(key, part) for key, part in top.take_parts("pools"))
    policy = top.take_part("policy")
    card = top.take_part("rate_card")
    nodes: list[NodePart] = []
    for key, part in top.take_parts("departments"):
        _read_department(key, part, nodes)
    known = {node.path for node in nodes}
    company = Company(
        name=name,
        slug=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        pools=pools,
        rank=tuple(policy.take("rank", lambda value: _paths(value, known))),
        grace_period_s=policy.take("grace_period_s", _whole(0, 86_400)),
        fair_share_half_life_s=policy.take("fair_share_half_life_days", _whole(1, 3_650)) * 86_400,
        priority_classes=tuple(
            _priority_class(key, part) for key, part in top.take_parts("priority_classes")
        ),
        currency=card.take("currency", _matching(_CURRENCY, "three capital letters")),
        guaranteed_price_nano=card.take("guaranteed", _price),
        borrowed_price_nano=card.take("borrowed", _price),
        nodes=tuple(nodes),
        people=tuple(_person(key, part, known) for key, part in top.take_parts("people")),
    )
    for part in (top, policy, card):
        part.refuse_rest()
    if _SLUG.fullmatch(company.slug) is None:
        raise CompanyFileError(f"organization: {name!r} has no letter or digit to call it by")
    return company


def _pool(key: str, part: _Part) -> PoolPart:
    pool = PoolPart(
        name=part.named(key, _POOL),
        gpus=part.take("gpus", _whole(1, _GPUS_MAX)),
        gpus_per_node=part.take("gpus_per_node", _whole(1, 1_024)),
        node_prefix=part.take("node_prefix", _text),
        weight=part.take("weight", _whole(1, 1_000_000)),
    )
    part.refuse_rest()
    if pool.gpus % pool.gpus_per_node:
        raise CompanyFileError(
            f"{part.where}: {pool.gpus} GPUs do not fill nodes of {pool.gpus_per_node}"
        )
    return pool


def _priority_class(key: str, part: _Part) -> ClassPart:
    found = ClassPart(
        name=part.named(key, _SLUG),
        order=part.take("order", _whole(0, 1_000_000)),
        preempts_within_team=part.take("preempts_within_team", _yes_or_no),
        grace_period_s=part.take("grace_period_s", _whole(0, 86_400)),
        use=part.take("use", _text),
    )
    part.refuse_rest()
    return found


def _read_department(path: str, part: _Part, nodes: list[NodePart]) -> None:
    part.named(path.rpartition("/")[2], _SLUG)
    nodes.append(NodePart(path, is_team=False, guarantee=part.take("guaranteed", _guarantee)))
    for key, below in part.take_parts("departments", is_required=False):
        _read_department(f"{path}/{key}", below, nodes)
    taken = {node.path for node in nodes}
    for key, team in part.take_parts("teams", is_required=False):
        team.named(key, _SLUG)
        if f"{path}/{key}" in taken:
            raise CompanyFileError(f"{team.where}: the name is used twice below {path}")
        guarantee = team.take("guaranteed", _guarantee)
        nodes.append(NodePart(f"{path}/{key}", is_team=True, guarantee=guarantee))
        team.refuse_rest()
    part.refuse_rest()


def _person(key: str, part: _Part, known: set[str]) -> PersonPart:
    person = PersonPart(
        username=part.named(key, _SLUG),
        name=part.take("name", _text),
        role=part.take("role", _role),
        node=part.take("node", lambda value: _path(value, known), default=""),
    )
    part.refuse_rest()
    return person


class _Part:
    """A mapping of the file. Keys that no code took are refused at the end."""

    def __init__(self, value: Any, where: str) -> None:
        self.where = where or "the file"
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise CompanyFileError(f"{self.where} must be a mapping with names as keys")
        self._left: dict[str, Any] = dict(value)
        self._known: list[str] = []
        self._prefix = f"{where}." if where else ""

    def take(
        self, key: str, read: Callable[[Any], Value], *, default: Value | None = None
    ) -> Value:
        self._known.append(key)
        if key not in self._left:
            if default is not None:
                return default
            raise CompanyFileError(f"{self._prefix}{key} is missing")
        try:
            return read(self._left.pop(key))
        except ValueError as error:
            raise CompanyFileError(f"{self._prefix}{key}: {error}") from error

    def take_part(self, key: str) -> _Part:
        return _Part(self.take(key, lambda value: value), f"{self._prefix}{key}")

    def take_parts(self, key: str, *, is_required: bool = True) -> list[tuple[str, _Part]]:
        if not is_required and key not in self._left:
            self._known.append(key)
            return []
        mapping = self.take_part(key)
        return [
            (name, _Part(value, f"{self._prefix}{key}.{name}"))
            for name, value in mapping._left.items()
        ]

    def named(self, name: str, form: re.Pattern[str]) -> str:
        if form.fullmatch(name) is None or len(name) > 63:
            raise CompanyFileError(
                f"{self.where}: the name must be lower-case letters, digits and '-'"
            )
        return name

    def refuse_rest(self) -> None:
        if self._left:
            raise CompanyFileError(
                f"{self._prefix}{min(self._left)} is not known here; known are "
                f"{', '.join(sorted(self._known))}"
            )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _LENGTH_MAX:
        raise ValueError(f"must be text of 1 to {_LENGTH_MAX} characters")
    return value


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return read


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _matching(form: re.Pattern[str], described: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise ValueError(f"must be {described}")
        return value

    return read


def _price(value: Any) -> int:
    try:
        price = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        price = None
    if price is None or not price.is_finite() or not 0 <= price <= 1_000_000:
        raise ValueError('must be a price as text, like "2.00"')
    nano = price * NANO_PER_UNIT
    if nano != nano.to_integral_value():
        raise ValueError("must have at most nine decimals")
    return int(nano)


def _guarantee(value: Any) -> Guarantee:
    if type(value) is int and 0 <= value <= _GPUS_MAX:
        return Guarantee(mgpu=value * MGPU_PER_GPU)
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        basis_points = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
        if basis_points <= BASIS_POINTS:
            return Guarantee(basis_points=basis_points)
    raise ValueError("must be whole GPUs or a percentage of the parent, like 40%")


def _path(value: Any, known: set[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{value!r} is no department or team of this file")
    return value


def _paths(value: Any, known: set[str]) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    return [_path(item, known) for item in value]


def _role(value: Any) -> Role:
    try:
        role = Role(value)
    except ValueError:
        role = Role.PLATFORM_ADMIN
    if role is Role.PLATFORM_ADMIN:
        roles = ", ".join(role.value for role in Role if role is not Role.PLATFORM_ADMIN)
        raise ValueError(f"must be one of {roles}")
    return role


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key that appears twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is repeated or no text", key_node.start_mark
                )
            seen.add(key)
        found: Mapping[Any, Any] = super().construct_mapping(node, deep)
        return dict(found)
