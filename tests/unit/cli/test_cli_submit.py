"""`tidegate submit`, against a server that is a function."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from builders.cli_server import (
    JOB_ID,
    SECRET,
    TEAM,
    Server,
    a_problem,
    a_server,
    created,
)
from cli.submitting import body_of


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_arguments_of_a_script_are_sent(server: Server, tmp_path: Path) -> None:
    """Planted: those after `--` alone."""
    server.routes["POST jobs"] = created()
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    ran = server.run(
        *("submit", "--team", TEAM, str(script), "small", "--launch", "batch", "7"),
        *("--", "--lr", "0.1 or so"),
    )
    assert (ran.exit_code, ran.err) == (0, "")
    assert server.body() == {
        "sbatch": "#!/bin/sh\n",
        "script_file": "train.sh",
        "team": TEAM,
        "launch": "batch",
        "arguments": ["small", "7", "--lr", "0.1 or so"],
    }


def test_a_command_is_submitted(server: Server) -> None:
    server.routes["POST jobs"] = created()
    ran = server.run(
        *("submit", "--team", TEAM, "--gpus", "0.5", "--time", "1h30m", "--pool", "h100"),
        *("--class", "high", "--env", "A=b=c", "--env", "D=", "--checkpoint", "/ckpt"),
        *(
            "--no-requeue",
            "--preemptible",
            "--hold",
            "--cluster",
            "local",
            "--signal",
            "B:USR1@300",
        ),
        *("--feature", "nvlink", "--feature", "ib", "--image", "nvcr.io#nvidia/pytorch:24.05"),
        *("--cpus-per-node", "16", "--memory-per-node", "64G", "--chdir", "/w"),
        *("--output-file", "%x.out", "--error-file", "%x.err", "--append-output"),
        *("--", "python", "train me.py", "--gpus", "9"),
    )
    assert (ran.exit_code, ran.out, ran.err) == (0, f"{JOB_ID}\n", "")
    assert server.sent == ["POST jobs"]
    assert server.body() == {
        "name": "python",
        "script": "#!/bin/sh\nexec python 'train me.py' --gpus 9\n",
        "team": TEAM,
        "pool": "h100",
        "gpus": 0.5,
        "time_limit_s": 5_400,
        "priority_class": "high",
        "checkpoint_path": "/ckpt",
        "cluster": "local",
        "notice_signal": "USR1",
        "signal_ahead_s": 300,
        "signals_shell_only": True,
        "features": ["nvlink", "ib"],
        "image": "nvcr.io#nvidia/pytorch:24.05",
        "cpus_per_node": 16,
        "memory_mib_per_node": 65_536,
        "folder": "/w",
        "output_file": "%x.out",
        "error_file": "%x.err",
        "appends_output": True,
        "is_preemptible": True,
        "is_requeueable": False,
        "held": True,
        "environment": {"A": "b=c", "D": ""},
    }
    (request,) = server.requests
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert UUID(request.headers["Idempotency-Key"])
    assert request.extensions["timeout"] == {
        "connect": 5.0,
        "read": 30.0,
        "write": 30.0,
        "pool": 30.0,
    }


def test_a_batch_script_is_sent_as_it_stands(server: Server, tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -o x\nsrun träin\n"
    (tmp_path / "job.sbatch").write_text(text, encoding="utf-8")
    server.routes["POST jobs"] = created(
        notes=[
            {"line": 2, "text": "#SBATCH -N 2", "verdict": "understood", "detail": "nodes = 2"},
            {"line": 3, "text": "#SBATCH -o x", "verdict": "ignored", "detail": "Logs are kept."},
        ]
    )
    ran = server.run("submit", str(tmp_path / "job.sbatch"), "--team", TEAM, "--gpus-per-node", "8")
    assert server.body() == {
        "sbatch": text,
        "script_file": "job.sbatch",
        "team": TEAM,
        "gpus_per_node": 8,
    }
    assert (ran.exit_code, ran.out) == (0, f"{JOB_ID}\n")
    assert ran.err == (
        "understood  line 2: #SBATCH -N 2: nodes = 2\n"
        "ignored     line 3: #SBATCH -o x: Logs are kept.\n"
    )


def test_a_batch_script_on_standard_input(server: Server) -> None:
    server.routes["POST jobs"] = created()
    assert server.run("submit", "-", "--team", TEAM, stdin="#!/bin/sh\ntrue\n").exit_code == 0
    assert server.body() == {"sbatch": "#!/bin/sh\ntrue\n", "team": TEAM}


def test_a_yaml_file_and_options_that_win(server: Server, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "team: a/b\ngpus_per_node: 8\nnodes: 2\nscript: |\n  true\nenvironment: {SEED: 1, A: x}\n"
    )
    server.routes["POST jobs"] = created()
    path = str(tmp_path / "job.yaml")
    assert server.run("submit", path, "--team", TEAM, "--gpus", "4", "--env", "A=y").exit_code == 0
    assert server.body() == {
        "team": TEAM,
        "gpus": 4,
        "nodes": 2,
        "script": "true\n",
        "environment": {"SEED": "1", "A": "y"},
    }


def test_a_request_with_an_object_in_its_script_is_no_manifest(
    server: Server, tmp_path: Path
) -> None:
    """Planted: an object of JSON in a block of the file, taken for the file's own."""
    file = tmp_path / "own.yaml"
    file.write_text('script: |\n  cat <<END\n  {\n  "apiVersion": "v1"}\n  END\n')
    text = 'cat <<END\n{\n"apiVersion": "v1"}\nEND\n'
    assert body_of(str(file), None, {}) == {"script": text}


