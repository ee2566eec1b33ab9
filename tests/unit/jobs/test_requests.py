"""Bodies of POST /jobs: what is read of good ones, and what is said of bad ones."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from builders.job_builders import a_body
from jobs.submission.problems import Problems
from jobs.submission.requests import read_job_request
from jobs.submission.sbatch_notes import refused_of
from primitives.errors import InvalidRequest


def errors_of(**changes: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(**changes))
    return sorted(error.pointer for error in refusal.value.errors)


def test_defaults() -> None:
    request = read_job_request(a_body())
    assert (request.team, request.name, request.size.mgpu) == (
        "ai-company/research/nlp",
        "python",
        1000,
    )
    assert (request.size.mgpu_per_node, request.size.node_count) == (None, None)
    assert (request.pools, request.priority_class, request.cluster) == ((), None, None)
    assert (request.is_preemptible, request.is_requeueable, request.held) == (False, True, False)
    assert (request.notice_signal, request.time_limit_s, request.type) == ("TERM", None, None)
    assert (dict(request.environment or {}), request.notes) == ({}, ())


def test_null_is_absent() -> None:
    everything = dict.fromkeys(
        (
            "name",
            "pool",
            "gpus_per_node",
            "nodes",
            "sbatch",
            "time_limit_s",
            "priority_class",
            "type",
            "environment",
            "is_preemptible",
            "is_requeueable",
            "checkpoint_path",
            "cluster",
            "features",
            "image",
            "notice_signal",
            "held",
        )
    )
    assert read_job_request(a_body(**everything)) == read_job_request(a_body())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gpus": 0.5}, (500, None, None)),
        ({"gpus": 0.001}, (1, None, None)),
        ({"gpus": 8}, (8_000, None, None)),
        ({"gpus": 8.0}, (8_000, None, None)),
        ({"gpus": 16, "nodes": 2}, (16_000, None, 2)),
        ({"gpus": 0.5, "nodes": 1}, (500, None, 1)),
        ({"gpus": ..., "gpus_per_node": 4, "nodes": 2}, (None, 4_000, 2)),
        ({"gpus": ..., "gpus_per_node": 0.25}, (None, 250, None)),
    ],
)
def test_shapes(changes: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    request = read_job_request(a_body(**changes))
    assert (request.size.mgpu, request.size.mgpu_per_node, request.size.node_count) == expected


@pytest.mark.parametrize(("text", "limit_s"), [("2h", 7_200), ("1:30:00", 5_400), ("1-0", 86_400)])
def test_a_time_limit_is_a_text_with_its_unit(text: str, limit_s: int) -> None:
    """It also wins over that of the batch script."""
    assert read_job_request(a_body(time_limit=text)).time_limit_s == limit_s
    sbatch = a_body(script=..., sbatch="#!/bin/sh\n#SBATCH --time=10\ntrue\n", time_limit=text)
    assert read_job_request(sbatch).time_limit_s == limit_s


@pytest.mark.parametrize("number", [10, "10"])
def test_a_number_alone_is_refused_as_everywhere(number: int | str) -> None:
    """Against: seconds, as a YAML file of `time_limit: 10` would have had them."""
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(time_limit=number))
    assert [error.detail for error in refusal.value.errors] == [
        "'10' has no unit. Write 10s, 10m or 10h."
    ]


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"team": ...}, ["/team"]),
        ({"team": 7}, ["/team"]),
        ({"team": ""}, ["/team"]),
        ({"team": "a\nb"}, ["/team"]),
        ({"gpus": ...}, ["/gpus"]),
        ({"gpus": 0}, ["/gpus"]),
        ({"gpus": -1}, ["/gpus"]),
        ({"gpus": True}, ["/gpus"]),
        ({"gpus": "1"}, ["/gpus"]),
        ({"gpus": [1]}, ["/gpus"]),
        ({"gpus": 1.5}, ["/gpus"]),
        ({"gpus": 0.0005}, ["/gpus"]),
        ({"gpus": 1e400}, ["/gpus"]),
        ({"gpus": float("nan")}, ["/gpus"]),
        ({"gpus": 10**29}, ["/gpus"]),
        ({"gpus": 1, "gpus_per_node": 1}, ["/gpus"]),
        ({"gpus": 3, "nodes": 2}, ["/gpus"]),
        ({"gpus": ..., "gpus_per_node": 0.5, "nodes": 2}, ["/gpus_per_node"]),
        ({"nodes": 0}, ["/nodes"]),
        ({"nodes": True}, ["/nodes"]),
        ({"nodes": 1.0}, ["/nodes"]),
        ({"nodes": 4_097}, ["/nodes"]),
        ({"nodes": 2**63}, ["/nodes"]),
        ({"script": ...}, ["/script"]),
        ({"script": ""}, ["/script"]),
        ({"script": " \n"}, ["/script"]),
        ({"script": 1}, ["/script"]),
        ({"script": "x", "sbatch": "y"}, ["/script"]),
        ({"script": "a\x00b"}, ["/script"]),
        ({"script": "\ud800"}, ["/script"]),
        ({"script": "x" * ((1 << 20) + 1)}, ["/script"]),
        ({"script": "ä" * ((1 << 19) + 1)}, ["/script"]),
        ({"name": ""}, ["/name"]),
        ({"name": "a\n#SBATCH --account=other"}, ["/name"]),
        ({"name": "a\x00"}, ["/name"]),
        ({"name": "a\u202eb"}, ["/name"]),
        ({"name": "x" * 201}, ["/name"]),
        ({"name": 3}, ["/name"]),
        ({"time_limit_s": 0}, ["/time_limit_s"]),
        ({"time_limit_s": 31_536_001}, ["/time_limit_s"]),
        ({"time_limit_s": "60"}, ["/time_limit_s"]),
        ({"time_limit_s": True}, ["/time_limit_s"]),
        ({"time_limit": "2h", "time_limit_s": 7_200}, ["/time_limit"]),
        ({"time_limit": "0"}, ["/time_limit"]),
        ({"time_limit": "366d"}, ["/time_limit"]),
        ({"time_limit": 1.5}, ["/time_limit"]),
        ({"time_limit": True}, ["/time_limit"]),
        ({"type": "magic"}, ["/type"]),
        ({"notice_signal": "KILL"}, ["/notice_signal"]),
        ({"notice_signal": ["TERM"]}, ["/notice_signal"]),
        ({"is_preemptible": "yes"}, ["/is_preemptible"]),
        ({"is_requeueable": 1}, ["/is_requeueable"]),
        ({"held": "true"}, ["/held"]),
        ({"checkpoint_path": "relative"}, ["/checkpoint_path"]),
        ({"checkpoint_path": "/a/../b"}, ["/checkpoint_path"]),
        ({"checkpoint_path": "/a\nb"}, ["/checkpoint_path"]),
        ({"checkpoint_path": "/" + "a" * 1024}, ["/checkpoint_path"]),
        ({"environment": []}, ["/environment"]),
        ({"environment": "A=B"}, ["/environment"]),
        ({"environment": {"A": 1}}, ["/environment/A"]),
        ({"environment": {"1A": "x"}}, ["/environment/1A"]),
        ({"environment": {"A-B": "x"}}, ["/environment/A-B"]),
        ({"environment": {"A=B": "x"}}, ["/environment/A=B"]),
        ({"environment": {"A\n": "x"}}, ["/environment/A\n"]),
        ({"environment": {"A/B~": "x"}}, ["/environment/A~1B~0"]),
        ({"environment": {"Ａ": "x"}}, ["/environment/Ａ"]),
        ({"environment": {"": "x"}}, ["/environment/"]),
        ({"environment": {"LD_PRELOAD": "x"}}, ["/environment/LD_PRELOAD"]),
        ({"environment": {"SLURM_JOB_ID": "x"}}, ["/environment/SLURM_JOB_ID"]),
        ({"environment": {"SBATCH_ACCOUNT": "x"}}, ["/environment/SBATCH_ACCOUNT"]),
        ({"environment": {"TIDEGATE_X": "x"}}, ["/environment/TIDEGATE_X"]),
        ({"environment": {"BASH_ENV": "x"}}, ["/environment/BASH_ENV"]),
        ({"environment": {"ENV": "x"}}, ["/environment/ENV"]),
        ({"environment": {"PROMPT_COMMAND": "x"}}, ["/environment/PROMPT_COMMAND"]),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, ["/environment/CUDA_VISIBLE_DEVICES"]),
        ({"environment": {"A": "x\ny"}}, ["/environment/A"]),
        ({"environment": {"A": "x\x00"}}, ["/environment/A"]),
        ({"environment": {"A": "\x1b[0m"}}, ["/environment/A"]),
        ({"environment": {"A": "\ud800"}}, ["/environment/A"]),
        ({"environment": {"A": "x" * 32_769}}, ["/environment/A"]),
        ({"environment": {f"A{i}": "x" * 32_000 for i in range(5)}}, ["/environment"]),
        ({"environment": {f"A{i}": "" for i in range(257)}}, ["/environment"]),
        ({"grup": 1}, ["/grup"]),
        ({"team": ..., "gpus": 0, "held": 2, "x": 1}, ["/gpus", "/held", "/team", "/x"]),
    ],
)
def test_every_error_is_told_at_once_with_its_pointer(
    changes: dict[str, Any], pointers: list[str]
) -> None:
    assert errors_of(**changes) == pointers


def test_path_is_an_allowed_variable() -> None:
    request = read_job_request(a_body(environment={"PATH": "/opt/bin:/usr/bin", "TAB": "a\tb"}))
    assert request.environment == {"PATH": "/opt/bin:/usr/bin", "TAB": "a\tb"}


@pytest.mark.parametrize("name", ["=1+1", "a|b", "$(id)", "`id`", "../../etc", "-rf", "--uid=0"])
def test_odd_names_are_only_names(name: str) -> None:
    assert read_job_request(a_body(name=name)).name == name


def test_names_are_normalised() -> None:
    assert read_job_request(a_body(name="  ﬁne ")).name == "fine"


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("#!/bin/bash\n# hello\npython train.py\n", "python"),
        ("/opt/tools/run.sh --fast\n", "run.sh"),
        ("set -e\nA=1 exec torchrun x.py\n", "torchrun"),
        ("#!/bin/bash\n# nothing\n", "job"),
        ("$(echo hi)\n", "job"),
    ],
)
def test_a_job_without_a_name_is_named_by_what_it_runs(script: str, name: str) -> None:
    assert read_job_request(a_body(script=script)).name == name


def test_a_job_without_a_name_is_named_after_its_file_as_by_sbatch() -> None:
    """Planted: the file before the name of the script or of the request."""
    body = a_body(script=..., sbatch="#SBATCH -n 1\nsrun -l x\n", script_file="train.sh")
    assert read_job_request(body).name == "train.sh"
    assert read_job_request({**body, "name": "mine"}).name == "mine"
    body["sbatch"] = "#SBATCH --job-n x\n" + body["sbatch"]
    assert read_job_request(body).name == "x"


def test_a_line_of_many_assignments_names_the_job() -> None:
    """Planted: a copy of the words for each assignment, which took minutes here."""
    assert read_job_request(a_body(script="A= " * 300_000 + "train\n")).name == "train"


def test_dos_line_ends_are_replaced_with_a_note() -> None:
    request = read_job_request(a_body(script=..., sbatch="#!/bin/sh\r\n#SBATCH -J x\r\ntrue\r\n"))
    assert request.script == "#!/bin/sh\n#SBATCH -J x\ntrue\n"
    assert request.name == "x"
    assert [(note.line, note.verdict.value) for note in request.notes] == [
        (0, "understood"),
        (2, "understood"),
    ]


def test_the_body_wins_over_the_text_with_a_note() -> None:
    text = "#SBATCH -J text -t 10\n#SBATCH --gpus-per-node=8\n#SBATCH -N 4\n#SBATCH -p fast\nx\n"
    request = read_job_request(a_body(script=..., sbatch=text, name="body", gpus=2, pool="h100"))
    assert (request.name, request.time_limit_s) == ("body", 600)
    assert (request.size.mgpu, request.size.mgpu_per_node, request.size.node_count) == (
        2_000,
        None,
        None,
    )
    assert request.pool_hints == ()
    assert [(note.line, note.verdict.value, note.detail) for note in request.notes] == [
        (1, "ignored", "The request itself says otherwise."),
        (1, "understood", "time_limit = 10m"),
        (2, "ignored", "The request itself says otherwise."),
        (3, "ignored", "The request itself says otherwise."),
        (4, "ignored", "The request itself says otherwise."),
    ]


def test_only_the_nodes_of_the_text_can_be_overruled() -> None:
    text = "#SBATCH --gpus-per-node=8\n#SBATCH -N 4\nx\n"
    request = read_job_request(a_body(script=..., gpus=..., sbatch=text, nodes=2))
    assert (request.size.mgpu_per_node, request.size.node_count) == (8_000, 2)


def test_an_error_in_the_text_names_its_line() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(
            a_body(script=..., gpus=..., sbatch="#SBATCH -N 5000\n#SBATCH -G 5000\nx\n")
        )
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [
        ("/sbatch", "line 1: nodes must be from 1 to 4,096")
    ]


def test_hints_are_kept_in_order() -> None:
    text = "#SBATCH -p batch\n#SBATCH --gres=gpu:h100:2\n#SBATCH --qos=high\nx\n"
    request = read_job_request(a_body(script=..., gpus=..., sbatch=text))
    assert [(hint.name, request.notes[hint.note].line) for hint in request.pool_hints] == [
        ("h100", 2),
        ("batch", 1),
    ]
    assert request.class_hint is not None
    assert (request.class_hint.name, request.notes[request.class_hint.note].line) == ("high", 3)


def test_refused_lines_are_kept_for_whoever_submits() -> None:
    request = read_job_request(a_body(script=..., sbatch="#SBATCH --begin=soon\nx\n"))
    assert [note.line for note in refused_of(request.notes)] == [1]


def test_features_and_image() -> None:
    assert read_job_request(a_body()).features == ()
    request = read_job_request(a_body(features=["nvlink", "ib", "nvlink"], image="docker://x:1"))
    assert (request.features, request.image) == (("ib", "nvlink"), "docker://x:1")
    names = [f"f{number}" for number in range(16)]
    assert read_job_request(a_body(features=names, image="x" * 512)).features == tuple(
        sorted(names)
    )


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"features": "ib"}, ["/features"]),
        ({"features": [f"f{number}" for number in range(17)]}, ["/features"]),
        (
            {"features": ["ib", 1, "a b", "", "a|b", "x" * 65]},
            [f"/features/{i}" for i in range(1, 6)],
        ),
        ({"features": ["ib\n"]}, ["/features/0"]),
        ({"image": 1}, ["/image"]),
        ({"image": ""}, ["/image"]),
        ({"image": "x" * 513}, ["/image"]),
        ({"image": "a b"}, ["/image"]),
        ({"image": "a\n"}, ["/image"]),
        ({"image": "a\x00b"}, ["/image"]),
        ({"image": "a\u2028b"}, ["/image"]),
        ({"image": "b\u00e4r"}, ["/image"]),
    ],
)
def test_bad_features_and_images(changes: dict[str, Any], pointers: list[str]) -> None:
    """Mutants: names searched for instead of matched whole; an image with a line break taken."""
    assert errors_of(**changes) == pointers


def test_a_bad_image_in_an_sbatch_text_is_told_at_its_line() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(
            a_body(script=..., sbatch="#!/bin/sh\n#SBATCH --container-image='a b'\ntrue\n")
        )
    (error,) = refusal.value.errors
    assert error.pointer == "/sbatch"
    assert error.detail.startswith("line 2: image must be 1 to 512 printable ASCII characters")


def test_the_body_s_features_win_over_the_text_s() -> None:
    text = "#!/bin/sh\n#SBATCH -C ib\n#SBATCH --container-image=x\ntrue\n"
    request = read_job_request(a_body(script=..., sbatch=text, features=["nvlink"]))
    assert (request.features, request.image) == (("nvlink",), "x")
    assert [note.verdict.value for note in request.notes] == ["ignored", "understood"]


def sized(text: str, **own: object) -> tuple[list[object], list[tuple[int, str, str]]]:
    """Return GPUs, GPUs a node, nodes, CPUs and memory of an sbatch text beside a body."""
    lines = "".join(f"#SBATCH {line}\n" for line in text.split(" | "))
    request = read_job_request(
        a_body(**({"script": ..., "gpus": ..., "sbatch": lines + "x\n"} | own))
    )
    size = request.size
    numbers = [size.mgpu, size.mgpu_per_node, size.node_count]
    return [*numbers, request.cpus_per_node, request.memory_mib_per_node], [
        (note.line, note.verdict.value, note.detail) for note in request.notes
    ]


OVERRULED = "The request itself says otherwise."


def test_what_a_gpu_has_follows_the_gpus_of_the_request() -> None:
    """Planted: 96 CPUs and 960 GiB for one GPU, of the text's 8 GPUs a node."""
    text = "-N 4 | --gpus-per-node=8 | --cpus-per-gpu=12 | --mem-per-gpu=120G"
    assert sized(text, gpus=1) == (
        [1_000, None, None, 12, 122_880],
        [
            (1, "ignored", OVERRULED),
            (2, "ignored", OVERRULED),
            (3, "understood", "cpus_per_node = 12"),
            (4, "understood", "memory_mib_per_node = 122880"),
        ],
    )
    assert sized(text, gpus_per_node=2, nodes=3)[0] == [None, 2_000, 3, 24, 245_760]
    unknown = "Say how many GPUs a node has, with --gpus-per-node."
    for gpus in (16, 0.5):
        numbers, notes = sized(text, gpus=gpus)
        assert numbers == [gpus * 1_000, None, None, None, None]
        assert notes[2:] == [(3, "ignored", unknown), (4, "ignored", unknown)]


