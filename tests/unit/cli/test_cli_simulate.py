"""`tidegate simulate`: asks no server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app

JOBS = [
    "job_id,submit_s,duration_s,gpus,vc",
    "b0,0,10000,4,b",
    "a0,600,100,4,a",
    "b1,1200,60,1,b",
    "x,1200,60,0,b",
]
ALL = ["static", "fifo", "easy", "multifactor", "drf", "las", "karma", "cohorts", "tidegate"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    trace, quotas = tmp_path / "jobs.csv", tmp_path / "quotas.csv"
    trace.write_text("\n".join(JOBS))
    quotas.write_text("team,quota_gpus\na,4\nb,0\n")
    return [str(trace), "--quotas", str(quotas)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments], env={"TIDEGATE_SERVER": ""})


def test_figures_of_our_policy_as_json(files: list[str]) -> None:
    """b borrows a's GPUs at 0; a comes at 600 and has them after the grace."""
    result = run(*files, "--gpus", "4", "--checkpointable", "0", "--restart", "0s", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["jobs"], found["horizon_s"], found["capacity_mgpu"]) == (3, 1_200, 4_000)
    (ours,) = found["results"]
    assert ours["policy"] == "tidegate"
    quality = ours["quality"]
    assert quality["due"]["max_s"] == 300
    assert quality["preemptions"] == 1
    assert quality["lost_mgpu_s"] == 4_000 * 900
    assert (quality["finished"], quality["unfinished"]) == (3, 0)
    assert ours["teams"]["a"]["short_mgpu_s"] == 4_000 * 300


def test_the_same_input_gives_the_same_bytes(files: list[str]) -> None:
    arguments = [*files, "--gpus", "4", "--baselines", "--failures-every", "1h", "--json"]
    first = run(*arguments)
    assert first.exit_code == 0
    assert [one["policy"] for one in json.loads(first.stdout)["results"]] == ALL
    assert run(*arguments).stdout == first.stdout
    assert run(*arguments, "--seed", "2").stdout != first.stdout


def test_time_starts_at_the_first_submission(files: list[str], tmp_path: Path) -> None:
    """The same jobs in seconds since 1970, and the rows in another order.

    Planted: a horizon counted from second 0; rows numbered as they come; the first rows of the
    file taken for the first jobs.
    """
    for more in ([], ["--first", "2"], ["--failures-every", "1h"]):
        arguments = [*files, "--gpus", "4", "--baselines", "--json", *more]
        (tmp_path / "jobs.csv").write_text("\n".join(JOBS))
        before = run(*arguments)
        assert before.exit_code == 0
        rows = [row.split(",") for row in JOBS[1:]]
        late = [",".join([id, str(int(at) + 1_700_000_000), *rest]) for id, at, *rest in rows]
        (tmp_path / "jobs.csv").write_text("\n".join([JOBS[0], *reversed(late)]))
        assert run(*arguments).stdout == before.stdout


def test_a_table_with_a_column_for_each_policy(files: list[str]) -> None:
    """Under FIFO a waits from 600 for b's end, to the cycle at 10,020: 2.62 h."""
    result = run(*files, "--gpus", "4", "--only", "static", "--only", "fifo")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["static", "fifo"]
    rows = {line[:26].strip(): line[26:].split() for line in lines[1:]}
    assert rows["jobs refused"] == ["2", "0"]
    assert rows["wait max (h)"] == ["0.00", "2.62"]
    assert result.stderr.splitlines() == [
        "Omitted, because they have no GPU, no run or no submit time: 1 row of jobs.csv.",
        "Without a guarantee: b",
        "3 jobs in 20m on 1 node with 4 GPUs.",
    ]


def test_what_is_not_read_of_a_file_is_told_once(files: list[str], tmp_path: Path) -> None:
    """Also beside JSON. Planted: columns dropped without a word; jobs without a sum, too."""
    arguments = [*files, "--gpus", "4", "--only", "fifo", "--json"]
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s,gpus,vc,cpus,note\n0,9,1,a,2,\n")
    told = "Not used of jobs.csv: cpus, note."
    assert run(*arguments).stderr.splitlines() == [told]
    rest = "1 -1 -1 1 200 -1 {} 3 4 -1 2 -1 -1 -1\n"
    lines = f"1 0 5 100 {rest.format(1)}2 7 0 10 {rest.format(4)}"
    (tmp_path / "jobs.csv").write_text(lines)
    told = "Omitted, because no line sums up their parts: 1 job of jobs.csv."
    assert run(*arguments).stderr.splitlines() == [told]


def test_what_quota_could_never_let_start_is_refused(files: list[str], tmp_path: Path) -> None:
    """As the portal does. Planted: it waits for good, and its team is said to have been denied its
    guarantee."""
    rows = "0,100,4,a\n0,900,3,a\n1000,5,1,b\n"
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s,gpus,vc\n" + rows)
    (tmp_path / "quotas.csv").write_text("team,quota_gpus,borrow_limit_gpus\na,2,1\nb,2,\n")
    figures = json.loads(run(*files, "--gpus", "4", "--json").stdout)["results"][0]["quality"]
    told = {name: figures[name] for name in ("refused", "finished", "unfinished", "shortfall")}
    assert told == {"refused": 1, "finished": 2, "unfinished": 0, "shortfall": 0.0}


