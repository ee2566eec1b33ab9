"""Command lines of Slurm's programs, as their getopt reads them.

Long options may be written by any beginning that only one of them has. The first word that is no
option ends the options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum


class Refused(Exception):
    """The command cannot be run here; its text is the sentence for the user."""


class Argument(Enum):
    """The ways in which an option has a value."""

    NONE = 0
    REQUIRED = 1
    OPTIONAL = 2


#: By long name: the short name ("" without one), and whether it has a value.
Options = Mapping[str, tuple[str, Argument]]


def read_command_line(
    program: str, options: Options, words: Sequence[str]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options of `program` with their values, in their order, and the words after them.

    The value of an option without one is "". Raises Refused for an option that is unknown or
    ambiguous, or that lacks its value.
    """
    reader = _Reader(program, options, words)
    reader.read()
    return reader.found, reader.rest


class _Reader:
    def __init__(self, program: str, options: Options, words: Sequence[str]) -> None:
        self.program = program
        self.options = options
        self.shorts = {short: name for name, (short, _) in options.items() if short}
        self.found: list[tuple[str, str]] = []
        self.rest = list(words)

    def read(self) -> None:
        while self.rest and self.rest[0].startswith("-") and self.rest[0] != "-":
            word = self.rest.pop(0)
            if word == "--":
                break
            if word.startswith("--"):
                self._read_long(word[2:])
            else:
                self._read_short(word[1:])

    def _read_long(self, word: str) -> None:
        typed, equals, value = word.partition("=")
        name = self._long_name(typed)
        argument = self.options[name][1]
        if argument is Argument.NONE and equals:
            raise Refused(f"option --{name} takes no value, and got {value!r}.")
        if argument is Argument.REQUIRED and not equals:
            value = self._next(name)
        self.found.append((name, value))

    def _long_name(self, typed: str) -> str:
        if typed in self.options:
            return typed
        names = sorted(name for name in self.options if name.startswith(typed))
        if not names:
            raise Refused(f"--{typed} is not an option of {self.program}.")
        if len(names) > 1:
            raise Refused(f"--{typed} may mean {' or '.join(f'--{name}' for name in names)}.")
        return names[0]

    def _read_short(self, letters: str) -> None:
        while letters:
            letter, letters = letters[0], letters[1:]
            name = self.shorts.get(letter)
            if name is None:
                raise Refused(f"-{letter} is not an option of {self.program}.")
            argument = self.options[name][1]
            if argument is Argument.REQUIRED:
                letters = letters or self._next(name)
            if argument is not Argument.NONE:
                self.found.append((name, letters))
                return
            self.found.append((name, ""))

    def _next(self, name: str) -> str:
        if not self.rest:
            raise Refused(f"option --{name} needs a value.")
        return self.rest.pop(0)
