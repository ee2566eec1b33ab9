"""Fields of a document by their paths, read with their types. Odd ones become refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal
from typing import Any

from manifests.documents import Document, Path
from manifests.findings import Findings, Verdict

_WHOLE_MAX = (1 << 31) - 1
#: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_QUANTITY = re.compile(
    r"\+?([0-9]{1,15}(?:\.[0-9]{0,9})?)(?:(n|u|m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)|[eE]([+-]?[0-9]{1,2}))?",
    re.ASCII,
)
_FACTORS = {
    **{suffix: Decimal(10) ** power for suffix, power in (("n", -9), ("u", -6), ("m", -3))},
    **{
        suffix: Decimal(1_000) ** power
        for power, suffix in enumerate(("", "k", "M", "G", "T", "P"))
    },
    **{f"{suffix}i": Decimal(1_024) ** power for power, suffix in enumerate("KMGTP", 1)},
}


class Field:
    """A field of a document: its value, or None where there is none, and where it is."""

    def __init__(
        self, document: Document, findings: Findings, what: str, path: Path = (), value: Any = None
    ) -> None:
        self.path = path
        self.value = value
        self._document = document
        self._findings = findings
        self._what = what

    @property
    def where(self) -> str:
        """The document, its kind and the path, as people write it."""
        text = path_text(self.path)
        return f"document {self._document.number}, {self._what}" + (f": {text}" if text else "")

    def refuse(self, detail: str) -> None:
        """Refuse the manifest because of this field. `detail` says what to write."""
        self._add(Verdict.REFUSED, detail)

    def ignore(self, detail: str) -> None:
        """Say that this field does not count, and what does."""
        self._add(Verdict.IGNORED, detail)

    def note(self, detail: str) -> None:
        """Say what this field means here."""
        self._add(Verdict.UNDERSTOOD, detail)

    def _add(self, verdict: Verdict, detail: str) -> None:
        self._findings.add(self._document.line_of(self.path), self.where, verdict, detail)

    def at(self, *path: str) -> Field:
        """Return the field at `path` below this one. A part of a wrong type is refused."""
        found = self
        for name in path:
            value = found.value
            if value is not None and not isinstance(value, dict):
                found.refuse("must be a mapping")
                value = None
            found = found._below(name, None if value is None else value.get(name))
        return found

    def items(self) -> Iterator[tuple[str, Field]]:
        """Return the fields of this mapping by name. Another type is refused."""
        if self.value is not None and not isinstance(self.value, dict):
            self.refuse("must be a mapping")
            return
        for name, value in (self.value or {}).items():
            yield name, self._below(name, value)

    def each(self) -> Iterator[Field]:
        """Return the elements of this list. Another type is refused."""
        if self.value is not None and not isinstance(self.value, list):
            self.refuse("must be a list")
            return
        for number, value in enumerate(self.value or ()):
            yield self._below(number, value)

    def _below(self, step: str | int, value: Any) -> Field:
        return Field(self._document, self._findings, self._what, (*self.path, step), value)

    @property
    def is_given(self) -> bool:
        """Return whether it has a value."""
        return self.value is not None

    def text(self) -> str | None:
        """Return the text; None without one."""
        if self.value is None or isinstance(self.value, str):
            return self.value
        self.refuse("must be a text; put it in quotes")
        return None

    def flag(self) -> bool | None:
        """Return the boolean; None without one."""
        if self.value is None or isinstance(self.value, bool):
            return self.value
        self.refuse("must be true or false")
        return None

    def whole(self, least: int = 0) -> int | None:
        """Return the whole number of at least `least`; None without one."""
        value = self.value
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not least <= value <= _WHOLE_MAX
        ):
            self.refuse(f"must be a whole number from {least} to {_WHOLE_MAX:,}")
            return None
        return value

    def texts(self) -> dict[str, str]:
        """Return the texts by name, such as labels."""
        found = {}
        for name, one in self.items():
            if (value := one.text()) is not None:
                found[name] = value
        return found

    def quantity(self) -> Decimal | None:
        """Return the quantity, with suffix or without; None without one."""
        if self.value is None:
            return None
        found = quantity_of(self.value)
        if found is None:
            self.refuse("must be a quantity, such as 8, 500m or 64Gi")
        return found

    def scaled(self, factor: int = 1) -> int | None:
        """Return `factor` times the quantity as a whole number, rounded up; None without one."""
        found = self.quantity()
        if found is None:
            return None
        return int((found * factor).to_integral_value(ROUND_CEILING))


def path_text(path: Path) -> str:
    """Return the path as people write it: `spec.containers[0].image`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def quantity_of(value: Any) -> Decimal | None:
    """Return the quantity, with suffix or without; None for another value."""
    read = None if isinstance(value, bool | dict | list) else _QUANTITY.fullmatch(str(value))
    if read is None:
        return None
    digits, suffix, exponent = read.groups()
    return Decimal(digits) * _FACTORS[suffix or ""] * Decimal(10) ** int(exponent or 0)
