"""Traces and node lists: what each format means, and what is said of a bad row."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from simulator.traces import Machine, TraceError, read_machines, read_trace, with_alternatives
from simulator.workload import TraceJob, gang

PHILLY = "job_id,submit_s,duration_s,gpus,vc\n7,0,100,8,vc1\n8,5,60,12,vc2\n9,6,0,1,vc1\n"
OPENB = (
    "job_id,submit_s,start_s,end_s,gpus,gpu_milli,cpu_milli,mem_mib,gpu_type,qos,status\n"
    "p0,10,12,112,1,460,6000,12288,,LS,Running\n"
    "p1,11,11,21,2,1000,6000,12288,T4|P100,BE,Failed\n"
    "p2,12,,30,1,1000,1,1,,BE,Pending\n"
    "p3,13,13,30,0,0,1,1,,BE,Running\n"
)
SWF = (
    "; Computer: of the archive\n"
    "1 0 5 100 16 -1 -1 16 200 -1 1 3 4 -1 2 -1 -1 -1\n"
    "2 10 0 50 -1 -1 -1 8 -1 -1 1 5 4 -1 2 -1 -1 -1\n"
    "3 11 0 -1 8 -1 -1 8 60 -1 5 5 4 -1 2 -1 -1 -1\n"
)


def written(folder: Path, text: str | bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_philly_jobs_become_gangs_of_equal_parts(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, PHILLY), gpus_per_node=8)
    assert trace.format == "philly"
    assert trace.left_out == 1
    assert trace.jobs == (
        TraceJob("7", "vc1", "vc1", 0, 100, 8_000, 1),
        TraceJob("8", "vc2", "vc2", 5, 60, 6_000, 2),
    )


def test_jobs_without_an_id_are_known_by_their_line(tmp_path: Path) -> None:
    """Planted: what had no column job_id was read as SWF."""
    text = "submit_s,duration_s,gpus,vc\n0,100,8,vc1\n5,60,12,vc2\n"
    trace = read_trace(written(tmp_path, text), gpus_per_node=8)
    assert (trace.format, [job.id for job in trace.jobs]) == ("philly", ["line 2", "line 3"])


def test_names_of_columns_may_be_quoted_like_what_is_in_them(tmp_path: Path) -> None:
    """Planted: the first line cut at commas with its quotes left in, so that no column was known,
    of a trace or of nodes; a quote behind a blank left in."""
    text = '"submit_s", "duration_s","gpus","vc"\n0,100, "8","a, b"\n'
    trace = read_trace(written(tmp_path, text), gpus_per_node=8)
    assert trace.jobs == (TraceJob("line 2", "a, b", "a, b", 0, 100, 8_000),)
    nodes = written(tmp_path, '"sn","gpu","model"\n"n","8","G2"\n')
    assert read_machines(nodes) == (Machine("n", 8_000, frozenset({"G2"})),)


def test_a_column_of_time_limits_is_read_and_columns_that_say_nothing_are_told(
    tmp_path: Path,
) -> None:
    """An empty limit is none.

    Planted: the column dropped, and limits drawn instead; the column of the team told as not used;
    `vc` not told where the users are the teams.
    """
    text = "submit_s,duration_s,gpus,vc,time_limit_s,user,status\n0,9,1,a,60,u,x\n1,9,1,b,,u,x\n"
    trace = read_trace(written(tmp_path, text), gpus_per_node=8)
    assert [job.time_limit_s for job in trace.jobs] == [60, None]
    assert trace.unused == ("status",)
    trace = read_trace(written(tmp_path, text), gpus_per_node=8, team_column="user")
    assert trace.unused == ("vc", "status")
    limited = OPENB.replace(",status\n", ",time_limit_s\n").replace("Running", "200")
    trace = read_trace(
        written(tmp_path, limited.replace("Failed", "").replace("Pending", "")), gpus_per_node=8
    )
    assert [job.time_limit_s for job in trace.jobs] == [200, None]
    assert trace.unused == ()


def test_a_whole_number_may_have_a_point_and_zeros(tmp_path: Path) -> None:
    """As data frames write a column of whole numbers that has empty cells."""
    path = written(tmp_path, HEADER + "1,0.0,60.00,4.,a\n")
    (job,) = read_trace(path, gpus_per_node=8).jobs
    assert (job.submit_s, job.duration_s, job.mgpu_per_node) == (0, 60, 4_000)


@pytest.mark.parametrize("text", [".0", "1.01", "1e3", "1.0.0", "-0.5", "."])
def test_what_is_no_whole_number_is_told(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, HEADER + f"1,{text},60,4,a\n")
    with pytest.raises(TraceError, match=rf"submit_s is '{re.escape(text)}'; a whole number"):
        read_trace(path, gpus_per_node=8)


def test_cpu_and_memory_are_of_the_whole_job_as_its_gpus_are(tmp_path: Path) -> None:
    """Planted: each of two nodes had all of it; an empty one was read as 0."""
    text = "submit_s,duration_s,gpus,vc,cpu_milli,mem_mib\n0,9,12,a,7001,64\n1,9,1,a,,0\n"
    trace = read_trace(written(tmp_path, text), gpus_per_node=8)
    wants = [(job.node_count, job.cpu_milli, job.memory_mib) for job in trace.jobs]
    assert wants == [(2, 3_501, 32), (1, None, 0)]
    ours = written(tmp_path, text.replace("mem_mib", "memory_mib"))
    assert read_trace(ours, gpus_per_node=8) == trace
    with pytest.raises(TraceError, match="line 2: cpu_milli is 1000000000001; at most 1,000,000"):
        read_trace(written(tmp_path, text.replace("7001", "1000000000001")), gpus_per_node=8)
    bad = written(tmp_path, text.replace("7001", "7.5"))
    with pytest.raises(TraceError, match=r"line 2: cpu_milli is '7\.5'; a whole number is needed"):
        read_trace(bad, gpus_per_node=8)


def test_nothing_may_stand_twice_where_one_would_be_dropped(tmp_path: Path) -> None:
    """Planted: the last of two columns read, and a fleet with the GPUs of one of two nodes."""
    text = PHILLY.replace("job_id", "vc", 1)
    with pytest.raises(TraceError, match="line 1: column 'vc' is there twice"):
        read_trace(written(tmp_path, text), gpus_per_node=8)
    with pytest.raises(TraceError, match="line 3: node 'n' is there twice"):
        read_machines(written(tmp_path, "sn,gpu,model\nn,8,G2\nn,4,G2\n"))


def test_a_packed_file_is_read_like_a_plain_one(tmp_path: Path) -> None:
    plain = read_trace(written(tmp_path, PHILLY), gpus_per_node=8)
    packed = written(tmp_path, gzip.compress(PHILLY.encode()), "trace.gz")
    assert read_trace(packed, gpus_per_node=8) == plain


def test_philly_users_are_the_teams_where_no_other_column_is_named(tmp_path: Path) -> None:
    text = "job_id,submit_s,duration_s,gpus,cpus,nodes,user,status\n1,0,9,1,0,1,u2,Pass\n"
    path = written(tmp_path, text)
    (job,) = read_trace(path, gpus_per_node=8).jobs
    assert (job.team, job.user) == ("u2", "u2")
    (job,) = read_trace(path, gpus_per_node=8, team_column="status").jobs
    assert (job.team, job.user) == ("Pass", "u2")


def test_openb_pods_may_use_a_part_of_a_gpu_or_one_of_several_models(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, OPENB), gpus_per_node=8)
    assert trace.left_out == 2
    assert trace.jobs == (
        TraceJob("p0", "LS", "LS", 10, 100, 460, cpu_milli=6_000, memory_mib=12_288),
        TraceJob(
            "p1",
            "BE",
            "BE",
            11,
            10,
            2_000,
            features=frozenset({"T4|P100"}),
            cpu_milli=6_000,
            memory_mib=12_288,
        ),
    )


def test_openb_nodes_are_the_fleet_and_have_what_any_alternative_names(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,0,\nn1,16000,9,2,T4\nn2,,,8,G2\n"
    machines = read_machines(written(tmp_path, nodes))
    assert machines == (
        Machine("n1", 2_000, frozenset({"T4"}), 16_000, 9),
        Machine("n2", 8_000, frozenset({"G2"})),
    )
    jobs = read_trace(written(tmp_path, OPENB), gpus_per_node=8).jobs
    assert [one.features for one in with_alternatives(machines, jobs)] == [
        {"T4", "T4|P100"},
        {"G2"},
    ]


def test_swf_processors_are_gpus_and_what_did_not_run_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, SWF, "log.swf")
    trace = read_trace(path, gpus_per_node=8)
    assert (trace.format, trace.left_out) == ("swf", 1)
    assert trace.jobs == (
        TraceJob("1", "group4", "user3", 0, 100, 8_000, 2, 200),
        TraceJob("2", "group4", "user5", 10, 50, 8_000, 1, None),
    )
    jobs = read_trace(path, gpus_per_node=8, team_column="queue").jobs
    assert {job.team for job in jobs} == {"queue2"}


def test_of_a_job_in_parts_the_line_that_sums_it_up_is_read(tmp_path: Path) -> None:
    """Job 1 ran in two parts and job 6 in one, whose lines stand behind their sum and before it.
    Of job 5 there are only parts: it is left out, as one.

    Planted: a second line of a job refused; a part read as a job; jobs without a sum not counted.
    """
    rest = "16 -1 -1 16 200 -1 {} 3 4 -1 2 -1 -1 -1\n"
    lines = [
        ("1 0 5 100", 1),
        ("1 -1 5 60", 2),
        ("1 -1 9 40", 3),
        ("5 7 0 10", 2),
        ("5 -1 9 10", 4),
        ("6 9 0 20", 4),
        ("6 9 0 30", 0),
        ("7 9 0 50", 5),
    ]
    path = written(tmp_path, "".join(f"{begin} {rest.format(of)}" for begin, of in lines))
    trace = read_trace(path, gpus_per_node=8)
    assert [(job.id, job.duration_s) for job in trace.jobs] == [("1", 100), ("6", 30), ("7", 50)]
    assert (trace.left_out, trace.in_parts) == (0, 1)
    path.write_text(f"5 7 0 10 {rest.format(3)}")
    with pytest.raises(TraceError, match="lines of partial executions only; add the lines that"):
        read_trace(path, gpus_per_node=8)


@pytest.mark.parametrize(
    ("gpus", "per_node", "split"),
    [
        (1, 8, (1_000, 1)),
        (8, 8, (8_000, 1)),
        (12, 8, (6_000, 2)),
        (20, 8, (5_000, 4)),
        (13, 8, (1_000, 13)),
        (128, 8, (8_000, 16)),
        (3, 1, (1_000, 3)),
    ],
)
def test_a_gang_takes_as_few_nodes_as_hold_equal_parts(
    gpus: int, per_node: int, split: tuple[int, int]
) -> None:
    assert gang(gpus, per_node) == split


HEADER = "job_id,submit_s,duration_s,gpus,vc\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER + "1,0,5,1,a\n2,x,5,1,a\n", "trace.csv, line 3: submit_s is 'x'; a whole number"),
        (HEADER + "1,0,5,1\n", "trace.csv, line 2: 4 columns; the header has 5"),
        (HEADER + "1,0,-5,1,a\n", "trace.csv, line 2: duration_s is -5; at least 0 is needed"),
        # Planted: equal parts of it were looked for without an end.
        (HEADER + "1,0,5,1000001,a\n", "trace.csv, line 2: the job has 1000001 GPUs; at most 1,0"),
        (HEADER + "1,0,5,1,\n", "trace.csv, line 2: vc is empty"),
        (HEADER + "1,0,5,1,a\n\n1,0,5,1,a\n", "trace.csv, line 4: job '1' is there twice"),
        (HEADER + '1,0,5,1,"a\n', "trace.csv, line 2: unexpected end of data"),
        (HEADER + f"1,0,{10**20},1,a\n", "trace.csv: it submits for more than 100 years, or"),
        (HEADER + f"1,0,5,1,a\n2,{10**20},5,1,a\n", "trace.csv: it submits for more than 100"),
        (HEADER, "trace.csv: no job in it ran on a GPU"),
        ("", "trace.csv: it is empty"),
        ("when,gpus\n", "trace.csv, line 1: unknown columns; there are readers for traces with"),
        ("job_id,when\n", "trace.csv, line 1: unknown columns; there are readers for"),
        (
            HEADER.replace(",", ";") + "1;0;5;1;a\n",
            "trace.csv, line 1: its columns are separated by ';'; separate them by commas",
        ),
        (HEADER.replace(",", "\t"), "line 1: its columns are separated by tabs; separate them by"),
        (HEADER.replace(",", " "), "line 1: its columns are separated by blanks; separate them"),
        ("submit_s\n0\n", "trace.csv, line 1: unknown columns; there are readers for"),
        ('"submit_s,"gpus"\n', "trace.csv, line 1: ',' expected after '\"'"),
        (
            HEADER[:-1] + ",time_limit_s\n1,0,5,1,a,0\n",
            "line 2: time_limit_s is 0; at least 1 is needed",
        ),
        (
            HEADER[:-1] + f",time_limit_s\n1,0,5,1,a,{10**20}\n",
            "trace.csv: it submits for more than 100 years, or a job runs or may run so long; are",
        ),
        (SWF + "4 5 6\n", "trace.csv, line 5: 3 fields; SWF has 18"),
        (SWF + SWF, "trace.csv, line 6: job 1 is there twice"),
        ("1 0 5 100 x -1 -1 16 200 -1 1 3 4 -1 2 -1 -1 -1\n", "line 1: SWF has numbers only"),
        (b"\xff\xfe", "trace.csv: it is no text in UTF-8"),
        pytest.param(
            # Without the time of day, or every worker of the suite would name this test otherwise.
            gzip.compress(PHILLY.encode(), mtime=0)[:-9],
            "trace.csv: Compressed file ended before",
            id="gzip-cut-short",
        ),
        pytest.param(
            b"\x1f\x8bnonsense", "trace.csv: Unknown compression method", id="not-gzip-after-all"
        ),
    ],
)
def test_a_bad_file_is_named_with_the_line(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words.replace("(", r"\(")):
        read_trace(written(tmp_path, text), gpus_per_node=8)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere: No such file"):
        read_trace(tmp_path / "nowhere", gpus_per_node=8)


def test_a_column_for_the_team_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="line 1: there is no column 'group' to tell the team"):
        read_trace(written(tmp_path, PHILLY), gpus_per_node=8, team_column="group")
    with pytest.raises(TraceError, match="SWF names no 'vc'"):
        read_trace(written(tmp_path, SWF), gpus_per_node=8, team_column="vc")


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n", "line 1: the columns sn, gpu"), ("sn,gpu,model\nn,0,\n", "no node has a GPU")],
)
def test_a_fleet_needs_gpus(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read_machines(written(tmp_path, text))