@pytest.mark.parametrize(
    "text",
    [
        "-N 1 | -n 8 | -c 12 | --mem-per-cpu=4G",
        "-N 1 | --ntasks-per-node=8 | -c 12 | --mem-per-cpu=4G",
        "-N 1 | --gpus-per-task=1 -n 8 | -c 12 | --mem-per-cpu=4G",
    ],
)
def test_what_tasks_have_is_unknown_beside_the_gpus_of_the_request(text: str) -> None:
    """Planted: 96 CPUs for one GPU, of the text's 8 tasks."""
    numbers, notes = sized(text, gpus=1)
    assert numbers == [1_000, None, None, None, None]
    assert notes[-2:] == [
        (3, "ignored", "The tasks of a node are unknown, as the request itself gives the GPUs."),
        (4, "ignored", "Say how many CPUs a task has, with --cpus-per-task."),
    ]


def test_one_task_has_its_cpus_beside_the_gpus_of_the_request() -> None:
    """Planted: CPUs that are left out beside one task."""
    assert sized("-n 1 | -c 12 | --mem-per-cpu=4G | -G 4", gpus=1)[0] == [
        *(1_000, None, None, 12, 49_152),
    ]


def test_memory_of_cpus_follows_the_cpus_of_the_request() -> None:
    """Planted: memory of the text's 4 CPUs."""
    numbers, notes = sized("--gres=gpu:1 | -c 4 | --mem-per-cpu=4G", cpus_per_node=16)
    assert numbers == [None, 1_000, None, 16, 65_536]
    assert notes[1] == (2, "ignored", OVERRULED)


