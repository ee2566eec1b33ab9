"""The directives of a batch script, split into options as `sbatch` splits them.

The end of the directives and their quoting follow `_opt_batch_script` and `get_argument` in Slurm's
src/sbatch/opt.c; options follow getopt_long: unambiguous prefixes, `-HN2`, `-N2`, `-N 2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobs.submission.sbatch_notes import NOTE_TEXT_MAX, NotUnderstood
from jobs.submission.sbatch_options import SHORT, Option, Takes, option_named
from jobs.submission.sbatch_values import HIDDEN, without_values

#: The most directive lines of a text.
DIRECTIVES_MAX = 200
#: The most characters of a directive line that is read.
LINE_MAX = 4_096

#: sbatch reads #SLURM, too, with a complaint. It wants no space after the word.
_MAGIC = re.compile(r"#S(?:BATCH|LURM)")
#: Batch systems whose directives sbatch translates, and Tidegate does not.
_OTHER_MAGIC = re.compile(r"#(?:PBS|BSUB)\b")
#: The white space of C. A no-break space is a letter for sbatch.
_SPACE = " \t\n\v\f\r"
_PART = re.compile(rf"[{_SPACE}]*(?:packjob|hetjob)(?:[{_SPACE}]|\Z)", re.IGNORECASE)
#: Dashes that an editor or a web page puts in place of "-".
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_TYPESET = re.compile(rf"-?[{_DASHES}]+-?")
_ODD_SPACES = "\u00a0\u2007\u202f\u3000\ufeff\u200b"


class Line(NamedTuple):
    """A directive: its line number from 1, the line, and the options after the magic word.

    `first_command` is the number of the first command's line if the directive stands below it.
    `part` counts the separators of a heterogeneous job so far. `is_separator` is the separator
    itself. `is_foreign` is a directive of another batch system.
    """

    number: int
    text: str
    options: str
    first_command: int | None = None
    part: int = 0
    is_separator: bool = False
    is_foreign: bool = False


def directives(text: str) -> tuple[list[Line], bool]:
    """Return the directives of `text`, and whether it has more than are read."""
    found: list[Line] = []
    command, part = None, 0
    for number, line in enumerate(text.split("\n"), start=1):
        magic = _MAGIC.match(line)
        is_foreign = magic is None and command is None and _OTHER_MAGIC.match(line) is not None
        if magic is None and not is_foreign:
            bare = line.strip(_SPACE)
            if command is None and bare and not bare.startswith("#"):
                command = number
            continue
        if len(found) == DIRECTIVES_MAX:
            return found, True
        options = "" if magic is None else line[magic.end() :]
        is_separator = command is None and _PART.match(options) is not None
        part += is_separator
        found.append(Line(number, line, options, command, part, is_separator, is_foreign))
    return found, False


def text_of_note(line: Line) -> str:
    """Return the line as notes show it: with the names of --export, and not with its values.

    Notes reach readers who may not read the script.
    """
    options = line.options[:LINE_MAX]
    magic = line.text[: len(line.text) - len(line.options)]
    try:
        words = _words(options)
    except NotUnderstood:
        is_export = "--e" in options.translate(_UNQUOTED)
        return f"{magic} {HIDDEN}" if is_export else line.text[:NOTE_TEXT_MAX]
    shown, is_value = [], False
    for word in words:
        name, equals, value = word.partition("=")
        if is_value:
            shown.append(without_values(word))
            is_value = False
        elif len(name) > 2 and "--export".startswith(name):
            shown.append(f"{name}={without_values(value)}" if equals else name)
            is_value = not equals
        else:
            shown.append(word)
    text = line.text if shown == words else " ".join((magic, *shown))
    return text[:NOTE_TEXT_MAX]


#: Quotes and backslashes, which no word keeps.
_UNQUOTED = str.maketrans("", "", "\"'\\")


def options_of(text: str) -> Iterator[tuple[Option, str | None]]:
    """Yield the options of a directive with their values.

    Raises NotUnderstood at the first word that is no option, after those before it.
    """
    words = _words(text)
    at = 0
    while at < len(words):
        head = words[at]
        at += 1
        if head == "--" and at == len(words):
            return  # it ends the options
        for option, value in _options_in(head):
            if value is None and option.takes is Takes.VALUE:
                if at == len(words):
                    raise NotUnderstood(f"--{option.name} needs a value.")
                value = words[at]
                at += 1
            yield option, value


def _words(text: str) -> list[str]:
    """Split a directive into words: quotes, backslashes, and a comment from `#` on."""
    words: list[str] = []
    word: list[str] = []
    is_word = False  # an empty text in quotes is a word, too
    quote = ""
    is_escaped = False
    for character in text:
        if is_escaped and (quote or character not in _SPACE):
            word.append(character)
            is_word, is_escaped = True, False
        elif character == "\\":
            is_escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "\"'":
            quote, is_word = character, True
        elif character in _SPACE:
            is_escaped = False  # for sbatch, a backslash does not save a space
            if is_word:
                words.append("".join(word))
            word, is_word = [], False
        elif character == "#":
            break
        else:
            word.append(character)
            is_word = True
    if quote:
        raise NotUnderstood(f"A quote {quote} is left open; close it.")
    if is_word:
        words.append("".join(word))
    if "" in words:
        # For sbatch an empty text ends the line, and the option takes the next line's first word.
        raise NotUnderstood("An empty text in quotes is not read by sbatch; write a value.")
    return words


def _options_in(head: str) -> Iterator[tuple[Option, str | None]]:
    """Yield the options in a word. A value that is still None stands in the next word."""
    if head.startswith("--") and len(head) > 2:
        name, equals, value = head[2:].partition("=")
        option = option_named(name)
        if equals and option.takes is Takes.NOTHING:
            raise NotUnderstood(f"--{option.name} takes no value; write --{option.name}.")
        yield option, value if equals else None
    elif head.startswith("-") and len(head) > 1 and head[1] != "-":
        for at, letter in enumerate(head[1:], start=2):
            if letter not in SHORT:
                raise NotUnderstood(
                    f"-{letter} is not an option of sbatch; {_without_letter(head[at - 1 :])}."
                )
            option = SHORT[letter]
            if option.takes is not Takes.NOTHING:
                yield option, head[at:] or None
                return
            yield option, None
    else:
        raise NotUnderstood(_no_option(head))


def _without_letter(letters: str) -> str:
    """Return what to write in place of an unknown short option."""
    name = letters.partition("=")[0]
    return f"write --{letters[:59]}" if len(name) > 2 else "remove it"


def _no_option(word: str) -> str:
    """Return why `word` is no option, and what to write instead."""
    if _TYPESET.match(word):
        bare = _TYPESET.sub("", word, count=1)
        dashes = "-" if len(bare.partition("=")[0]) == 1 else "--"
        return f"{word[:60]!r} begins with a typographic dash; write {dashes}{bare[:60]}."
    if any(space in word for space in _ODD_SPACES):
        return f"{word[:60]!r} has a no-break space; write a plain space."
    if word.startswith(":"):
        return "A colon separates the parts of a heterogeneous job, which are not offered."
    return f"{word[:60]!r} is not an option; options begin with - or --."
