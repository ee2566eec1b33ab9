"""The declaration of a kind's options: one field says how it is checked and how forms show it.

    @dataclass(frozen=True, slots=True)
    class ToyOptions:
        address: str = option(text(check_address), title="Address", help="As the portal reaches it")
        gpus: int = option(whole(1, 16), title="GPUs per node", default=8)

`read_record(ToyOptions, given, ...)` returns the checked values by field. `schema_of(ToyOptions)`
returns the JSON Schema (2020-12) that the API gives and the browser draws the form from. Four
keywords are ours:

    x-when    {sibling: [values]}: the field applies only while the sibling has one of the values
    x-needed  true: required while it applies
    x-more    true: forms keep it behind "More options"
    x-names   "pools": the names of an object are names of the portal's pools
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from primitives.units import DeviceKind

T = TypeVar("T")

#: Where a value is in the options: names of options, names in maps, and indices of lists.
Path = tuple[str | int, ...]
Schema = Mapping[str, Any]
#: Checks a value. Gets the option's name for its sentence. Raises ValueError.
Check = Callable[[str, object], T]

_OPTION = "option"
_MISSING: Any = object()


class OptionsRefused(ValueError):
    """Options that no such cluster can have: for each problem its path and a sentence."""

    def __init__(self, *problems: tuple[Path, str]) -> None:
        super().__init__("; ".join(dict.fromkeys(sentence for _, sentence in problems)))
        self.problems = problems


def refusal(path: Path, sentence: str) -> OptionsRefused:
    """Return the refusal of one value."""
    return OptionsRefused((path, sentence))


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """A type of option: `read` checks a value at a path, `schema` describes it."""

    read: Callable[[Path, object], T]
    schema: Schema


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    value: Value[Any]
    schema: Schema
    default: Any
    is_shown: bool

    @property
    def is_required(self) -> bool:
        return self.default is _MISSING


def option(
    value: Value[Any],
    *,
    title: str,
    help: str = "",
    example: Any = None,
    default: Any = _MISSING,
    name: str = "",
    when: Mapping[str, Sequence[Any]] | None = None,
    is_needed: bool = False,
    is_more: bool = False,
    is_secret: bool = False,
    is_shown: bool = True,
) -> Any:
    """Return the dataclass field of an option.

    - `default` is its JSON value where it is left out; without one it is required.
    - `name` is the option's name, where the field has another one.
    - `when`, `is_needed` and `is_more` are the keywords of the module's docstring.
    - `is_secret` options are never shown again.
    - An option that is not `is_shown` is left out of the schema.
    """
    schema: dict[str, Any] = {"title": title, **value.schema}
    if help:
        schema["description"] = help
    if example is not None:
        schema["examples"] = [example]
    if default is not _MISSING:
        schema["default"] = default
    if when is not None:
        schema["x-when"] = {sibling: list(values) for sibling, values in when.items()}
    marks = {"x-needed": is_needed, "x-more": is_more, "writeOnly": is_secret}
    schema.update({mark: True for mark, is_set in marks.items() if is_set})
    metadata = {_OPTION: _Option(name, value, schema, default, is_shown)}
    if default is _MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(
        default_factory=lambda: value.read((name or title,), default), metadata=metadata
    )


def declared_names(record: type) -> frozenset[str]:
    """Return the names of all options of a record."""
    return frozenset(_declared(record))


def schema_of(record: type) -> dict[str, Any]:
    """Return the JSON Schema of a record's options, in the order of its fields."""
    declared = {name: each for name, (_, each) in _declared(record).items() if each.is_shown}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: each.schema for name, each in declared.items()},
        "additionalProperties": False,
    }
    if needed := [name for name, each in declared.items() if each.is_required]:
        schema["required"] = needed
    return schema


def read_record(
    record: type, given: Mapping[str, Any], unknown: str, path: Path = ()
) -> dict[str, Any]:
    """Return the checked options by field of `record`, with defaults for those that are left out.

    `unknown` begins the sentence about an option that is not declared. Raises OptionsRefused with
    all problems.
    """
    declared = _declared(record)
    problems: list[tuple[Path, str]] = [
        ((*path, name), f"{unknown}: {name}")
        for name in sorted(str(each)[:100] for each in given if each not in declared)
    ]
    found: dict[str, Any] = {}
    for name, (field, each) in declared.items():
        absent = None if each.is_required else each.default
        try:
            found[field] = each.value.read((*path, name), given.get(name, absent))
        except OptionsRefused as refused:
            problems.extend(refused.problems)
    if problems:
        raise OptionsRefused(*problems)
    return found