@pytest.mark.parametrize(
    ("name", "text", "member"),
    [
        ("job.yaml", "# a Job\napiVersion: batch/v1\nkind: Job\n", "manifest"),
        ("job.yml", "kind: Job\napiVersion: batch/v1\n", "manifest"),
        ("job.json", '{\n  "apiVersion": "batch/v1"\n}', "manifest"),
        ("one.json", '{"apiVersion": "batch/v1"}', "manifest"),
        ("train.sh", "apiVersion: batch/v1\n", "sbatch"),
        ("job.json", '{"gpus": 1}', "sbatch"),
        ("-", "apiVersion: batch/v1\n", "manifest"),
        ("-", "#!/bin/sh\ncat <<END\napiVersion: v1\nEND\n", "sbatch"),
    ],
)
def test_a_manifest_is_sent_as_it_is(
    server: Server, tmp_path: Path, name: str, text: str, member: str
) -> None:
    """Planted: each .yaml file as the members of a request."""
    server.routes["POST jobs"] = created()
    path = name
    if name != "-":
        path = str(tmp_path / name)
        Path(path).write_text(text)
    assert server.run("submit", path, "--team", TEAM, stdin=text).exit_code == 0
    named = {"script_file": name} if member == "sbatch" and name != "-" else {}
    assert server.body() == {"team": TEAM, member: text, **named}


SEVERAL = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data:
  run.sh: |
    # no marker: ---