def test_cpu_and_memory_count_where_the_nodes_say_what_they_have(
    files: list[str], tmp_path: Path
) -> None:
    """Both jobs want 3 of 4 CPUs; one has all of its node's memory. Planted: a word of neither."""
    (tmp_path / "jobs.csv").write_text(
        "submit_s,duration_s,gpus,vc,cpu_milli,mem_mib\n0,600,1,a,3000,9\n1,600,1,a,3000,1\n"
    )
    nodes = tmp_path / "nodes.csv"

    def told_and_waited(*fleet: str) -> tuple[list[str], int]:
        ran = run(*files, *fleet, "--only", "fifo", "--json")
        waits = json.loads(ran.stdout)["results"][0]["quality"]["waits"]
        return ran.stderr.splitlines(), waits["max_s"]

    told = (
        "Not checked on 1 of 1 node: the {} of jobs, because the nodes' own is unknown. Add "
        "column {} to {}."
    )
    cpu, memory = ("milli-CPU", "cpu_milli"), ("MiB of memory", "memory_mib")
    both = [told.format(*one, "a file for --nodes") for one in (cpu, memory)]
    assert told_and_waited("--gpus", "4") == (both, 59)
    nodes.write_text("sn,gpu,model,cpu_milli\nn,4,x,4000\n")
    only = [told.format(*memory, "nodes.csv")]
    assert told_and_waited("--nodes", str(nodes)) == (only, 599)
    nodes.write_text("sn,gpu,model,cpu_milli,memory_mib\nn,4,x,8000,9\n")
    assert told_and_waited("--nodes", str(nodes)) == ([], 599)
    nodes.write_text("sn,gpu,model,cpu_milli,mem_mib\nn,4,x,8000,8\n")
    short = "too few nodes have the CPU or memory that these jobs need"
    refused = [f"Refused, because {short}: 1 job, the first is line 2."]
    assert told_and_waited("--nodes", str(nodes)) == (refused, 59)


def test_policies_of_a_quota_file_are_told_not_to_count(files: list[str], tmp_path: Path) -> None:
    """Planted: no word."""
    quotas = tmp_path / "company.yaml"
    quotas.write_text("policy: {grace_period_s: 30}\nteams: {a: {guaranteed: 4}, b: {}}\n")
    arguments = [str(quotas) if one.endswith("quotas.csv") else one for one in files]
    told = run(*arguments, "--gpus", "4", "--only", "fifo").stderr
    assert "Not used of company.yaml: grace_period_s; give a policy with --policy." in told


def test_departments_have_figures_of_their_own(files: list[str], tmp_path: Path) -> None:
    """a's guarantee is its department's: b's GPUs are taken back for it as before."""
    arguments = [*files, "--gpus", "4", "--checkpointable", "0", "--restart", "0s"]
    flat = {line[:26].strip(): line[26:].strip() for line in run(*arguments).stdout.splitlines()}
    assert (flat["worst department"], flat["in a department (h)"]) == ("-", "-")
    (tmp_path / "quotas.csv").write_text("team,quota_gpus\nd,4\nd/a,0\nb,0\n")
    tree = {line[:26].strip(): line[26:].strip() for line in run(*arguments).stdout.splitlines()}
    # A second of a's work is a second of 4 GPUs: 300 s of grace, then 100 s.
    assert (tree["worst department"], tree["in a department (h)"]) == ("0.7500", "0.08")
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["departments_guaranteed_mgpu"] == {"d": 4_000}
    department = found["results"][0]["departments"]["d"]
    assert department["short_mgpu_s"] == 4_000 * 300
    # Planted: those of teams, where `a`, which has no guarantee, is never due.
    assert (department["due"]["count"], department["due"]["p95_s"]) == (1, 300)
    assert department["due_max_s"] == 300
    assert found["results"][0]["teams"]["d/a"]["due_max_s"] is None


def test_json_tells_the_ranks_that_counted(files: list[str], tmp_path: Path) -> None:
    """Planted: the ranks of the quotas' file, where the policy has others."""
    quotas, policy = tmp_path / "q.yaml", tmp_path / "p.yaml"
    quotas.write_text("organization: o\ngpus: 4\npolicy: {rank: [a]}\nteams: {a: {}, b: {}}\n")
    arguments = [files[0], "--quotas", str(quotas), "--json"]
    assert json.loads(run(*arguments).stdout)["ranks"] == {"a": 1}
    policy.write_text("rank: [o/b, a]\n")
    found = json.loads(run(*arguments, "--policy", str(policy)).stdout)
    assert found["ranks"] == {"a": 1, "b": 2}


