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

#: What mypyc has no C for, a class of exceptions and code that is made at run time; and what reads
#: and writes files.
INTERPRETED = {
    *("arbiter/errors.py", "arbiter/record.py", "simulator/comparison.py"),
    *("simulator/picture.py", "simulator/policy_file.py", "simulator/quality.py"),
    *("simulator/report.py", "simulator/traces.py"),
}

#: What is recorded of a cycle is laid out by the types of its fields.
RECORDED = {"arbiter/decisions.py", "arbiter/policy.py", "arbiter/snapshot.py"}

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

    Raises ValueError for a class that this is not known for.
    """
    lines = source.splitlines()
    for cls in ast.parse(source).body:
        if not isinstance(cls, ast.ClassDef):
            continue
        decorated = [
            one.lineno - 1
            for one in cls.decorator_list
            if isinstance(one, ast.Call) and ast.unparse(one.func) == "dataclass"
        ]
        for at in decorated:
            line = lines[at].replace("frozen=True", "unsafe_hash=True")
            lines[at] = line.replace("dataclass(", "dataclass(init=False, ")
            end = cls.end_lineno or 0
            if lines[end : end + 1] not in ([], [""]):
                raise ValueError(f"line {end + 1}: a data class is followed by an empty line")
            lines[end : end + 1] = [_constructor(cls)]
    return "\n".join((*lines, ""))


def _constructor(cls: ast.ClassDef) -> str:
    """`__init__` of a data class, in one line."""
    taken, sets = ["self"], []
    for field in cls.body:
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        name, kind, value = field.target.id, ast.unparse(field.annotation), field.value
        given = name
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
            told = {one.arg: ast.unparse(one.value) for one in value.keywords}
            if told == {"init": "False"}:
                continue
            if told.keys() == {"default_factory"}:
                taken.append(f"{name}: {kind} | None = None")
                given = f"{told['default_factory']}() if {name} is None else {name}"
            elif told.keys() == {"default"}:
                taken.append(f"{name}: {kind} = {told['default']}")
            else:
                raise ValueError(f"line {field.lineno}: no constructor is known for such a field")
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
        source = with_constructors(path.read_text())
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