def test_gpus_of_the_text_are_not_spread_over_other_nodes_than_it_says() -> None:
    """Planted: 32 GPUs on four nodes, where the text says 16 in all."""
    assert sized("--gpus=16 | --gpus-per-node=8", nodes=4)[1][0] == (
        *(1, "refused", "16 GPUs are not 8 on each of 4 nodes; keep one."),
    )


def test_the_nodes_of_the_request_are_settled_with_the_tasks() -> None:
    """Planted: 8 GPUs for 16 tasks; a range of the text beside the nodes of the request; fewer
    tasks than nodes."""
    assert sized("-N 2 | -n 16 | --gpus-per-task=1", nodes=1)[0][:3] == [None, 16_000, 1]
    assert sized("-N 2-4 | --gpus-per-node=8", nodes=8)[0][:3] == [None, 8_000, 8]
    request = read_job_request(
        a_body(script=..., gpus=..., nodes=8, sbatch="#SBATCH -N 2-4 --gpus-per-node=8\nx\n")
    )
    assert request.size.node_count_min is None
    numbers, notes = sized("-N 4 | -n 4 | --gpus-per-node=8 | -c 6", nodes=8)
    assert numbers == [None, 8_000, 8, 6, None]
    assert notes[:2] == [(1, "ignored", OVERRULED), (2, "ignored", OVERRULED)]
    assert sized("-n 4 | --gpus-per-task=2", nodes=8)[1][0] == (
        *(1, "refused", "4 tasks are too few for 8 nodes, as the request says."),
    )