def test_jobs_that_come_at_once_say_nothing_of_the_time_until_the_last(files: list[str]) -> None:
    """No second lies between the first submission and the last.

    Planted: a share of nothing told as 0.
    """
    arguments = [*files, "--gpus", "4", "--only", "fifo", "--first", "1"]
    result = run(*arguments)
    assert result.stderr.splitlines()[-1] == "1 job in 0s on 1 node with 4 GPUs."
    rows = {line[:26].strip(): line[26:].split() for line in result.stdout.splitlines()[1:]}
    unknown = ("utilisation", "utilisation / bound", "goodput / bound", "goodput")
    assert [rows[name] for name in (*unknown, "waste / useful")] == [["-"]] * 4 + [["0.00000"]]
    (fifo,) = json.loads(run(*arguments, "--json").stdout)["results"]
    assert [fifo["quality"][name] for name in ("utilisation", "of_bound", "goodput")] == [None] * 3


def test_a_policy_that_refuses_all_has_no_figures(files: list[str], tmp_path: Path) -> None:
    """Planted: what nobody waited for told as a wait of 0.00, and no figure of it as a crash."""
    (tmp_path / "quotas.csv").write_text("team,quota_gpus\na,0\nb,0\n")
    result = run(*files, "--gpus", "4", "--only", "static")
    assert result.exit_code == 0
    rows = {line[:26].strip(): line[26:].split() for line in result.stdout.splitlines()[1:]}
    known = {name: row[0] for name, row in rows.items() if row != ["-"]}
    assert known == {
        "utilisation": "0.0000",
        "goodput": "0.0000",
        "utilisation / bound": "0.0000",
        "idle, a fitting job waits": "0.0000",
        "quota": "0.0000",
        "place in the guarantee": "0.0000",
        "reservation": "0.0000",
        "claim": "0.0000",
        "order of service": "0.0000",
        "next cycle": "0.0000",
        "a baseline's rules": "0.0000",
        "idle, fits on no nodes": "0.0000",
        "idle, too few for a job": "0.0000",
        "idle, nobody waits": "1.0000",
        "goodput / bound": "0.0000",
        "lost (GPU-h)": "0",
        "restarts (GPU-h)": "0",
        "preemptions": "0",
        "of a job: p99": "0",
        "of a job: max": "0",
        "node failures": "0",
        "jobs finished": "0",
        "jobs refused": "3",
        "jobs never started or done": "0",
    }


def test_a_page_with_curves_and_figures(files: list[str], tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    result = run(*files, "--gpus", "4", "--only", "fifo", "--picture", str(page))
    assert result.exit_code == 0
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "<title>jobs.csv on 4 GPUs</title>" in text
    assert text.count("<svg") == 1
    assert "http" not in text
    assert "<td>wait max (h)</td><td>2.62</td>" in text


def test_curves_of_all_policies_are_on_one_scale(files: list[str], tmp_path: Path) -> None:
    """Planted: each line was scaled to its own most, so that no two could be compared."""
    page = tmp_path / "out.html"
    run(*files, "--gpus", "4", "--only", "fifo", "--only", "static", "--picture", str(page))
    tops = re.findall(r'axis (left|right)"><span>([0-9,]+)</span>', page.read_text())
    most = re.findall(r"([0-9,]+) at most asked for", page.read_text())
    assert len(set(most)) == 2
    assert tops == [("left", "4"), ("right", max(most, key=int))] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Error: How large is the fleet? Give --gpus, or --nodes FILE."),
        (["--gpus", "2"], "Error: the guarantees sum to 4 GPUs and the fleet has 2; scale them"),
        (["--gpus", "4", "--only", "lottery"], "Error: There is no policy 'lottery'. Known:"),
        (["--gpus", "4", "--cycle", "0s"], "Error: cycle_s is 0; choose 1 to 86400"),
        (["--gpus", "4", "--cycle", "banana"], "Error: --cycle: 'banana' is not a duration. "),
        (
            ["--gpus", "4", "--failures-every", "x"],
            "Error: --failures-every: 'x' is not a duration",
        ),
        (
            ["--gpus", "4", "--failures-every", "0s"],
            "Error: --failures-every 0s: omit it for ",
        ),
        (
            ["--gpus", "4", "--picture", "f.png"],
            "Error: --picture f.png: it is an HTML page; give a name that ends in .html or .htm; "
            "for a PNG or a PDF, open the page in a browser and take a screenshot or print it.",
        ),
        # Planted: all policies ran, whatever --only named.
        (
            ["--gpus", "4", "--only", "fifo", "--baselines"],
            "Error: Give either --baselines (all policies) or --only, not both.",
        ),
        (["--gpus", "4", "--policy", "nowhere.yaml"], "Error: nowhere.yaml: "),
        (["--gpus", "4", "--picture", "no/such/place.html"], "Error: no/such/place.html: No such"),
    ],
)
def test_wrong_use_is_one_sentence(files: list[str], arguments: list[str], words: str) -> None:
    result = run(*files, *arguments)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(words)


def test_a_bad_row_is_named(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("\n".join([*JOBS, "y,5,z,1,a"]))
    result = run(*files, "--gpus", "4")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].endswith(
        "jobs.csv, line 6: duration_s is 'z'; a whole number is needed"
    )
