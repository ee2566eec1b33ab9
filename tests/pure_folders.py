"""The folders of the tests that import no Django; as a program it prints them for make."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
#: `tests/unit/test_pure_tests.py` holds them to it.
PURE = tuple(
    HERE / folder
    for folder in (
        "property",
        "scenarios",
        "unit/arbiter",
        "unit/batch",
        "unit/credits",
        "unit/manifests",
        "unit/primitives",
        "unit/simulator",
    )
)

if __name__ == "__main__":
    print(*(folder.relative_to(HERE.parent) for folder in PURE))
