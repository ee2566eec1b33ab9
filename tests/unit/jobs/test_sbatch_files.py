"""Job files of many people, each written anew after a public one, and the right reading of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.job_builders import a_body
from jobs.submission.requests import read_job_request
from jobs.submission.sbatch import SbatchReading, parse_sbatch
from primitives.errors import InvalidRequest

FILES = Path(__file__).parents[2] / "recordings" / "sbatch_files"


def reading_of(name: str) -> SbatchReading:
    return parse_sbatch((FILES / f"{name}.sbatch").read_text(encoding="utf-8"))


#: By file: the members of the request, and the tasks in all and on a node.
READ: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "torchtitan": (
        {
            "ntasks": 4,
            "cpus_per_task": 12,
            "name": "pretrain_multi",
            "nodes": 4,
            "gpus_per_node": 8,
            "cpus_per_node": 12,
            "partition": "train",
        },
        (4, 1),
    ),
    "aws_megatron": ({"name": "megatron_pretrain", "nodes": 2, "whole_nodes": True}, (2, 1)),
    "olmo_lumi": (
        {
            "output_file": "/scratch/project_1/logs/%j.log",
            "ntasks_per_node": 8,
            "cpus_per_task": 6,
            "name": "lm-7b",
            "nodes": 8,
            "gpus_per_node": 8,
            "cpus_per_node": 48,
            "time_limit_s": 900,
            "partition": "standard-g",
        },
        (64, 8),
    ),
    "ml_eng_torchrun": (
        {
            "output_file": "%x-%j.out",
            "ntasks_per_node": 1,
            "cpus_per_task": 96,
            "name": "torchrun-launcher",
            "nodes": 2,
            "gpus_per_node": 8,
            "cpus_per_node": 96,
            "time_limit_s": 600,
            "partition": "xyz-cluster",
        },
        (2, 1),
    ),
    "skynet_overcap": (
        {
            "output_file": "logs.out",
            "error_file": "logs.err",
            "name": "overcap",
            "gpus_per_node": 1,
            "partition": "short",
            "notice_signal": "USR1",
            "signal_ahead_s": 600,
            "qos": "overcap",
        },
        (1, 1),
    ),
    "jlu_gb": (
        {
            "output_file": "/scratch/logs/%A-%a.log",
            "ntasks": 1,
            "cpus_per_task": 8,
            "name": "PreTrain",
            "gpus_per_node": 1,
            "cpus_per_node": 8,
            "memory_mib_per_node": 64 << 10,
            "time_limit_s": 3 * 86_400,
            "partition": "k2-gpu",
            "notice_signal": "USR1",
            "signal_ahead_s": 90,
        },
        (1, 1),
    ),
    "sense_tasks_no_nodes": (
        {
            "ntasks": 8,
            "ntasks_per_node": 4,
            "nodes": 2,
            "gpus_per_node": 4,
            "time_limit_s": 7_200,
            "partition": "llm",
        },
        (8, 4),
    ),
    "raw_ovd_late": ({}, (1, 1)),
    "ephemeral_array": (
        {
            "output_file": "param_search.out",
            "ntasks": 1,
            "cpus_per_task": 4,
            "array": "0-59%15",
            "gpus_per_node": 1,
            "cpus_per_node": 4,
            "memory_mib_per_node": 16 << 10,
            "time_limit_s": 12 * 3_600,
            "partition": "ephemeral",
            "qos": "ephemeral",
        },
        (1, 1),
    ),
    "ray_alias_tasks_per_node": (
        {
            "ntasks_per_node": 1,
            "cpus_per_task": 5,
            "name": "ray",
            "nodes": 4,
            "gpus_per_node": 2,
            "cpus_per_node": 5,
            "time_limit_s": 1_800,
        },
        (4, 1),
    ),
    "csc_tasks_two_nodes": (
        {
            "output_file": "gpu_job.out.%j",
            "error_file": "gpu_job.err.%j",
            "ntasks": 4,
            "ntasks_per_node": 2,
            "name": "gpu_job",
            "nodes": 2,
            "gpus_per_node": 2,
            "gpu_type": "k80",
            "time_limit_s": 300,
            "partition": "gpu",
        },
        (4, 2),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_means_what_its_author_meant(name: str) -> None:
    """Planted: --ntasks without nodes, --gpus-per-task times nothing, 64GB, --tasks-per-node."""
    reading = reading_of(name)
    fields, tasks = READ[name]
    assert reading.fields == fields
    assert (reading.shape.tasks, reading.shape.tasks_per_node) == tasks
    assert "refused" not in {note.verdict for note in reading.notes}


def test_every_directive_of_every_file_is_told() -> None:
    files = sorted(FILES.glob("*.sbatch"))
    assert {file.stem for file in files} == {*READ, "rodent_hetjob"}
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines = [n for n, line in enumerate(text.split("\n"), 1) if line.startswith("#SBATCH")]
        assert sorted({note.line for note in parse_sbatch(text).notes}) == lines


def test_a_heterogeneous_job_is_refused_by_that_name() -> None:
    """Planted: a separator that is a word like any other."""
    notes = [(n.line, n.verdict.value, n.detail) for n in reading_of("rodent_hetjob").notes]
    assert notes[-2:] == [
        (
            3,
            "refused",
            "Heterogeneous jobs (hetjob) are not offered: submit each part as a job of its own, or "
            "ask for nodes of one size.",
        ),
        (4, "ignored", "It belongs to part 2 of a heterogeneous job."),
    ]
    assert {verdict for _, verdict, _ in notes[:-2]} == {"understood"}


def refusal_of(text: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(script=..., gpus=..., sbatch=text))
    return refusal.value


def test_without_gpus_the_lines_are_told_too() -> None:
    """Planted: a refusal without notes."""
    refusal = refusal_of((FILES / "raw_ovd_late.sbatch").read_text(encoding="utf-8"))
    assert [(error.pointer, error.code) for error in refusal.errors] == [("/gpus", "required")]
    assert [(note["line"], note["verdict"], note["detail"]) for note in refusal.data["notes"]] == [
        (
            line,
            "ignored",
            "It follows the first command, where sbatch does not read it either. Move it above "
            "line 3.",
        )
        for line in range(5, 13)
    ]


def test_without_gpus_refused_lines_are_errors_too() -> None:
    """Planted: errors of the members alone."""
    refusal = refusal_of("#!/bin/sh\n#SBATCH \u2013gpus=2\n#SBATCH --begin=soon\ntrue\n")
    assert [(error.pointer, error.detail) for error in refusal.errors][1:] == [
        (
            "/sbatch",
            "line 2: #SBATCH \u2013gpus=2: '\u2013gpus=2' begins with a typographic dash; write "
            "--gpus=2.",
        ),
        (
            "/sbatch",
            "line 3: #SBATCH --begin=soon: 'soon' is no time to begin; write now+2hours, 16:00, "
            "tomorrow or 2027-01-20T08:00:00.",
        ),
    ]


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("\u2013nodes=2", "'\u2013nodes=2' begins with a typographic dash; write --nodes=2."),
        ("\u2013N 2", "'\u2013N' begins with a typographic dash; write -N."),
        ("\u00a0--nodes=2", "'\\xa0--nodes=2' has a no-break space; write a plain space."),
        ("nodes=2", "'nodes=2' is not an option; options begin with - or --."),
        ("-gres=gpu:1", "-g is not an option of sbatch; write --gres=gpu:1."),
        ("--Nodes=2", "--Nodes is not an option of sbatch; write --nodes."),
        ("--gpu-per-node=2", "--gpu-per-node is not an option of sbatch; write --gpus-per-node."),
        ("--mpi=pmix", "--mpi is an option of srun; write it after srun in the script."),
        ("--mem-p=1G", "--mem-p is ambiguous; write one of --mem-per-cpu, --mem-per-gpu."),
        ("--open-mode=x", "--open-mode takes append or truncate."),
        ("--export-file=e", "Name the variables: --export=NAME=VALUE."),
        ("--export==1", "'=1' names no variable; write NAME=VALUE."),
        ('--export="A=\'1"', "A quote ' is left open; close it."),
        ("-J ''", "An empty text in quotes is not read by sbatch; write a value."),
        ("-J", "--job-name needs a value."),
        ("--hold=1", "--hold takes no value; write --hold."),
        ("-G 2 --gres=gpu:1 -N 1", "2 GPUs are not 1 on each of 1 nodes; keep one."),
        ("--gpus-per-task=2", "Say how many tasks there are, with --ntasks."),
        ("--gres=gpu:a100:1 -G h100:1", "A job names one kind of GPU; see --gres."),
        ("--gres=gpu:a100:1 -G 1", "A job names its type in each line, or in none; see --gres."),
        ("--gres=gpu:1,mps:5", "No cluster gives MPS shares here"),
        (
            "--container-image=nvcr.io#nvidia/x:1",
            "sbatch ends a line at #: put the name of the image in quotes.",
        ),
    ],
)
def test_a_refused_line_says_what_to_write_instead(line: str, detail: str) -> None:
    refused = [
        note.detail
        for note in parse_sbatch(f"#!/bin/sh\n#SBATCH {line}\n").notes
        if note.verdict == "refused"
    ]
    assert len(refused) == 1
    assert refused[0].startswith(detail)


def test_other_resources_are_told_beside_the_gpus() -> None:
    reading = parse_sbatch("#!/bin/sh\n#SBATCH --gres=gpu:2,lscratch:10\n")
    assert reading.fields == {"gpus_per_node": 2}
    assert [(note.line, note.verdict.value, note.detail) for note in reading.notes] == [
        (2, "understood", "gpus_per_node = 2"),
        (
            2,
            "ignored",
            "'lscratch:10' is not handed out by Tidegate; the job gets what the node has.",
        ),
    ]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("--gres=gpu:1", {"gpus_per_node": 1}),
        ("--gres=gpu:0", {}),
        ("-c 8", {"cpus_per_node": 8, "cpus_per_task": 8}),
    ],
)
def test_exclusive_is_whole_nodes_only_without_another_size(
    line: str, fields: dict[str, int]
) -> None:
    """Planted: whole nodes beside --gres=gpu:0."""
    reading = parse_sbatch(f"#!/bin/sh\n#SBATCH --exclusive\n#SBATCH {line}\n")
    assert reading.fields == fields
    assert (reading.notes[0].verdict.value, reading.notes[0].detail) == (
        "ignored",
        "Ask for all GPUs of a node to have it alone.",
    )


def test_directives_of_other_batch_systems_are_told() -> None:
    reading = parse_sbatch("#!/bin/sh\n#PBS -l nodes=2\n#BSUB -n 2\n#SLURM -N 3\ntrue\n#PBS -q x\n")
    assert reading.fields == {"nodes": 3}
    assert [(note.line, note.verdict.value) for note in reading.notes] == [
        (2, "ignored"),
        (3, "ignored"),
        (4, "understood"),
    ]


def test_a_range_of_nodes_with_gpus_in_all_leaves_the_nodes_to_tidegate() -> None:
    """Planted: an elastic job, which could start with fewer GPUs than were asked for."""
    reading = parse_sbatch("#!/bin/sh\n#SBATCH -N 2-4 -G 16\n")
    assert reading.fields == {"gpus": 16}
    assert [note.detail for note in reading.notes] == [
        "The number of GPUs is fixed, and Tidegate chooses the nodes.",
        "gpus = 16",
    ]
