"""What `make compiled` writes out before it compiles."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from arbiter import several_pools
from arbiter.core import Core
from builders.deploy_scripts import deploy_script
from builders.interpreted import interpreted, is_compiled
from embedded.layout import REPO
from simulator import comparison

SOURCES = [
    path.relative_to(REPO / "platform")
    for package in ("arbiter", "simulator")
    for path in sorted((REPO / "platform" / package).rglob("*.py"))
    if "@dataclass" in path.read_text()
]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return deploy_script("compile_arbiter")


def rewritten(build: ModuleType, source: str, name: str) -> Iterator[type]:
    """The data classes of a module whose constructors are written out."""
    module = ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(build.with_constructors(source), name, "exec"), module.__dict__)
    finally:
        del sys.modules[name]
    for found in vars(module).values():
        if isinstance(found, type) and found.__module__ == name and dataclasses.is_dataclass(found):
            yield found


def parameters(cls: type) -> list[tuple[str, object, str]]:
    """Names, kinds and defaults of what a class is made of; of a factory, that there is one."""
    factories = {
        one.name
        for one in dataclasses.fields(cls)
        if one.default_factory is not dataclasses.MISSING
    }
    return [
        (
            name,
            one.kind,
            "made"
            if name in factories and one.default is not inspect.Parameter.empty
            else repr(one.default).partition(" at 0x")[0],
        )
        for name, one in inspect.signature(cls).parameters.items()
    ]


@interpreted
@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_constructors_take_what_they_took_and_no_line_moves(build: ModuleType, path: Path) -> None:
    """Planted: a default is lost; fields that are not asked for are; a class is left as it was."""
    source = (REPO / "platform" / path).read_text()
    new = build.with_constructors(source)
    moved = [
        (one.name, one.lineno)
        for one in ast.walk(ast.parse(new))
        if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name != "__init__"
    ]
    assert moved == [
        (one.name, one.lineno)
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name != "__init__"
    ]
    original = importlib.import_module(".".join(path.with_suffix("").parts))
    count = 0
    for cls in rewritten(build, source, f"rewritten_{path.stem}"):
        known = getattr(original, cls.__name__)
        assert parameters(cls) == parameters(known)
        assert (cls.__hash__ is None) == (known.__hash__ is None)
        assert inspect.unwrap(cls.__init__).__code__.co_filename == f"rewritten_{path.stem}"
        count += 1
    assert count == source.count("\n@dataclass")


SAMPLE = '''
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Key:
    """A key."""

    a: int
    b: tuple[int, ...] = (1, 2)


@dataclass(slots=True, eq=False)
class Book:
    """A book."""

    of: Key
    pages: list[int] = field(default_factory=lambda: [])
    first: int = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.of.a
'''


def test_what_is_made_by_them_is_the_same(build: ModuleType) -> None:
    """Planted: one list for all; `__post_init__` is not called; what was frozen has no hash."""
    key, book = rewritten(build, SAMPLE, "sample")
    assert (key(1), hash(key(1)), key(a=1, b=())) == (
        key(1, (1, 2)),
        hash(key(1, (1, 2))),
        dataclasses.replace(key(1), b=()),
    )
    one, other = book(key(7)), book(key(8), [3])
    one.pages.append(1)
    assert (one.pages, one.first, other.pages, other.first) == ([1], 7, [3], 8)
    assert book(key(7)).pages == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("@dataclass(slots=True)\nclass A:\n    a: int\nx = 1", "line 4, which follows it, is to"),
        ("@dataclass\nclass A:\n    a: int", r"it is @dataclass\(...\), in one line"),
        ("@dataclass(\n    slots=True\n)\nclass A:\n    a: int", "in one line"),
        ("@dataclass(kw_only=True)\nclass A:\n    a: int", "frozen, slots, order and eq only"),
        ("@dataclass(slots=True)\nclass A(B):\n    a: int", "it has no bases"),
        ("@dataclass(frozen=True, eq=False)\nclass A:\n    a: int", "is compared by value"),
        (
            "@dataclass(slots=True)\nclass A:\n    a: int = field(repr=False)",
            "what `field` is told",
        ),
        (
            "@dataclass(slots=True)\nclass A:\n    a: int | None = field(default_factory=int)",
            "what `field` is told",
        ),
        ("@dataclass(slots=True)\nclass A:\n    a: ClassVar[int] = 1", "no field of each object"),
        (
            "def f():\n    @dataclass(slots=True, kw_only=True)\n    class A:\n        a: int",
            "eq only",
        ),
    ],
)
def test_a_class_that_cannot_be_written_out_is_refused(
    build: ModuleType, source: str, said: str
) -> None:
    """Planted: each of them written out all the same."""
    with pytest.raises(ValueError, match=f"no constructor can be written for this: .*{said}"):
        build.with_constructors(source + "\n")


def test_all_that_is_compiled_can_be_written_so(build: ModuleType) -> None:
    """Planted: two constants in one line of the arbiter."""
    written = {}
    for package in ("arbiter", "simulator"):
        for path in sorted((REPO / "platform" / package).rglob("*.py")):
            name = str(path.relative_to(REPO / "platform"))
            if name not in build.INTERPRETED:
                source = path.read_text()
                new = build.with_constants(build.with_constructors(source))
                ast.parse(new)
                written[name] = len(new.splitlines()) - len(source.splitlines())
    assert len(written) > 60
    # Constructors stand in the empty line after their class, or after the last line of a module.
    assert set(written.values()) <= {0, 1}


CONSTANTS = '''
"""What it is."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TypeVar

