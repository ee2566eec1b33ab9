"""What is read of an sbatch text, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.job_builders import a_body
from jobs.submission.requests import read_job_request
from jobs.submission.sbatch import OPTIONS_MAX, parse_sbatch, unread_directives
from jobs.submission.sbatch_lines import DIRECTIVES_MAX, LINE_MAX
from jobs.submission.sbatch_notes import NotUnderstood
from jobs.submission.sbatch_options import OPTIONS, PYXIS
from jobs.submission.sbatch_values import seconds_of
from primitives.errors import InvalidRequest


def fields(*lines: str) -> dict[str, object]:
    return dict(parse_sbatch("#!/bin/bash\n" + "\n".join(lines) + "\nsrun train\n").fields)


ID = "0193508e-2f4c-7000-8000-000000000001"


def depends(condition: str) -> dict[str, str]:
    return {"id": ID, "condition": condition}


def verdicts(*lines: str) -> list[tuple[int, str]]:
    reading = parse_sbatch("#!/bin/bash\n" + "\n".join(lines) + "\nsrun train\n")
    return [(note.line, note.verdict.value) for note in reading.notes]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#SBATCH --job-name=bert", {"name": "bert"}),
        ("#SBATCH --job-name bert", {"name": "bert"}),
        ("#SBATCH -J bert", {"name": "bert"}),
        ("#SBATCH -Jbert", {"name": "bert"}),
        ('#SBATCH --job-name="two words"', {"name": "two words"}),
        ("#SBATCH --job-name='a # b'", {"name": "a # b"}),
        ("#SBATCH -J a'b'c", {"name": "abc"}),
        ("#SBATCH -J bert # the name", {"name": "bert"}),
        ("#SBATCH -J bert#1", {"name": "bert"}),
        ("#SBATCH -J bert\\#1", {"name": "bert#1"}),
        ("#SBATCH-N 2", {"nodes": 2}),
        ("#SBATCH -a 0-9%0", {"array": "0-9"}),
        ("#SBATCH --gpus-per-n 8", {"gpus_per_node": 8}),
        ("#SBATCH\t-N\t2", {"nodes": 2}),
        ("#SBATCH --gpus=16", {"gpus": 16}),
        ("#SBATCH -G 16", {"gpus": 16}),
        ("#SBATCH -G h100:16", {"gpus": 16, "gpu_type": "h100"}),
        ("#SBATCH --gpus-per-node=8", {"gpus_per_node": 8}),
        ("#SBATCH --gres=gpu:4", {"gpus_per_node": 4}),
        ("#SBATCH --gres=gpu", {"gpus_per_node": 1}),
        ("#SBATCH --gres=gpu:a100:4", {"gpus_per_node": 4, "gpu_type": "a100"}),
        ("#SBATCH --gres=gpu:a100", {"gpus_per_node": 1, "gpu_type": "a100"}),
        ("#SBATCH -N 4", {"nodes": 4}),
        ("#SBATCH --exclusive", {"whole_nodes": True}),
        ("#SBATCH -t 90", {"time_limit_s": 5_400}),
        ("#SBATCH --time=UNLIMITED", {"time_limit_s": None}),
        ("#SBATCH -p h100", {"partition": "h100"}),
        ("#SBATCH -q high", {"qos": "high"}),
        (
            "#SBATCH --signal=B:USR1@90",
            {"notice_signal": "USR1", "signal_ahead_s": 90, "signals_shell_only": True},
        ),
        ("#SBATCH --signal=SIGUSR2", {"notice_signal": "USR2", "signal_ahead_s": 60}),
        ("#SBATCH --signal=10@300", {"notice_signal": "USR1", "signal_ahead_s": 300}),
        ("#SBATCH --requeue", {"is_requeueable": True}),
        ("#SBATCH --no-requeue", {"is_requeueable": False}),
        ("#SBATCH --constraint=nvlink", {"features": ["nvlink"]}),
        ("#SBATCH -C nvlink&ib&nvlink", {"features": ["ib", "nvlink"]}),
        ('#SBATCH --constraint "a.b_c-1&ib"', {"features": ["a.b_c-1", "ib"]}),
        ("#SBATCH --container-image='nvcr.io#nvidia/x:1'", {"image": "nvcr.io#nvidia/x:1"}),
        ("#SBATCH --container-image /images/x.sqsh", {"image": "/images/x.sqsh"}),
        ("#SBATCH -H", {"held": True}),
        ("#SBATCH --array=0-9%3", {"array": "0-9%3"}),
        ("#SBATCH -a1,3,5-7", {"array": "1,3,5-7"}),
        (f"#SBATCH --dependency=afterok:{ID}", {"depends_on": [depends("succeeded")]}),
        (f"#SBATCH -d afterany:{ID}", {"depends_on": [depends("ended")]}),
        (
            f"#SBATCH -d AFTERNOTOK:{ID}:{ID},afterok:{ID}",
            {"depends_on": [depends("failed"), depends("failed"), depends("succeeded")]},
        ),
        ("#SBATCH --hold -N 2", {"held": True, "nodes": 2}),
        ("#SBATCH -HN2", {"held": True, "nodes": 2}),
    ],
)
def test_understood(line: str, expected: dict[str, object]) -> None:
    assert fields(line) == expected
    assert {verdict for _, verdict in verdicts(line)} == {"understood"}


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH -A physics",
        "#SBATCH --output=/dev/null",
        "#SBATCH -e none",
        "#SBATCH -D .",
        "#SBATCH --comment='for the paper'",
        "#SBATCH --mail-type=ALL",
        "#SBATCH --mail-user=a@example.org",
        "#SBATCH --export=NONE",
        "#SBATCH --export=ALL",
        "#SBATCH --mem=0",
        "#SBATCH --cpus-per-gpu=8",
        "#SBATCH --exclusive=user",
        "#SBATCH",
        "#SBATCH # nothing",
    ],
)
def test_ignored_with_a_note(line: str) -> None:
    assert fields(line) == {}
    assert verdicts(line) == [(2, "ignored")]


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --array=10-1",
        "#SBATCH --dependency=afterok:1",
        "#SBATCH --begin=soon",
        "#SBATCH --export==1",
        "#SBATCH --uid=0",
        "#SBATCH --wrap=id",
        "#SBATCH -w node1",
        "#SBATCH --no-such-option=1",
        "#SBATCH -Z",
        "#SBATCH train.sh",
        "#SBATCH --nodes=2-4-6",
        "#SBATCH --nodes=2-",
        "#SBATCH --nodes=",
        "#SBATCH -N",
        "#SBATCH --nodes=٤",
        "#SBATCH --gres=shard:1",
        "#SBATCH --time=1:2:3:4",
        "#SBATCH --time=soon",
        "#SBATCH --signal=KILL",
        '#SBATCH --job-name="open',
        "#SBATCHX",
        "#SBATCH:-N 2",
    ],
)
def test_refused_with_a_note(line: str) -> None:
    assert fields(line) == {}
    assert verdicts(line) == [(2, "refused")]


def test_parts_of_gpus_are_asked_for_in_other_words() -> None:
    (note,) = parse_sbatch("#!/bin/bash\n#SBATCH --gres=shard:h100:2\n").notes
    assert note.detail == (
        "No cluster gives shards here: ask for slices of GPUs by their type or pool "
        "(gpu:1g.10gb:2), or for a part of one in the field `gpus` (0.25), where a cluster gives "
        "parts."
    )
    assert fields("#SBATCH --gres=gpu:1g.10gb:2") == {"gpus_per_node": 2, "gpu_type": "1g.10gb"}
    assert fields("#SBATCH --gpus=1g.10gb:4") == {"gpus": 4, "gpu_type": "1g.10gb"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),
        ("5:30", 360),
        ("2:00:00", 7_200),
        ("1-", 86_400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:30:15", 131_460),
        ("0", None),
        ("0:00", None),
        ("-1", None),
        ("infinite", None),
        ("UNLIMITED", None),
    ],
)
def test_time_forms_of_slurm(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "-5", "1-2-3", "1:2:3:4", "1h", "٥", "5 ", "9" * 10])
def test_no_time(text: str) -> None:
    with pytest.raises(NotUnderstood):
        seconds_of(text)


def test_directives_end_at_the_first_command() -> None:
    text = "#!/bin/bash\n\n# a comment\n  # another\n#SBATCH -N 2\necho\n#SBATCH --nodes=9\n"
    reading = parse_sbatch(text)
    assert dict(reading.fields) == {"nodes": 2}
    assert [(n.line, n.verdict.value) for n in reading.notes] == [(5, "understood"), (7, "ignored")]


def test_only_lines_that_begin_with_the_word_are_directives() -> None:
    assert parse_sbatch(" #SBATCH -N 2\n# SBATCH -N 2\n##SBATCH -N 2\n#sbatch -N 2\n").notes == ()


def test_a_later_line_wins_and_the_earlier_one_is_told() -> None:
    reading = parse_sbatch("#SBATCH --gres=gpu:h100:4\n#SBATCH --gres=gpu:8\n")
    assert dict(reading.fields) == {"gpus_per_node": 8}
    assert [(n.line, n.verdict.value, n.detail) for n in reading.notes] == [
        (1, "ignored", "Line 2 says otherwise."),
        (2, "understood", "gpus_per_node = 8"),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["--ntasks-per-node=1", "--nodes=4"], {"nodes": 4, "ntasks_per_node": 1}),
        (["--ntasks=4", "--nodes=4"], {"nodes": 4, "ntasks": 4}),
        (
            ["--ntasks=4", "--ntasks-per-node=1"],
            {"nodes": 4, "ntasks": 4, "ntasks_per_node": 1},
        ),
        (["--ntasks=1"], {"ntasks": 1}),
        (["--ntasks=8"], {"ntasks": 8}),
        (["-N 2", "--ntasks-per-node=8"], {"nodes": 2, "ntasks_per_node": 8}),
    ],
)
def test_tasks_are_those_that_srun_starts(lines: list[str], expected: dict[str, object]) -> None:
    written = [f"#SBATCH {line}" for line in lines]
    assert fields(*written) == expected
    assert {verdict for _, verdict in verdicts(*written)} == {"understood"}


def test_every_directive_has_a_note_with_its_line_and_text() -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --begin=1x\n#SBATCH -o x\nhostname\n"
    assert [(n.line, n.text, n.verdict.value) for n in parse_sbatch(text).notes] == [
        (2, "#SBATCH -N 2", "understood"),
        (3, "#SBATCH --begin=1x", "refused"),
        (4, "#SBATCH -o x", "understood"),
    ]


def test_too_many_directives_are_refused() -> None:
    reading = parse_sbatch("#SBATCH -N 2\n" * (DIRECTIVES_MAX + 1))
    assert (reading.notes[0].line, reading.notes[0].verdict.value) == (0, "refused")
    assert len(reading.notes) == DIRECTIVES_MAX + 1


def test_a_plain_script_says_that_its_directives_are_not_read() -> None:
    assert [
        (n.line, n.verdict.value) for n in unread_directives("#!/bin/sh\n#SBATCH -N 2\nx\n")
    ] == [(2, "ignored")]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"afterok:{ID}?afterok:{ID}", "write , instead of ?."),
        (f"afterok:{ID}?singleton", "write , instead of ?."),
        (f"after:{ID}", "not for its start; write afterany."),
        (f"after:{ID}+5", "not for its start; write afterany."),
        (f"aftercorr:{ID}", "write afterok."),
        (f"expand:{ID}", "submit one job of the size that is needed."),
        ("afterok:1234", "'1234' is no id of a Tidegate job"),
        (f"afterok:{ID}_3", "is no id of a Tidegate job"),
        ("afterok", "'afterok' is no dependency; write afterok:ID"),
        (f"afterok:{ID},", "'' is no dependency"),
        (ID, "is no dependency"),
        (f"singleton:{ID}", "is no dependency; write afterok:ID"),
    ],
)
def test_dependencies_that_are_refused(value: str, reason: str) -> None:
    reading = parse_sbatch(f"#!/bin/bash\n#SBATCH -d {value}\nsrun train\n")
    assert dict(reading.fields) == {}
    (note,) = reading.notes
    assert note.verdict.value == "refused"
    assert reason in note.detail


@pytest.mark.parametrize(
    "value",
    [
        *("nvlink|ib", "nvlink*4", "[rack1|rack2]", "(a&b)|c", "a&", "&", "a&&b", "a,b"),
        *("nvlink&n\u00fc", "x" * 65, "a b"),
    ],
)
def test_only_features_that_all_nodes_have_are_understood(value: str) -> None:
    (note,) = parse_sbatch(f'#!/bin/bash\n#SBATCH --constraint="{value}"\n').notes
    assert (note.verdict.value, note.detail) == (
        "refused",
        f"{value[:40]!r} is no list of features; write names with & between them, such as "
        "nvlink&ib. Alternatives (|), counts (*) and brackets are not offered.",
    )


@pytest.mark.parametrize(
    ("option", "verdict"),
    [
        ("--container-mounts=/a:/b", "refused"),
        ("--container-workdir=/a", "refused"),
        ("--container-name=x", "refused"),
        ("--container-entrypoint", "refused"),
        ("--container=/bundle", "refused"),
        ("--container-mount-home", "ignored"),
        ("--no-container-remap-root", "ignored"),
    ],
)
def test_how_containers_are_set_up_is_not_the_job_s(option: str, verdict: str) -> None:
    assert verdicts(f"#SBATCH {option}") == [(2, verdict)]


def test_a_line_that_is_too_long_is_refused_by_its_length() -> None:
    """Planted: a line of any length that is read, with a copy of the word for each character,
    which took minutes here."""
    (note,) = parse_sbatch("#SBATCH -J " + "x" * (1 << 20) + "\n").notes
    assert (note.line, note.verdict.value, note.detail) == (
        1,
        "refused",
        "The line has 1,048,587 characters; at most 4,096 are read.",
    )
    assert len(note.text) == 200


def test_the_longest_lines_are_read() -> None:
    """Planted: LINE_MAX characters that are too many."""
    line = "#SBATCH -J ".ljust(LINE_MAX, "x")
    reading = parse_sbatch(f"{line}\n" * DIRECTIVES_MAX)
    assert reading.fields == {"name": line[11:]}
    assert [note.verdict.value for note in reading.notes] == [
        *["ignored"] * (DIRECTIVES_MAX - 1),
        "understood",
    ]


def test_letters_of_one_word_are_options_each() -> None:
    """Planted: a bundle whose last letter has no value, one that goes on after a dash."""
    reading = parse_sbatch("#SBATCH -HQJ x -vN2\n#SBATCH -v-nodes=4\n")
    assert reading.fields == {"held": True, "name": "x", "nodes": 2}
    assert reading.notes[-1].detail == "-- is not an option of sbatch; write ---nodes=4."


def test_more_options_than_are_read_are_refused_once() -> None:
    """Planted: a note for each of any number of options."""
    reading = parse_sbatch("#SBATCH -" + "v" * 4_000 + "\n" + "#SBATCH -N 2\n" * 3)
    assert len(reading.notes) == OPTIONS_MAX + 2
    assert (reading.notes[0].line, reading.notes[0].verdict.value, reading.notes[0].detail) == (
        0,
        "refused",
        "There are more than 500 options; the others were not read.",
    )
    assert reading.fields == {}
    whole = parse_sbatch("#SBATCH -" + "v" * OPTIONS_MAX + "\n")
    assert {note.verdict.value for note in whole.notes} == {"ignored"}


def test_many_other_resources_are_refused_together() -> None:
    """Planted: a note for each of any number of resources."""
    (note,) = parse_sbatch("#SBATCH --gres=" + "a," * 21 + "gpu:1\n").notes
    assert note.detail == "--gres names more than 20 other resources; remove them."


@pytest.mark.parametrize("value", ["0", "0-0", "0-4", "-0", "00"])
@pytest.mark.parametrize("more", ["", " -G 2", " --gpus-per-task=1 -n 2", " -c 2"])
def test_no_nodes_are_refused(value: str, more: str) -> None:
    """Planted: 0 nodes, by which the GPUs were divided."""
    reading = parse_sbatch(f"#SBATCH --nodes={value}{more}\n")
    assert reading.notes[0].verdict.value == "refused"
    assert reading.notes[0].detail == f"'{value}' has no nodes; a job takes 1 node at least."


VALUES = st.one_of(
    st.sampled_from(["0", "1", "2-4", "0-0", "8", "gpu:0", "gpu:h100:4", "h100:2", "4G", "0G"]),
    st.integers(0, 9).map(str),
    st.text(max_size=8),
)
SIZES = [
    *("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu"),
    *("gpus", "gpus-per-node", "gpus-per-task", "gres", "mem", "mem-per-cpu", "mem-per-gpu"),
]
OPTION_LINES = st.lists(
    st.tuples(st.sampled_from(sorted([*OPTIONS, *PYXIS])), VALUES).map(
        "#SBATCH --{0[0]}={0[1]}".format
    )
    | st.tuples(st.sampled_from(SIZES), VALUES).map("#SBATCH --{0[0]}={0[1]}".format)
    | st.text(max_size=20).map("#SBATCH {}".format),
    max_size=8,
)


@given(lines=OPTION_LINES)
def test_any_text_is_answered_with_notes(lines: list[str]) -> None:
    """Planted: --nodes=0, by which tasks and GPUs are divided."""
    reading = parse_sbatch("\n".join(lines))
    assert set(reading.sources) == set(reading.fields)


@pytest.mark.parametrize(
    ("value", "variables", "detail"),
    [
        ("A=1", {"A": "1"}, "environment = A; nothing of your shell's environment is passed on"),
        (
            "ALL,A=b=c,C=",
            {"A": "b=c", "C": ""},
            "environment = A, C; nothing of your shell's environment is passed on",
        ),
        # As sbatch 22.05 sets them.
        (
            "\"A=a,B='x,y','C=p,q'\"",
            {"A": "a", "B": "'x,y'", "C": "p,q"},
            "environment = A, B, C; nothing of your shell's environment is passed on",
        ),
        (
            "PATH,HOME",
            None,
            "nothing of your shell's environment is passed on; PATH has no value here: write "
            "PATH=VALUE; HOME has no value here: write HOME=VALUE",
        ),
        ("none", None, "nothing of your shell's environment is passed on"),
    ],
)
def test_exported_variables_are_the_jobs(
    value: str, variables: dict[str, str] | None, detail: str
) -> None:
    """Against: a comma in quotes that splits, quotes that stay around an item."""
    reading = parse_sbatch(f"#!/bin/sh\n#SBATCH --export={value}\n")
    assert reading.fields.get("environment") == variables
    assert [(note.verdict.value, note.detail) for note in reading.notes] == [
        ("understood" if variables else "ignored", detail)
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("-N 1 --export=A=s3cret,B -J x", "-N 1 --export=A=...,B -J x"),
        ("--expo \"A='s3,cret'\"", "--expo A=..."),
        ('"--export=A=1 s3cret" # c', "--export=A=..."),
        ('--ex"port=A=s3cret', "..."),
        ('--export="A=\'s3cret"', "--export=..."),
        ('-J "a b" # c', '-J "a b" # c'),
    ],
)
def test_notes_have_the_names_of_variables_and_no_values(line: str, shown: str) -> None:
    """Each option of the line has a note with all of it.

    Against: the line as it is; the values of an abbreviated option, and of a quoted word.
    """
    text = f"#!/bin/sh\n#SBATCH {line}\ntrue\n#SBATCH {line}\n"
    for notes in (parse_sbatch(text).notes, unread_directives(text)):
        assert notes
        assert {note.text for note in notes} == {f"#SBATCH {shown}"}


def test_variables_of_the_request_win_over_the_same_ones_of_the_text() -> None:
    """Against: a request with variables that drops those of the text."""
    text = "#!/bin/sh\n#SBATCH -G 1\n#SBATCH --export=A=1,B=2\ntrue\n"
    body = a_body(script=..., gpus=..., sbatch=text, environment={"B": "3", "C": "4"})
    assert read_job_request(body).environment == {"A": "1", "B": "3", "C": "4"}


def test_a_variable_that_no_job_may_set_is_refused_with_its_line() -> None:
    text = "#!/bin/sh\n#SBATCH -G 1\n#SBATCH --export=LD_PRELOAD=/x.so\ntrue\n"
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(script=..., gpus=..., sbatch=text))
    assert [error.pointer for error in refusal.value.errors] == ["/sbatch/LD_PRELOAD"]
    assert "line 3" in refusal.value.errors[0].detail


def test_folder_and_files_are_members() -> None:
    text = "#!/bin/sh\n#SBATCH -D /w -o logs/%x-%j.out -e e.%4t --open-mode=append\n"
    reading = parse_sbatch(text)
    assert reading.fields == {
        "folder": "/w",
        "output_file": "logs/%x-%j.out",
        "error_file": "e.%4t",
        "appends_output": True,
    }
    assert [note.detail for note in reading.notes] == [
        "folder = /w",
        "output_file = logs/%x-%j.out, beside the log",
        "error_file = e.%4t, beside the log",
        "appends_output = true",
    ]


def test_a_total_that_other_lines_give_is_told_in_its_number() -> None:
    """Against: "1 GPUs"."""
    text = "#!/bin/bash\n#SBATCH -N 1 --gpus=1 --gpus-per-node=1\nsrun train\n"
    told = [note.detail for note in parse_sbatch(text).notes]
    assert told == ["nodes = 1", "1 GPU, as the other lines say.", "gpus_per_node = 1"]
