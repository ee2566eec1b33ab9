"""Reading of tree files: the refusals of lines, and the bounds of files."""

from __future__ import annotations

import pytest

from treefile import reading
from treefile.reading import read
from treefile.rows import Format, LineError

HEAD = "kind,path,name\n"


@pytest.mark.parametrize(
    ("form", "text", "line", "sentence"),
    [
        pytest.param(
            Format.CSV,
            "kind,colour\n",
            1,
            "The first line must name columns of: ",
            id="first line",
        ),
        pytest.param(Format.CSV, HEAD + 'team,"a', 2, "This is not CSV: ", id="CSV"),
        pytest.param(
            Format.CSV,
            HEAD + "team,a/b,B,too,many\n",
            2,
            "A line has at most 3 cells, as the first.",
            id="cells",
        ),
        pytest.param(Format.CSV, HEAD + "tem,a/b,B\n", 2, "kind must be one of ", id="kind"),
        pytest.param(
            Format.CSV,
            HEAD + f"team,a/b,{'B' * 2_001}\n",
            2,
            "name has at most 2,000 characters. Shorten it.",
            id="long cell",
        ),
        pytest.param(
            Format.CSV,
            HEAD + "team,a/b,B\nteam,a/b,C\n",
            3,
            "Line 2 says this already. Remove one of both.",
            id="repeated row",
        ),
        pytest.param(Format.YAML, "nodes: [", 2, "This is not YAML: ", id="YAML"),
        pytest.param(
            Format.YAML,
            "nodes:\n- path: a\n  path: b\n",
            3,
            "The key path is given twice. Remove one.",
            id="repeated key",
        ),
        pytest.param(
            Format.YAML,
            "nodes:\n- &a {path: a}\n- *a\n",
            3,
            "Aliases are not supported. Repeat the text.",
            id="alias",
        ),
        pytest.param(
            Format.YAML,
            "nodes: [[[[[[[]]]]]]]",
            1,
            "Lists and mappings are nested too deep. Use the form of ",
            id="nesting",
        ),
    ],
)
def test_refused_lines(form: Format, text: str, line: int, sentence: str) -> None:
    """Against: a refusal of another line, or one that does not say what to do."""
    (error,) = read(text, form)[1]
    assert (error.line, error.sentence[: len(sentence)]) == (line, sentence)


def test_a_file_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: a bound that is off by one."""
    text = HEAD + "team,a/b,B\nteam,a/c,C\n"
    monkeypatch.setattr(reading, "ROWS_MAX", 2)
    monkeypatch.setattr(reading, "BYTES_MAX", len(text))
    assert read(text, Format.CSV)[1] == []
    monkeypatch.setattr(reading, "ROWS_MAX", 1)
    assert read(text, Format.CSV)[1] == [LineError(3, "A file has at most 1 rows. Split it.")]
    monkeypatch.setattr(reading, "BYTES_MAX", len(text) - 1)
    (error,) = read(text, Format.CSV)[1]
    assert (error.line, error.sentence[:20]) == (0, "A file has at most 3")