def test_the_line_of_a_type_says_what_counts_of_it() -> None:
    """Planted: notes that say `ignored` of a line whose GPUs, or whose type, count."""
    assert sized("--gpus-per-node=h100:8", gpus=1)[1] == [
        (1, "understood", "the request itself gives the number, of type h100")
    ]
    assert sized("--gpus-per-node=h100:8", pool="a100")[1] == [
        (1, "understood", "gpus_per_node = 8, of type h100; the pool is the request's")
    ]
    assert sized("--gpus-per-node=h100:8", gpus=1, pool="a100")[1] == [(1, "ignored", OVERRULED)]


def test_cpus_of_the_request_are_no_whole_nodes() -> None:
    """Planted: the note `whole nodes`."""
    numbers, notes = sized("--exclusive -N 2", cpus_per_node=4)
    assert numbers == [None, 4_000, 2, None, None]
    assert notes == [
        (1, "ignored", "Ask for all GPUs of a node to have it alone."),
        (1, "understood", "nodes = 2"),
    ]


def test_memory_of_cpus_is_unknown_where_the_cluster_gives_the_cpus() -> None:
    """Planted: memory of one CPU beside 4 GPUs."""
    numbers, notes = sized("--gres=gpu:4 | --mem-per-cpu=4G")
    assert numbers == [None, 4_000, None, None, None]
    assert notes[1] == (2, "ignored", "Say how many CPUs a task has, with --cpus-per-task.")


