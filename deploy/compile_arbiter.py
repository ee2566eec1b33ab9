"""Compile the arbiter and the simulator in the working folder, which has a copy of them and of what
they import.

deploy/bootstrap.py calls this in .venv. Mypyc makes C of the same sources, by their types: what it
asks of them is in CONTRIBUTING.md.
"""

import ast
from pathlib import Path
from shutil import rmtree

from mypyc.build import mypycify
from setuptools import setup

#: What mypyc has no C for, classes of exceptions and code that is made at run time; and what a run
#: of the simulator asks once, which is quick enough.
INTERPRETED = {
    *("arbiter/errors.py", "arbiter/record.py", "simulator/comparison.py"),
    *("simulator/picture.py", "simulator/policy_file.py", "simulator/quality.py"),
    *("simulator/report.py", "simulator/traces.py"),
}

#: What is recorded of a cycle is laid out by the types of its fields.
RECORDED = {"arbiter/decisions.py", "arbiter/policy.py", "arbiter/snapshot.py"}

#: Modules of which functions only are imported by name.
C_MODULES = {"bisect", "heapq"}
_IMPORT = "from typing import Final"

#: Nobody calls a function of it from outside, so that the compiler may put one into another. What a
#: compiler of tomorrow warns of is no error.
OPTIONS = ["-fvisibility=hidden", "-fno-semantic-interposition", "-Wno-error"]


def with_types(source: str) -> str:
    """The same, and at its end the types of all fields as they are written. Mypyc keeps the
    outermost word of each only."""
    told = [
        f"vars({cls.name})['__annotations__'][{field.target.id!r}] ="
        f" {ast.unparse(field.annotation)!r}\n"
        for cls in ast.parse(source).body
        if isinstance(cls, ast.ClassDef)
        for field in cls.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]
    return "".join((source, *told))


def with_constructors(source: str) -> str:
    """The same with the constructors of data classes written out, line for line where it was.

    Those that `dataclass` makes are interpreted and, where a class is frozen, set each field by a
    call; and without one mypyc cannot tell that a field is always there. Compiled, nothing is
    frozen: that nobody sets a field is what mypy has seen to.

    Raises ValueError for a class of which it is not known here how it would be made.
    """
    lines = source.splitlines()
    for cls in ast.walk(ast.parse(source)):
        if not isinstance(cls, ast.ClassDef):
            continue
        for decorator in cls.decorator_list:
            if ast.unparse(decorator).partition("(")[0].endswith("dataclass"):
                end = cls.end_lineno or 0
                if lines[end : end + 1] not in ([], [""]):
                    raise _unknown(cls, f"line {end + 1}, which follows it, is to be empty")
                lines[decorator.lineno - 1] = f"@{_decorator(cls, decorator)}"
                lines[end : end + 1] = [_constructor(cls)]
    return "\n".join((*lines, ""))


def with_constants(source: str) -> str:
    """The same with names in capitals, and functions of `C_MODULES`, as constants, line for line.

    Others are looked up by name wherever they are used, as somebody could have changed them. Mypy
    refuses a compiled module that does change one; nobody else is to.

    Raises ValueError where it is not known here how one would be written.
    """
    lines = source.splitlines()
    for node in ast.parse(source).body:
        at = node.lineno - 1
        if isinstance(node, ast.ImportFrom) and node.module in C_MODULES:
            if lines[at] != ast.unparse(node) or any(one.asname for one in node.names):
                raise ValueError(f"line {node.lineno}: names are imported in one line, as they are")
            found = [f"{one.name}: Final = {node.module}.{one.name}" for one in node.names]
            lines[at] = "; ".join((f"import {node.module}", _IMPORT, *found))
            continue
        if isinstance(node, ast.AnnAssign):
            targets, told = [node.target], ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar("):
            targets, told = node.targets, ""
        else:
            continue
        named = [one.id for top in targets for one in ast.walk(top) if isinstance(one, ast.Name)]
        if any(map(str.isupper, named)):
            begin = f"{named[0]}: {told} = " if told else f"{named[0]} = "
            if len(named) > 1 or not lines[at].startswith(begin):
                raise ValueError(f"line {node.lineno}: a constant has a line of its own")
            final = f"Final[{told}]" if told else "Final"
            lines[at] = f"{_IMPORT}; {named[0]}: {final} = {lines[at][len(begin) :]}"
    return "\n".join((*lines, ""))


def _unknown(node: ast.ClassDef | ast.AnnAssign, what: str) -> ValueError:
    return ValueError(f"line {node.lineno}: no constructor can be written for this: {what}")


def _decorator(cls: ast.ClassDef, decorator: ast.expr) -> str:
    """What stands above the class instead."""
    if not isinstance(decorator, ast.Call) or decorator.lineno != decorator.end_lineno:
        raise _unknown(cls, "it is @dataclass(...), in one line")
    told = {one.arg or "**": ast.unparse(one.value) for one in decorator.keywords}
    if cls.bases or told.keys() - {"frozen", "slots", "order", "eq"}:
        raise _unknown(cls, "it has no bases, and of @dataclass frozen, slots, order and eq only")
    if told.pop("frozen", "False") == "True":
        if "eq" in told:
            raise _unknown(cls, "what is frozen is compared by value")
        told["unsafe_hash"] = "True"
    words = ", ".join(f"{name}={value}" for name, value in told.items())
    return f"dataclass(init=False, {words})"


def _constructor(cls: ast.ClassDef) -> str:
    """`__init__` of a data class, in one line."""
    taken, sets = ["self"], []
    for field in cls.body:
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        name, kind, value = field.target.id, ast.unparse(field.annotation), field.value
        given = name
        if "ClassVar" in kind or "InitVar" in kind:
            raise _unknown(field, "it is no field of each object")
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
            told = {one.arg: ast.unparse(one.value) for one in value.keywords}
            if told == {"init": "False"}:
                continue
            if told.keys() == {"default_factory"} and "None" not in kind:
                taken.append(f"{name}: {kind} | None = None")
                given = f"({told['default_factory']})() if {name} is None else {name}"
            elif told.keys() == {"default"}:
                taken.append(f"{name}: {kind} = {told['default']}")
            else:
                raise _unknown(field, "what `field` is told")
        else:
            taken.append(f"{name}: {kind}" + ("" if value is None else f" = {ast.unparse(value)}"))
        sets.append(f"self.{name} = {given}")
    if any(isinstance(one, ast.FunctionDef) and one.name == "__post_init__" for one in cls.body):
        sets.append("self.__post_init__()")
    return f"    def __init__({', '.join(taken)}) -> None: {'; '.join(sets)}"


def main() -> None:
    """Compile both, and leave only them."""
    sources = sorted([*Path("arbiter").rglob("*.py"), *Path("simulator").rglob("*.py")])
    compiled = [path for path in sources if str(path) not in INTERPRETED]
    for path in compiled:
        source = with_constants(with_constructors(path.read_text()))
        path.write_text(with_types(source) if str(path) in RECORDED else source)
    # None of the project's own settings: their plugins are for what is not compiled.
    modules = mypycify(["--config-file=", "--strict", *map(str, compiled)])
    for module in modules:
        module.extra_compile_args = [*module.extra_compile_args, *OPTIONS]
    setup(
        name="tidegate-arbiter",
        packages=[],
        ext_modules=modules,
        script_args=["--quiet", "build_ext", "--inplace"],
    )
    for left_over in ("build", "primitives", ".mypy_cache"):
        rmtree(left_over, ignore_errors=True)


if __name__ == "__main__":
    main()
