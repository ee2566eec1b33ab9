"""Compile the arbiter in the working folder, which has a copy of it and of what it imports.

deploy/bootstrap.py calls this in .venv. Mypyc makes C of the same sources, by their types: what it
asks of them is in CONTRIBUTING.md.
"""

import ast
from pathlib import Path
from shutil import rmtree

from mypyc.build import mypycify
from setuptools import setup

#: What mypyc has no C for: a class of exceptions, and code that is made at run time.
INTERPRETED = {"decided", "record"}

#: What is recorded of a cycle is laid out by the types of its fields.
RECORDED = {"decisions", "policy", "snapshot"}

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


def main() -> None:
    """Compile `arbiter`, and leave only that."""
    sources = sorted(Path("arbiter").glob("*.py"))
    for path in sources:
        if path.stem in RECORDED:
            path.write_text(with_types(path.read_text()))
    compiled = [str(path) for path in sources if path.stem not in INTERPRETED]
    # None of the project's own settings: their plugins are for what is not compiled.
    modules = mypycify(["--config-file=", "--strict", *compiled])
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