def checked(check: Check[T], schema: Schema) -> Value[T]:
    """Return a type whose values `check` accepts or refuses."""

    def read(path: Path, value: object) -> T:
        try:
            return check(named(path), value)
        except OptionsRefused:
            raise
        except ValueError as error:
            raise refusal(path, str(error)) from None

    return Value(read, schema)


def text(check: Check[T]) -> Value[T]:
    """Return the type of a text."""
    return checked(check, {"type": "string"})


def whole(least: int, most: int) -> Value[int]:
    """Return the type of a whole number from `least` to `most`."""

    def check(option: str, value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"option {option} must be a whole number from {least} to {most}")
        return value

    return checked(check, {"type": "integer", "minimum": least, "maximum": most})


def flag() -> Value[bool]:
    """Return the type of true or false."""

    def check(option: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"option {option} must be true or false")
        return value

    return checked(check, {"type": "boolean"})


def choice(titles: Mapping[str, str]) -> Value[str]:
    """Return the type of one of several texts, each with its title for people."""

    def check(option: str, value: object) -> str:
        if not isinstance(value, str) or value not in titles:
            raise ValueError(f"option {option} must be one of {', '.join(titles)}")
        return value

    return checked(check, {"oneOf": constants(titles.items())})


def constants(titles: Any) -> list[dict[str, Any]]:
    """Return the schemas of fixed values, from pairs of value and title."""
    return [{"const": value, "title": title} for value, title in titles]


def described(value: Value[T], **schema: Any) -> Value[T]:
    """Return `value` with another schema."""
    return Value(value.read, schema)


def optional(value: Value[T]) -> Value[T | None]:
    """Return the type of a value or null."""
    schema = dict(value.schema)
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]

    def read(path: Path, given: object) -> T | None:
        return None if given is None else value.read(path, given)

    return Value(read, schema)


def listed(each: Value[T], most: int, words: str = "") -> Value[tuple[T, ...]]:
    """Return the type of a list of at most `most` values; `words` say what it must be."""

    def read(path: Path, value: object) -> tuple[T, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            must = words or f"must be a list of at most {most}"
            raise refusal(path, f"option {named(path)} {must}")
        return tuple(each.read((*path, index), one) for index, one in enumerate(value))

    return Value(read, {"type": "array", "items": each.schema, "maxItems": most})


def texts_by_name(check: Check[T], **schema: Any) -> Value[T]:
    """Return the type of an object whose members are texts."""
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    return checked(check, {**texts, **schema})


def pools(read: Callable[[Path, object], T], record: type, most: int) -> Value[T]:
    """Return the type of the option with the cluster's pools, each described by a `record`."""
    return Value(
        read,
        {
            "type": "object",
            "propertyNames": {"title": "Pool", "description": "Its name in the portal."},
            "additionalProperties": schema_of(record),
            "minProperties": 1,
            "maxProperties": most,
            "x-names": "pools",
        },
    )


def device_kind() -> Value[DeviceKind]:
    """Return the type of the devices of a pool: null for GPUs, or "cpu"."""

    def check(option: str, value: object) -> DeviceKind:
        if value not in (None, DeviceKind.CPU.value):
            raise ValueError(f'option {option} must be "{DeviceKind.CPU.value}", or absent')
        return DeviceKind.GPU if value is None else DeviceKind.CPU

    titles = ((None, "GPUs"), (DeviceKind.CPU.value, "CPU cores"))
    return checked(check, {"oneOf": constants(titles)})


def without_null_device(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a pool without a `device` of null, which means GPUs as none does."""
    return {name: value for name, value in given.items() if (name, value) != ("device", None)}


def named(path: Path) -> str:
    """Return the option at `path` as sentences call it: without the indices of lists."""
    return ".".join(part for part in path if isinstance(part, str))


def pointer(path: Path) -> str:
    """Return `path` as the end of a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


@cache
def _declared(record: type) -> dict[str, tuple[str, _Option]]:
    """Return by option its field and its declaration."""
    found: dict[str, tuple[str, _Option]] = {}
    for field in dataclasses.fields(record):
        declared = field.metadata.get(_OPTION)
        if declared is not None:
            found[declared.name or field.name] = (field.name, declared)
    return found
