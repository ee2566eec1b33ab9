"""Writes documents as YAML that `manifests.documents` reads back as the same values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from manifests.documents import TEXT_BYTES_MAX, Document, Unreadable, plain_value

#: Lines are not folded: a text in quotes or without them stays on one line.
_WIDTH = 1 << 20
#: Line breaks of YAML 1.1, which a text without quotes does not keep.
_OTHER_BREAKS = ("\r", "\x85", "\u2028", "\u2029")


class _Writer(yaml.SafeDumper):
    """Writes each value in full. Aliases would need the same anchors when it is read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(writer: _Writer, text: str) -> yaml.Node:
    """Return the node of a text: in quotes where our reader would take it for something else."""
    is_odd = plain_value(text) != text or any(mark in text for mark in _OTHER_BREAKS)
    style = '"' if is_odd else "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _text)


def written(documents: Iterable[Document]) -> str:
    """Return `documents` as YAML. Raises Unreadable beyond the bounds of a text."""
    found = list(documents)
    if sum(_size(one.value) for one in found) > TEXT_BYTES_MAX:
        raise Unreadable(
            0, f"has more than {TEXT_BYTES_MAX:,} bytes with its aliases; give one job a file"
        )
    text = "---\n".join(yaml_text(one.value) for one in found)
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise Unreadable(0, f"has more than {TEXT_BYTES_MAX:,} bytes as a Job; make it shorter")
    return text


def yaml_text(value: Any) -> str:
    """Return `value` as a document of YAML. Texts with several lines become literal blocks."""
    text: str = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def _size(value: Any) -> int:
    """Return the characters of all texts in `value`, those behind aliases each time."""
    if isinstance(value, dict):
        return sum(len(name) + _size(part) for name, part in value.items())
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str) else 1