class _Odd(BaseModel):
    odd: float


def test_an_error_of_another_kind_has_a_sentence() -> None:
    """Planted: an assertion on the kind."""
    problems = Problems()
    with pytest.raises(ValidationError) as found:
        _Odd.model_validate({"odd": "x"})
    assert problems.take(found.value, _Odd) == {"odd"}
    with pytest.raises(InvalidRequest, match="odd: is not a valid value"):
        problems.raise_any()


SRUN = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=8 --gres=gpu:8 -c 6\nsrun python train.py\n"


def test_a_text_with_directives_is_a_batch_job_and_other_scripts_run_on_every_node() -> None:
    """Planted: every text of the member `sbatch` is a batch job, that of a plain script too."""
    request = read_job_request(a_body(script=None, gpus=None, sbatch=SRUN))
    assert (request.launch, request.ntasks, request.ntasks_per_node) == ("batch", None, 8)
    assert (request.cpus_per_task, request.cpus_per_node, request.nodes) == (6, 48, 2)
    plain = read_job_request(a_body(script=None, sbatch="#!/bin/bash\npython train.py\n"))
    assert (plain.launch, read_job_request(a_body()).launch) == ("per_node", "per_node")
    given = read_job_request(a_body(launch="batch", ntasks=4, arguments=["--lr", ""]))
    assert (given.launch, given.ntasks, given.arguments) == ("batch", 4, ("--lr", ""))