A = 1 << 3
#: By number.
_NAMES: dict[int, str] = {
    A: "eight",
}
B: int = A  # as it is
Kind = tuple[int, int]
T = TypeVar("T")


def add(to: list[int], what: int) -> int:
    """Where it stands."""
    insort(to, what)
    Inner = Counter
    return bisect_left(to, Inner({what: what})[what])
'''


def test_constants_and_what_c_does_are_final_and_the_rest_is_as_it_was(build: ModuleType) -> None:
    """Planted: the type that a constant is told is lost; a name that is a type's becomes one; what
    a function imports or names does; lines move."""
    new = build.with_constants(CONSTANTS)
    changed = {
        old: now
        for old, now in zip(CONSTANTS.splitlines(), new.splitlines(), strict=True)
        if old != now
    }
    final = "from typing import Final"
    assert changed == {
        "from bisect import bisect_left, insort": (
            f"import bisect; {final}; bisect_left: Final = bisect.bisect_left;"
            " insort: Final = bisect.insort"
        ),
        "A = 1 << 3": f"{final}; A: Final = 1 << 3",
        "_NAMES: dict[int, str] = {": f"{final}; _NAMES: Final[dict[int, str]] = {{",
        "B: int = A  # as it is": f"{final}; B: Final[int] = A  # as it is",
    }
    known: dict[str, Any] = {}
    exec(compile(new, "sample", "exec"), known)
    assert (known["A"], known["_NAMES"], known["add"]([1, 3, 5], 3)) == (8, {8: "eight"}, 1)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from heapq import (\n    heappop,\n)", "line 1: names are imported in one line"),
        ("from heapq import heappop; x = 1", "line 1: names are imported in one line"),
        ("from heapq import heappop as pop", "names are imported in one line, as they are"),
        ("x = 1; A = 2", "line 1: a constant has a line of its own"),
        ("A: int = 1\nA = B = 2", "line 2: a constant has a line of its own"),
        ("a, B = 1, 2", "a constant has a line of its own"),
    ],
)
def test_a_constant_that_cannot_be_written_is_refused(
    build: ModuleType, source: str, said: str
) -> None:
    """Planted: each of them written all the same."""
    with pytest.raises(ValueError, match=said):
        build.with_constants(source + "\n")


@pytest.mark.parametrize(
    ("target", "is_refused"),
    [
        (Core, True),
        (several_pools, True),
        ("arbiter.several_pools.ROUNDS_MAX", True),
        ("arbiter.core.Core.cycle", True),
        (comparison, False),
        ("simulator.comparison.compare", False),
        (Path, False),
        (3, False),
    ],
)
def test_what_is_in_machine_code_is_known(
    monkeypatch: pytest.MonkeyPatch, target: object, is_refused: bool
) -> None:
    """Planted: modules, or names of what is in them, are taken."""
    for name in ("arbiter.core", "arbiter.several_pools"):
        monkeypatch.setattr(sys.modules[name], "__file__", "core.cpython-311-x86_64-linux-gnu.so")
    assert is_compiled(target) == is_refused