--- # the second
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: b}
"""


def test_each_job_of_a_manifest_is_submitted(server: Server, tmp_path: Path) -> None:
    """All are planned before the first is submitted. Each keeps its lines, and what is beside it.

    Planted: documents cut out, so that notes named other lines.
    """
    path = tmp_path / "jobs.yaml"
    path.write_text(SEVERAL)
    server.routes["POST jobs"] = [{"fits": True}, {"fits": True}, created(), created()]
    ran = server.run("submit", "--team", TEAM, str(path))
    assert (ran.exit_code, ran.out, ran.err) == (0, f"{JOB_ID}\n{JOB_ID}\n", "")
    lines = SEVERAL.splitlines(keepends=True)
    first = "".join([*lines[:10], "---\n", *["\n"] * 3])
    second = "".join([*["\n"] * 3, *lines[3:]])
    assert server.sent == ["POST jobs?dry_run=true"] * 2 + ["POST jobs"] * 2
    assert [server.body(number)["manifest"] for number in range(4)] == [first, second] * 2
    keys = [request.headers.get("Idempotency-Key") for request in server.requests[2:]]
    assert len({*keys, None}) == 3


A_GROUP = """\
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {kueue.x-k8s.io/pod-group-name: "ring"}}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {kueue.x-k8s.io/pod-group-name: ring}}
"""


def test_the_pods_of_a_group_are_one_job(server: Server, tmp_path: Path) -> None:
    """A file of one group is sent as it is. Beside another job, its Pods stay together.

    Planted: each Pod as a job of its own.
    """
    path = tmp_path / "pods.yaml"
    path.write_text(A_GROUP)
    server.routes["POST jobs"] = created()
    assert server.run("submit", "--team", TEAM, str(path)).out == f"{JOB_ID}\n"
    assert server.body(-1)["manifest"] == A_GROUP
    alone = "---\napiVersion: batch/v1\nkind: Job\n"
    path.write_text(A_GROUP + alone)
    server.routes["POST jobs"] = [{"fits": True}, {"fits": True}, created(), created()]
    server.run("submit", "--team", TEAM, str(path))
    assert [server.body(number)["manifest"] for number in (-2, -1)] == [
        f"{A_GROUP}---\n\n\n",
        "\n\n\n---\n\n\n\n" + alone,
    ]


def test_no_job_of_a_manifest_is_submitted_if_one_is_refused(
    server: Server, tmp_path: Path
) -> None:
    """Planted: the first was queued before the second was planned."""
    path = tmp_path / "jobs.yaml"
    path.write_text(SEVERAL)
    refused = a_problem(400, detail="manifest: line 13 is wrong.")
    server.routes["POST jobs"] = [{"fits": True}, refused]
    ran = server.run("submit", "--team", TEAM, str(path))
    assert (ran.exit_code, ran.out, server.sent) == (3, "", ["POST jobs?dry_run=true"] * 2)
    assert "line 13 is wrong" in ran.err
    assert ran.err.endswith(
        "Error: Nothing was submitted: 1 of the 2 jobs of the file would be refused.\n"
    )
    server.requests.clear()
    server.routes["POST jobs"] = [{"fits": True}, {"fits": True}, created(), refused]
    ran = server.run("submit", "--team", TEAM, str(path))
    assert (ran.exit_code, ran.out) == (3, f"{JOB_ID}\n")
    assert "1 of the 2 jobs of the file are submitted." in ran.err


def test_each_refused_job_of_a_file_is_told(server: Server, tmp_path: Path) -> None:
    """Against: the first refusal alone."""
    path = tmp_path / "jobs.yaml"
    path.write_text(SEVERAL)
    problems = [a_problem(400, detail=f"manifest: line {line} is wrong.") for line in (3, 13)]
    for words in ([], ["--plan"]):
        server.routes["POST jobs"] = list(problems)
        ran = server.run("submit", "--team", TEAM, *words, str(path))
        assert (ran.exit_code, ran.out) == (3, "")
        assert [line in ran.err for line in ("line 3 is wrong", "line 13 is wrong")] == [True] * 2
        assert ("2 of the 2 jobs of the file would be refused." in ran.err) is (not words)


def test_a_file_has_a_bounded_number_of_jobs(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("---\n".join(["apiVersion: batch/v1\nkind: Job\n"] * 21))
    ran = server.run("submit", "--team", TEAM, str(path))
    assert (ran.exit_code, server.sent) == (2, [])
    assert "The file has 21 jobs; at most 20 are submitted at once." in ran.err


def test_several_pools_and_the_ones_of_a_file_that_they_win_over(
    server: Server, tmp_path: Path
) -> None:
    server.routes["POST jobs"] = created()
    path = tmp_path / "job.yaml"
    for given, expected in (
        ("pool: v100", {"pools": ["h100", "a100"]}),
        ("pools: [v100, l4]", {"pools": ["h100", "a100"]}),
    ):
        path.write_text(f"team: a/b\ngpus: 1\n{given}\nscript: run\n")
        assert server.run("submit", str(path), "--pool", "h100,a100").exit_code == 0
        assert server.body() == {"team": "a/b", "gpus": 1, "script": "run", **expected}
        assert server.run("submit", str(path), "--pool", "h100").exit_code == 0
        assert server.body() == {"team": "a/b", "gpus": 1, "script": "run", "pool": "h100"}


def test_the_team_may_come_from_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_TEAM", "a/b")
    server.routes["POST jobs"] = created()
    assert server.run("submit", "--gpus", "1", "--", "true").exit_code == 0
    assert server.body()["team"] == "a/b"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["submit", "--team", TEAM],
            "Nothing to run: give a script file, or a command after `--`.",
        ),
        (["submit", "--team", TEAM, "--"], "Nothing to run: give a script file"),
        (["submit", "/no/such", "--team", TEAM], "Cannot read /no/such: No such file"),
        (["submit", "--gpus", "1", "--", "true"], "Which team?"),
        (["submit", "--gpus", "many", "--", "true"], "--gpus 'many': write a number"),
        (["submit", "--gpus", "-1", "--", "true"], "--gpus '-1': write a number"),
        (["submit", "--gpus", "٣", "--", "true"], "write a number"),
        (
            ["submit", "--time", "soon", "--", "true"],
            "--time: 'soon' is not a duration. Write 90s",
        ),
        (["submit", "--env", "A", "--", "true"], "--env 'A': write NAME=VALUE."),
    ],
)
def test_wrong_use_sends_nothing(server: Server, arguments: list[str], told: str) -> None:
    ran = server.run(*arguments)
    assert (ran.exit_code, ran.out, server.requests) == (2, "", [])
    assert told in ran.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"- a\n", "must be a YAML mapping"),
        (b"a: [\n", "is not YAML"),
        (b"!!python/object/apply:os.system ['id']\n", "is not YAML"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"environment: {A: [1]}\n", "environment A must be text"),
        (b"environment: {A: yes}\n", "environment A must be text"),
        (b"#" * ((1 << 20) + 1), "is larger than 1,048,576 bytes"),
    ],
)
def test_files_that_cannot_be_used(
    server: Server, tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "job.yaml").write_bytes(content)
    ran = server.run("submit", str(tmp_path / "job.yaml"), "--team", TEAM)
    assert (ran.exit_code, server.requests) == (2, [])
    assert told in ran.err


def test_a_lost_answer_is_asked_for_again_under_the_same_key(server: Server) -> None:
    server.routes["POST jobs"] = [
        httpx.ReadTimeout("timed out"),
        httpx.ConnectError("refused"),
        a_problem(503),
        created(),
    ]
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--", "true")
    assert (ran.exit_code, ran.out) == (0, f"{JOB_ID}\n")
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1
    assert len(server.requests) == 4
    assert server.pauses_s == [0.5, 1.0, 2.0]


def test_a_server_that_is_away(server: Server) -> None:
    server.routes["POST jobs"] = httpx.ConnectError("Connection refused")
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--", "true")
    assert (ran.exit_code, ran.out, len(server.requests)) == (4, "", 4)
    assert ran.err == (
        "Error: https://tidegate.example does not answer (Connection refused). Is the address "
        "right and the server up?\n"
    )


def test_something_else_answers(server: Server) -> None:
    server.routes["GET jobs"] = httpx.Response(200, text="<html>")
    assert server.run("ls").exit_code == 4
    server.routes["GET jobs"] = httpx.Response(302, headers={"Location": "https://elsewhere/"})
    assert server.run("ls").exit_code == 4
    server.routes["GET jobs"] = httpx.Response(404, text="nginx")
    ran = server.run("ls")
    assert (ran.exit_code, ran.err) == (
        4,
        "Error: tidegate.example answered 404, but not as Tidegate does. Is the address right?\n",
    )


def test_a_refusal_is_told_field_by_field(server: Server) -> None:
    server.routes["POST jobs"] = a_problem(
        400,
        title="The request is not valid",
        errors=[
            {"pointer": "/gpus", "detail": "must be above 0\x1b[31m", "code": "out_of_range"},
            {"pointer": "/pool", "detail": "there is no pool", "code": "unknown"},
        ],
    )
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--", "true")
    assert (ran.exit_code, ran.out) == (3, "")
    assert ran.err == (
        "Error: The request is not valid\n  gpus: must be above 0[31m\n  pool: there is no pool\n"
    )


def test_a_bad_token_says_what_to_do(server: Server) -> None:
    server.routes["GET jobs"] = a_problem(401, title="Sign in first", detail="It has expired.")
    ran = server.run("ls")
    assert (ran.exit_code, ran.err) == (
        3,
        "Error: Sign in first: It has expired.\nRun `tidegate login` with a fresh access token.\n",
    )


PLAN = {
    "job": {
        "features": ["ib"],
        "image": None,
        "required_topology": None,
        "preferred_topology": None,
        "cpus_per_node": 16,
        "memory_mib_per_node": None,
        "tasks": 1,
        "tasks_at_once": None,
        "name": "bert",
        "team": TEAM,
        "pool": "h100",
        "pools": ["h100"],
        "device": "gpu",
        "priority_class": "normal",
        "mgpu_per_node": 8_000,
        "node_count": 2,
        "node_count_min": 2,
        "mgpu": 16_000,
        "mgpu_min": 16_000,
        "time_limit_s": None,
        "begin_at": None,
    },
    "notes": [],
    "fits": True,
    "explanation": {"sentence": "It would start now on local."},
    "would_start_now": True,
    "mgpu": 16_000,
    "guaranteed_mgpu": 8_000,
    "borrowed_mgpu": 8_000,
    "cluster": "local",
    "cost_per_hour_nano": 24_005_000_000,
    "unbilled_per_hour_nano": 0,
    "price_mode": "pay_per_use",
    "currency": "EUR",
    "budgets": [],
}


def test_a_plan_of_an_array_says_what_is_of_each_task(server: Server) -> None:
    job = {
        **PLAN["job"],
        "node_count": 1,
        "node_count_min": 1,
        "mgpu": 8_000,
        "mgpu_min": 8_000,
        "tasks": 10,
        "tasks_at_once": 3,
    }
    server.routes["POST jobs"] = {**PLAN, "job": job}
    words = ("submit", "--team", TEAM, "--gpus", "8", "--array", "0-9%3", "--plan", "--", "true")
    out = server.run(*words).out.splitlines()
    assert out[:3] == [
        "For each of 10 tasks; at most 3 at once. The plan of the first task:",
        "It would start now on local.",
        "",
    ]
    assert "GPUs             8 for each task" in out
    assert out[-3:] == [
        "guaranteed GPUs  8 for each task",
        "borrowed GPUs    8 for each task",
        "costs an hour    24.01 EUR for each task",
    ]
    server.routes["POST jobs"] = {**PLAN, "job": {**job, "tasks_at_once": None}}
    assert server.run(*words).out.startswith("For each of 10 tasks. The plan of the first task:\n")


def test_a_plan_says_what_is_not_billed(server: Server) -> None:
    """Against: a showback plan that costs 0."""
    words = ("submit", "--team", TEAM, "--gpus", "16", "--plan", "--", "true")
    shown = {**PLAN, "cost_per_hour_nano": 0, "unbilled_per_hour_nano": 24_000_000_000}
    server.routes["POST jobs"] = {**shown, "price_mode": "showback"}
    assert server.run(*words).out.splitlines()[-1] == (
        "costs an hour    showback: not billed (would cost 24.00 EUR)"
    )
    paid = {"cost_per_hour_nano": 8_000_000_000, "unbilled_per_hour_nano": 16_000_000_000}
    server.routes["POST jobs"] = {**PLAN, **paid, "price_mode": "commitment"}
    assert server.run(*words).out.splitlines()[-1] == (
        "costs an hour    8.00 EUR; covered by the commitment: 16.00 EUR"
    )


def test_a_cost_cap_is_sent_in_nano_and_its_time_is_told(server: Server) -> None:
    """Against: whole units sent."""
    job = {**PLAN["job"], "cost_cap_nano": 12_500_000_000}
    job["time_limit_s"] = None
    server.routes["POST jobs"] = {**PLAN, "job": job, "cost_cap_after_s": 11_250}
    words = ("submit", "--team", TEAM, "--gpus", "8", "--plan", "--cost-cap", "12.50")
    ran = server.run(*words, "--", "true")
    assert json.loads(server.requests[0].content)["cost_cap_nano"] == 12_500_000_000
    assert ran.out.splitlines()[-1] == (
        "cost cap         12.50, reached after 3h7m at present prices; the grace after it is "
        "charged, too"
    )
    server.routes["POST jobs"] = {
        **PLAN,
        "job": {**job, "time_limit_s": 11_250},
        "cost_cap_after_s": 11_250,
    }
    assert server.run(*words, "--", "true").out.splitlines()[-1] == (
        "cost cap         12.50, not reached within its time limit at present prices"
    )
    wrong = server.run("submit", "--team", TEAM, "--cost-cap", "much", "--", "true")
    assert "--cost-cap must be a number above 0, such as 5000 or 12.5, not 'much'." in wrong.err


def test_a_plan_says_what_budgets_have_left(server: Server) -> None:
    """Against: what the job needs shown instead; money in GPU-hours."""
    hours = {
        "name": "November",
        "measure": "gpu_hours",
        "currency": None,
        "limit": 500 * 3_600_000,
        "needed": 80 * 3_600_000,
        "left_after": 120 * 3_600_000,
    }
    euros = {
        "name": "Euros",
        "measure": "money",
        "currency": "EUR",
        "limit": 1_000 * 10**9,
        "needed": 400 * 10**9,
        "left_after": -1_500_000_000,
    }
    job = {**PLAN["job"], "time_limit_s": 36_000}
    server.routes["POST jobs"] = {**PLAN, "job": job, "budgets": [hours, euros]}
    words = ("submit", "--team", TEAM, "--gpus", "8", "--plan", "--", "true")
    assert server.run(*words).out.splitlines()[-2:] == [
        "budget November  120.0 of 500.0 GPU-hours left after this job, at its time limit",
        "budget Euros     -1.50 of 1,000.00 EUR left after this job, at its time limit",
    ]
    tasks = {**PLAN["job"], "tasks": 10}
    server.routes["POST jobs"] = {**PLAN, "job": tasks, "budgets": [hours]}
    assert server.run(*words).out.endswith(
        "120.0 of 500.0 GPU-hours left after all its tasks, at the end of the period\n"
    )


def test_the_lines_of_a_refused_plan_are_shown(server: Server) -> None:
    note = {"line": 1, "text": "#SBATCH -G 8", "verdict": "understood", "detail": "gpus = 8"}
    server.routes["POST jobs"] = a_problem(400, notes=[note])
    ran = server.run("submit", "--team", TEAM, "--plan", "--", "true")
    assert ran.exit_code == 3
    assert ran.err.startswith("understood  line 1: #SBATCH -G 8: gpus = 8\n")


def test_a_plan(server: Server) -> None:
    server.routes["POST jobs"] = PLAN
    ran = server.run("submit", "--team", TEAM, "--gpus", "16", "--plan", "--", "true")
    assert server.sent == ["POST jobs?dry_run=true"]
    assert "Idempotency-Key" not in server.requests[0].headers
    assert (ran.exit_code, ran.out) == (
        0,
        "It would start now on local.\n"
        "\n"
        "name             bert\n"
        "team             ai-company/research/nlp\n"
        "pool             h100\n"
        "class            normal\n"
        "GPUs             16 (8 on each of 2 nodes)\n"
        "features         ib\n"
        "with each node   16 CPUs\n"
        "could run        yes\n"
        "starts now       yes\n"
        "on               local\n"
        "guaranteed GPUs  8\n"
        "borrowed GPUs    8\n"
        "costs an hour    24.01 EUR\n",
    )
    server.routes["POST jobs"] = {**PLAN, "fits": False}
    assert server.run("submit", "--team", TEAM, "--plan", "--", "true").exit_code == 3


def test_a_plan_of_a_range_costs_at_least_its_least(server: Server) -> None:
    """Planted: the cost of the least as that of all; "at least" of what starts now with so much."""
    words = ("submit", "--team", TEAM, "--gpus", "8..16", "--plan", "--", "true")
    job = {**PLAN["job"], "node_count_min": 1, "mgpu_min": 8_000, "mgpu": 16_000}
    waits = {**PLAN, "job": job, "mgpu": 8_000, "would_start_now": False}
    server.routes["POST jobs"] = waits
    assert server.run(*words).out.splitlines()[-1] == "costs an hour    at least 24.01 EUR"
    server.routes["POST jobs"] = {**waits, "would_start_now": True}
    assert server.run(*words).out.splitlines()[-1] == "costs an hour    24.01 EUR"