def test_the_request_may_run_such_a_text_on_every_node() -> None:
    request = read_job_request(a_body(script=None, gpus=None, sbatch=SRUN, launch="per_node"))
    assert (request.launch, request.ntasks_per_node, request.cpus_per_task) == (
        "per_node",
        None,
        None,
    )
    assert request.cpus_per_node == 48


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"launch": "mpi"}, ["/launch"]),
        ({"ntasks": 2}, ["/ntasks"]),
        ({"ntasks_per_node": 2, "gpus_per_task": 1}, ["/gpus_per_task", "/ntasks_per_node"]),
        ({"launch": "batch", "ntasks": 0}, ["/ntasks"]),
        ({"arguments": "x"}, ["/arguments"]),
        ({"arguments": ["a\0"]}, ["/arguments"]),
        ({"arguments": ["\ud800"]}, ["/arguments"]),
        ({"arguments": ["x"] * 1_001}, ["/arguments"]),
        ({"arguments": ["x" * 32_769]}, ["/arguments"]),
    ],
)
def test_bad_launches(changes: dict[str, Any], pointers: list[str]) -> None:
    assert errors_of(**changes) == pointers


@pytest.mark.parametrize(
    ("asked", "cpus"),
    [
        ({"cpus_per_task": 6, "ntasks_per_node": 4}, 24),
        ({"cpus_per_task": 6, "ntasks": 5, "nodes": 2, "gpus_per_node": 1, "gpus": ...}, 18),
        ({"cpus_per_task": 6}, 6),
        ({"cpus_per_task": 6, "ntasks_per_node": 4, "cpus_per_node": 32}, 32),
        ({"ntasks_per_node": 4}, None),
    ],
)
def test_the_cpus_of_tasks_are_those_of_the_node(asked: dict[str, Any], cpus: int | None) -> None:
    """Planted: planned without them, so that the cluster was asked for more than was planned."""
    assert read_job_request(a_body(launch="batch", **asked)).cpus_per_node == cpus


def test_tasks_with_more_cpus_than_the_node_gives_are_refused() -> None:
    body = a_body(launch="batch", cpus_per_task=64, ntasks_per_node=8, cpus_per_node=8)
    with pytest.raises(InvalidRequest) as refused:
        read_job_request(body)
    assert [(error.pointer, error.detail) for error in refused.value.errors] == [
        ("/cpus_per_node", "is 8, but 8 tasks of 64 CPUs need 512 on a node")
    ]
