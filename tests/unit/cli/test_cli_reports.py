"""`tidegate quota` and `tidegate report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server
from cli.output import duration, gpus, plain
from primitives.currencies import money_text
from primitives.units import gpu_hours

USE = {
    "in_use_mgpu": 700_000,
    "protected_mgpu": 399_500,
    "borrowed_mgpu": 300_000,
    "lent_mgpu": 0,
    "available_mgpu": -500,
    "waiting_mgpu": 0,
}
QUOTA = {
    "node": "ai-company/production",
    "pool": "h100",
    "device": "gpu",
    "guaranteed_mgpu": 400_000,
    "borrow_limit_mgpu": None,
    "lend_limit_mgpu": 50_000,
    "use": USE,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_quota_get(server: Server) -> None:
    server.routes["GET quotas"] = {"items": [QUOTA], "next": None}
    ran = server.run("quota", "get", "ai-company/production/", "--pool", "h100")
    assert server.sent == ["GET quotas?pool=h100&node=ai-company%2Fproduction&limit=500"]
    assert ran.out.splitlines() == [
        "NODE                   POOL  GUARANTEED  BORROW LIMIT  LEND LIMIT  IN USE  UNUSED"
        "  BORROWED  LENT  CAN START     WAITING",
        "ai-company/production  h100         400          none          50     700     0.5"
        "       300     0  0 (0.5 over)        0",
    ]
    room = {**QUOTA, "use": {**USE, "available_mgpu": 30_000}}
    server.routes["GET quotas"] = {"items": [room], "next": None}
    assert server.run("quota", "get", "a").out.splitlines()[1].split()[-2:] == ["30", "0"]
    server.routes["GET quotas"] = {"items": [QUOTA], "next": None}
    assert json.loads(server.run("quota", "get", "a", "--subtree", "-o", "json").out) == [QUOTA]
    assert server.sent[-1] == "GET quotas?subtree=a&limit=500"


def test_quota_get_fits_80_columns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    server.routes["GET quotas"] = {"items": [{**QUOTA, "node": f"{'x' * 50}/nlp"}], "next": None}
    assert server.run("quota", "get", "x").out.splitlines() == [
        "NODE           POOL  GUARANTEED  IN USE  UNUSED  BORROWED  CAN START     WAITING",
        "…xxxxxxxx/nlp  h100         400     700     0.5       300  0 (0.5 over)        0",
    ]
    monkeypatch.setenv("COLUMNS", "120")
    wide = server.run("quota", "get", "x").out.splitlines()
    assert [len(line) for line in wide] == [120, 120]
    assert wide[0].split()[1:4] == ["POOL", "GUARANTEED", "BORROW"]


def test_quotas_of_cores_are_told_apart(server: Server) -> None:
    """Numbers of both stand in one column. Mutant: OF is told only where all are of cores."""
    cores = {**QUOTA, "pool": "cpu", "device": "cpu"}
    server.routes["GET quotas"] = {"items": [cores, QUOTA], "next": None}
    lines = server.run("quota", "get", "a").out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["NODE", "POOL", "OF", "GUARANTEED"],
        ["ai-company/production", "cpu", "cores", "400"],
        ["ai-company/production", "h100", "GPUs", "400"],
    ]


def test_no_quota(server: Server) -> None:
    server.routes["GET quotas"] = {"items": [], "next": None}
    ran = server.run("quota", "get", "a/b", "--pool", "tpu")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "a/b has no quota in tpu.\n")


NLP = "ai-company/research/nlp"


def a_report(**changes: Any) -> dict[str, Any]:
    amounts = {
        "guaranteed_mgpu_s": 3_600_000,
        "borrowed_mgpu_s": 1_800_000,
        "unpaid_mgpu_s": 0,
        "fault_mgpu_s": 0,
        "cost_nano": 2_500_000_000,
        "jobs": 2,
    }
    sums = {"totals": amounts, "totals_by_device": [{**amounts, "device": "gpu"}]}
    return {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "as_of": "2026-11-21T12:00:00Z",
        "currency": "EUR",
        "time_zone": "Europe/Berlin",
        "by": ["team", "pool"],
        "rows": [
            {
                **amounts,
                "keys": {"team": NLP, "pool": "h100"},
                "device": "gpu",
                "currency": "EUR",
            }
        ],
        "by_currency": [{"currency": "EUR", "organizations": ["ai-company"], **sums}],
        **sums,
        "check": {"is_equal": True},
        "corrections": [],
        **changes,
    }


def test_chargeback(server: Server) -> None:
    server.routes["GET reports/chargeback"] = a_report()
    ran = server.run(
        *("report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01T00:00:00Z"),
        *("--team", "a/b", "--by", "user,day", "--pool", "h100", "--user", "ana"),
        *("--cluster", "local", "--priority-class", "low", "--usage-class", "borrowed"),
    )
    assert dict(server.requests[0].url.params) == {
        "by": "user,day",
        "start": "2026-11-01",
        "end": "2026-12-01T00:00:00Z",
        "node": "a/b",
        "pool": "h100",
        "user": "ana",
        "cluster": "local",
        "priority_class": "low",
        "usage_class": "borrowed",
    }
    assert ran.out.splitlines() == [
        "TEAM                     POOL  GUARANTEED  BORROWED  COST EUR  JOBS",
        "ai-company/research/nlp  h100       1.000     0.500      2.50     2",
        "total                               1.000     0.500      2.50     2",
    ]
    assert ran.err == (
        "GPU-hours from 2026-11-01T00:00:00Z to 2026-12-01T00:00:00Z, as of 2026-11-21T12:00:00Z. "
        "Days of Europe/Berlin.\n"
    )


def test_unpaid_and_free_use_have_columns_where_there_is_some(server: Server) -> None:
    """Against: the columns of the first row only."""
    report = a_report()
    amounts = {**report["totals"], "unpaid_mgpu_s": 360_000, "fault_mgpu_s": 36_000}
    report["by_currency"][0]["totals"] = amounts
    report["by_currency"][0]["totals_by_device"] = [{**amounts, "device": "gpu"}]
    server.routes["GET reports/chargeback"] = report
    ran = server.run("report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01")
    assert [line.split()[-6:] for line in ran.out.splitlines()] == [
        ["BORROWED", "UNPAID", "FREE", "(FAULTS)", "COST", "EUR", "JOBS"][-6:],
        ["1.000", "0.500", "0.000", "0.000", "2.50", "2"],
        ["1.000", "0.500", "0.100", "0.010", "2.50", "2"],
    ]


def test_a_chargeback_of_cores_and_gpus_sums_each_on_its_own(server: Server) -> None:
    """Mutants: one total of both, under GPU-hours; the rows of cores bear no unit."""
    report = a_report()
    amounts = report["totals"]
    report["rows"].append(
        {**report["rows"][0], "keys": {"team": NLP, "pool": "cpu"}, "device": "cpu"}
    )
    report["totals_by_device"].append({**amounts, "device": "cpu"})
    report["by_currency"][0]["totals"] = {name: 2 * amount for name, amount in amounts.items()}
    server.routes["GET reports/chargeback"] = report
    period = ("--start", "2026-11-01", "--end", "2026-12-01")
    ran = server.run("report", "chargeback", *period)
    assert ran.err.startswith("GPU-hours (core-hours where marked) from 2026-11-01")
    assert ran.out.splitlines() == [
        "TEAM                     POOL  GUARANTEED        BORROWED          COST EUR  JOBS",
        "ai-company/research/nlp  h100  1.000             0.500                 2.50     2",
        "ai-company/research/nlp  cpu   1.000 core-hours  0.500 core-hours      2.50     2",
        "total                          1.000             0.500                 2.50     2",
        "total                          1.000 core-hours  0.500 core-hours      2.50     2",
        "total                    all   -                 -                     5.00     4",
    ]
    report["rows"] = report["rows"][1:]
    del report["totals_by_device"][0]
    ran = server.run("report", "chargeback", *period)
    assert ran.out.splitlines()[1:] == [
        "ai-company/research/nlp  cpu        1.000     0.500      2.50     2",
        "total                               1.000     0.500      2.50     2",
    ]
    assert ran.err.startswith("core-hours from 2026-11-01")


def test_each_currency_of_a_chargeback_has_a_table_of_its_own(server: Server) -> None:
    """Against: every row in each table, both totals of the whole report."""
    report = a_report(currency=None)
    (row,), (euros,) = report["rows"], report["by_currency"]
    report["rows"].append(
        {**row, "keys": {"team": "other/squatters", "pool": "h100"}, "currency": "USD"}
    )
    report["by_currency"].append({**euros, "currency": "USD", "organizations": ["other"]})
    server.routes["GET reports/chargeback"] = report
    ran = server.run(
        *("report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01"),
    )
    assert (ran.exit_code, ran.out.splitlines()) == (
        0,
        [
            "TEAM                     POOL  GUARANTEED  BORROWED  COST EUR  JOBS",
            "ai-company/research/nlp  h100       1.000     0.500      2.50     2",
            "total                               1.000     0.500      2.50     2",
            "",
            "TEAM             POOL  GUARANTEED  BORROWED  COST USD  JOBS",
            "other/squatters  h100       1.000     0.500      2.50     2",
            "total                       1.000     0.500      2.50     2",
        ],
    )


def test_without_a_period_the_server_decides_on_this_month(server: Server) -> None:
    """Against: this month of UTC, which begins at another hour than the organization's."""
    server.routes["GET reports/chargeback"] = a_report()
    server.run("report", "chargeback")
    assert dict(server.requests[0].url.params) == {"by": "team,pool"}


@pytest.mark.parametrize("half", ["--start", "--end"])
def test_half_a_period_is_refused_with_an_example(server: Server, half: str) -> None:
    ran = server.run("report", "chargeback", half, "2026-11-01")
    assert (ran.exit_code, server.requests) == (2, [])
    assert "such as --start 2026-11-01 --end 2026-12-01" in ran.err


def test_a_report_names_prices_that_were_added_after_the_fact(server: Server) -> None:
    line = {
        "usage_class": "borrowed",
        "pool": "h100",
        "organization": "ai-company",
        "start": "2026-11-01T00:00:00Z",
        "added_by": "fin@ai-company",
        "added_at": "2026-11-20T08:00:00Z",
    }
    server.routes["GET reports/chargeback"] = a_report(corrections=[line])
    ran = server.run("report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01")
    assert ran.err.splitlines()[1:] == [
        "Priced after the fact: borrowed h100 of ai-company from 2026-11-01T00:00:00Z, added by "
        "fin@ai-company at 2026-11-20T08:00:00Z."
    ]


def test_a_report_that_does_not_add_up_fails(server: Server) -> None:
    server.routes["GET reports/chargeback"] = a_report(check={"is_equal": False})
    period = ("--start", "2026-11-01", "--end", "2026-12-01")
    assert server.run("report", "chargeback", *period).exit_code == 2


def test_what_moved_since_the_period_before(server: Server) -> None:
    nothing = dict.fromkeys(("price_nano", "usage_class_nano", "new_nano", "ended_nano"), 0)
    move = {
        **nothing,
        "before_nano": 2_000_000_000,
        "after_nano": 500_000_000,
        "change_nano": -1_500_000_000,
        "volume_nano": -1_500_000_000,
        "currency": "EUR",
    }
    server.routes["GET reports/chargeback/moves"] = {
        "before": {"start": "2026-10-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"},
        "after": {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"},
        "rows": [{**move, "team": NLP}],
        "totals": [move],
    }
    ran = server.run("report", "moves", "--start", "2026-11-01", "--end", "2026-12-01")
    assert dict(server.requests[0].url.params) == {"start": "2026-11-01", "end": "2026-12-01"}
    assert [line.split() for line in ran.out.splitlines()] == [
        ["TEAM", "BEFORE", "EUR", "AFTER", "CHANGE", "PRICE", "VOLUME", "CLASS", "NEW", "ENDED"],
        [NLP, "2.00", "0.50", "-1.50", "0.00", "-1.50", "0.00", "0.00", "0.00"],
        ["total", "2.00", "0.50", "-1.50", "0.00", "-1.50", "0.00", "0.00", "0.00"],
    ]
    assert ran.err == (
        "From 2026-10-01T00:00:00Z to 2026-11-01T00:00:00Z, and from 2026-11-01T00:00:00Z to "
        "2026-12-01T00:00:00Z.\n"
    )


def test_idle_and_its_shares(server: Server) -> None:
    pool = {"pool": "h100", "device": "gpu"}
    hours = {"capacity": 8, "in_use": 3, "outside": 1, "over": 0, "idle": 3, "spare": 1}
    found = {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-02T00:00:00Z",
        "pools": [{**pool, **{f"{name}_mgpu_s": n * 3_600_000 for name, n in hours.items()}}],
        "rows": [
            {**pool, "team": NLP, "mgpu_s": 10_800_000},
            {**pool, "team": None, "mgpu_s": -10_800_000},
        ],
    }
    server.routes["GET reports/chargeback/idle"] = found
    server.routes["GET reports/chargeback"] = a_report()
    chargeback = "report", "chargeback", "--pool", "h100", "--idle", "by_usage"
    ran = server.run(*chargeback)
    assert dict(server.requests[1].url.params) == {"share": "by_usage", "pool": "h100"}
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[lines.index([]) + 1 :] == [
        ["POOL", "CAPACITY", "IN", "USE", "OUTSIDE", "IDLE", "SPARE"],
        ["h100", "8.000", "3.000", "1.000", "3.000", "1.000"],
        [],
        ["POOL", "TEAM", "GPU-HOURS"],
        ["h100", NLP, "3.000"],
        ["h100", "(idle", "account)", "-3.000"],
    ]
    assert json.loads(server.run(*chargeback, "-o", "json").out)["idle"] == found
    server.routes["GET reports/chargeback/idle"] = {**found, "pools": [], "rows": []}
    assert "no pool whose idle time you may see" in server.run(*chargeback).err


BEHIND = "report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01", "--jobs"


def a_use(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "job": f"01a1fd00-0000-7000-8000-{number:012}",
        "name": "bert",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "pool": "h100",
        "device": "gpu",
        "usage_class": "guaranteed",
        "mgpu_s": 3_600_000,
        "cost_nano": 2_000_000_000,
        "attempts": 1,
        "faults": [],
        **changes,
    }


def test_the_jobs_behind_a_number(server: Server) -> None:
    uses = [a_use(1), a_use(2, usage_class="borrowed", mgpu_s=1_800_000, cost_nano=500_000_000)]
    server.routes["GET reports/chargeback/jobs"] = {"items": uses, "next": None}
    ran = server.run(
        *(*BEHIND, "--team", "a/b", "--pool", "h100", "--usage-class", "borrowed"),
        *("--as-of", "2026-11-21T12:00:00Z", "--cost-centre", "4711", "--project-code", "(none)"),
    )
    assert dict(server.requests[0].url.params) == {
        "start": "2026-11-01",
        "end": "2026-12-01",
        "as_of": "2026-11-21T12:00:00Z",
        "pool": "h100",
        "node": "a/b",
        "cost_centre": "4711",
        "project_code": "(none)",
        "usage_class": "borrowed",
        "limit": "500",
    }
    assert (ran.exit_code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"JOB{' ' * 33}  NAME  USE         GPU-HOURS  COST",
        f"{uses[0]['job']}  bert  guaranteed      1.000  2.00",
        f"{uses[1]['job']}  bert  borrowed        0.500  0.50",
        f"total{' ' * 31}                        1.500  2.50",
    ]
    assert json.loads(server.run(*BEHIND, "--organization", "a", "-o", "json").out) == uses
    uses[1].update(usage_class="fault", faults=["lost", "node_failed"], cost_nano=0)
    free = server.run(*BEHIND, "--organization", "a").out.splitlines()[2]
    assert free.split("  ")[2] == "fault, lost, node_failed"
    assert server.requests[-1].url.params["node"] == "a"


def test_the_jobs_behind_a_number_of_cores_and_gpus(server: Server) -> None:
    """Mutant: one total of both."""
    uses = [a_use(1), a_use(2, device="cpu", pool="cpu", mgpu_s=1_800_000)]
    server.routes["GET reports/chargeback/jobs"] = {"items": uses, "next": None}
    lines = server.run(*BEHIND, "--team", "a/b").out.splitlines()
    assert [line.split()[-4:] for line in lines[2:]] == [
        ["guaranteed", "0.500", "core-hours", "2.00"],
        ["total", "1.000", "2.00"],
        ["total", "0.500", "core-hours", "2.00"],
    ]
    server.routes["GET reports/chargeback/jobs"] = {"items": uses[1:], "next": None}
    lines = server.run(*BEHIND, "--team", "a/b").out.splitlines()
    assert [line.split()[-2:] for line in lines] == [
        ["CORE-HOURS", "COST"],
        ["0.500", "2.00"],
        ["0.500", "2.00"],
    ]


def test_a_commitment_has_no_job(server: Server) -> None:
    use = a_use(1, job=None, name="", user="", usage_class="commitment", mgpu_s=0)
    server.routes["GET reports/chargeback/jobs"] = {"items": [use], "next": None}
    lines = server.run(*BEHIND, "--team", "a/b").out.splitlines()
    assert lines[1].split() == ["(commitment)", "-", "commitment", "0.000", "2.00"]


def test_the_jobs_behind_a_number_as_csv(server: Server) -> None:
    server.routes["GET reports/chargeback/jobs"] = httpx.Response(200, text="job,name\r\na,b\r\n")
    ran = server.run(*BEHIND, "--team", "a/b", "--csv")
    assert server.requests[0].url.params["format"] == "csv"
    assert (ran.exit_code, ran.out) == (0, "job,name\na,b\n")


def test_a_list_of_jobs_that_is_cut_says_so(server: Server) -> None:
    page = {"items": [a_use(1)], "next": "/api/v1/reports/chargeback/jobs?cursor=abc"}
    server.routes["GET reports/chargeback/jobs"] = page
    ran = server.run(*BEHIND, "--team", "a/b", "--limit", "1")
    assert ran.out.splitlines()[-1].split() == ["total", "so", "far", "1.000", "2.00"]
    assert ran.err == "These are the first 1. Use --limit for more.\n"
    server.routes["GET reports/chargeback/jobs"] = {"items": [], "next": None}
    ran = server.run(*BEHIND, "--team", "a/b")
    assert (ran.out, ran.err) == ("", "No jobs ran there in this period.\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (BEHIND, "Whose jobs? Give --team PATH or --organization SLUG with --jobs."),
        ((*BEHIND, "--team", "a/b", "--organization", "a"), "--team or --organization, not both"),
        ((*BEHIND, "--team", "a/b", "--idle", "none"), "Give --idle without --jobs and --csv"),
        ((*BEHIND, "--team", "a/b", "--as-of", "now"), "--as-of 'now': write 2026-11-01"),
    ],
)
def test_options_that_do_not_go_together(
    server: Server, arguments: tuple[str, ...], told: str
) -> None:
    ran = server.run(*arguments)
    assert (ran.exit_code, ran.out, server.requests) == (2, "", [])
    assert told in ran.err


def test_chargeback_as_csv_is_what_the_server_sends(server: Server) -> None:
    server.routes["GET reports/chargeback"] = httpx.Response(200, text="node,pool\r\na,b\r\n")
    ran = server.run(
        "report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01", "--csv"
    )
    assert server.requests[0].url.params["format"] == "csv"
    assert server.requests[0].headers["Accept"] == "*/*"
    assert (ran.exit_code, ran.out) == (0, "node,pool\na,b\n")


@pytest.mark.parametrize("start", ["november", "2026-11-1", "20261101", ""])
def test_a_period_that_is_none(server: Server, start: str) -> None:
    ran = server.run("report", "chargeback", "--start", start, "--end", "2026-12-01")
    assert (ran.exit_code, server.requests) == (2, [])


DAY = {
    "id": "d1",
    "day": "2026-11-20",
    "cluster": "alpha",
    "status": "red",
    "is_complete": True,
    "as_of": "2026-11-21T01:00:00Z",
    "metered_mgpu_s": 7_200_000,
    "accounted_mgpu_s": 3_600_000,
    "by_device": [{"device": "gpu", "metered_mgpu_s": 7_200_000, "accounted_mgpu_s": 3_600_000}],
    "difference_count": 2,
}
DIFFERENCES = [
    {"cause": "only_in_meter", "mgpu_s": -3_599_500, "job": "j1", "native_id": "7", "user": "bob"},
    {"cause": "native_unmapped", "mgpu_s": -500, "job": None, "native_id": "8", "user": "eve"},
]
ACCOUNT = {"account": "physics", "pool": "h100", "device": "gpu", "cut_count": 0}


def test_reconciliation(server: Server) -> None:
    running = {**DAY, "day": "2026-11-21", "status": "green", "is_complete": False}
    server.routes["GET reconciliations"] = {"items": [running, DAY], "next": None}
    ran = server.run("reconciliation", "--cluster", "alpha")
    assert server.sent == ["GET reconciliations?cluster=alpha&limit=31"]
    assert ran.out.splitlines() == [
        "DAY         CLUSTER  STATUS        METER  CLUSTER'S  DIFFERENCE  RUNS",
        "2026-11-21  alpha    green so far  2.000      1.000      -1.000     2",
        "2026-11-20  alpha    red           2.000      1.000      -1.000     2",
    ]
    assert ran.err == "GPU-hours. A positive difference means more use in the cluster's accounts.\n"
    assert json.loads(server.run("reconciliation", "-o", "json").out) == [running, DAY]


def test_a_red_day_is_acknowledged(server: Server) -> None:
    server.routes["GET reconciliations"] = {"items": [DAY], "next": None}
    told = {**DAY, "acknowledgement": {"at": "t", "by": "fin", "reason": "known"}}
    server.routes["POST reconciliations/d1/acknowledgement"] = told
    words = ("reconciliation", "--cluster", "alpha", "--acknowledge", "known")
    assert "Which day? With --acknowledge, give" in server.run(*words).err
    ran = server.run(*words, "--day", "2026-11-20")
    assert ran.out.splitlines() == [
        "DAY         CLUSTER  STATUS            METER  CLUSTER'S  DIFFERENCE  RUNS",
        "2026-11-20  alpha    red acknowledged  2.000      1.000      -1.000     2",
    ]
    assert ran.err.startswith("2026-11-20 of alpha is acknowledged.\n")


def test_a_day_with_cores_is_compared_in_both(server: Server) -> None:
    """Mutant: the sums of all devices, as GPU-hours."""
    of_cores = {"device": "cpu", "metered_mgpu_s": 3_600_000, "accounted_mgpu_s": 0}
    day = {**DAY, "by_device": [*DAY["by_device"], of_cores]}  # type: ignore[misc]
    server.routes["GET reconciliations"] = {"items": [day], "next": None}
    assert server.run("reconciliation").out.splitlines()[1:] == [
        "2026-11-20  alpha    red     2.000             1.000             -1.000                2",
        "2026-11-20  alpha    red     1.000 core-hours  0.000 core-hours  -1.000 core-hours     2",
    ]


def test_reconciliation_with_differences(server: Server) -> None:
    server.routes["GET reconciliations"] = {"items": [DAY], "next": None}
    accounts = [
        {**ACCOUNT, "team": "ai-company/research/nlp", "differences": DIFFERENCES[:1]},
        {**ACCOUNT, "team": None, "differences": DIFFERENCES[1:], "cut_count": 3},
    ]
    server.routes["GET reconciliations/d1"] = {**DAY, "accounts": accounts}
    ran = server.run("reconciliation", "--differences", "--day", "2026-11-20")
    assert server.sent == [
        "GET reconciliations?day=2026-11-20&limit=31",
        "GET reconciliations/d1",
    ]
    assert ran.out.splitlines() == [
        "DAY         TEAM OR ACCOUNT          POOL  CAUSE            GPU-SECONDS  JOB",
        "2026-11-20  ai-company/research/nlp  h100  only_in_meter       -3,599.5  j1",
        "2026-11-20  physics                  h100  native_unmapped         -0.5  8 of eve",
    ]
    assert ran.err == "3 smaller differences are not listed. The sums include them.\n"
    server.routes["GET reconciliations/d1"] = {**DAY, "accounts": []}
    ran = server.run("reconciliation", "--differences")
    assert (ran.out, ran.err) == ("", "No differences.\n")


def test_reconciliation_can_be_asked_for(server: Server) -> None:
    server.routes["POST reconciliations"] = httpx.Response(202, json=DAY)
    server.routes["GET reconciliations"] = {"items": [], "next": None}
    words = ("reconciliation", "--run", "--cluster", "alpha", "--day", "2026-11-20")
    ran = server.run(*words)
    assert server.sent[0] == "POST reconciliations"
    assert json.loads(server.requests[0].content) == {"cluster": "alpha", "day": "2026-11-20"}
    assert ran.err.splitlines() == [
        "2026-11-20 of alpha will be compared soon. Look again in a minute.",
        "No days were compared yet.",
    ]
    ran = server.run("reconciliation", "--run", "--cluster", "alpha")
    assert ran.exit_code != 0
    assert "Which day?" in ran.err


@pytest.mark.parametrize(
    ("mgpu", "text"),
    [(0, "0"), (500, "0.5"), (8_000, "8"), (1_234_567, "1,234.567"), (-500, "-0.5")],
)
def test_gpus(mgpu: int, text: str) -> None:
    assert gpus(mgpu) == text


@pytest.mark.parametrize(
    ("mgpu_s", "text"),
    [
        (0, "0.000"),
        (1_799, "0.000"),
        (1_800, "0.001"),
        (3_600_000_000, "1,000.000"),
        (-1_799, "0.000"),
        (-76_000_000, "-21.111"),
    ],
)
def test_gpu_hours(mgpu_s: int, text: str) -> None:
    """Planted: a sign that floors, so that -21.111 is shown as -22.889."""
    assert gpu_hours(mgpu_s) == text


@pytest.mark.parametrize(
    ("nano", "currency", "text"),
    [
        (0, "EUR", "0.00"),
        (4_999_999, "EUR", "0.00"),
        (-4_999_999, "EUR", "0.00"),
        (5_000_000, None, "0.01"),
        (10**12, "USD", "1,000.00"),
        (-(10**9), "EUR", "-1.00"),
        (1_234_500_000_000, "JPY", "1,235"),
        (-(10**8), "JPY", "0"),
        (1_234_500_500_000, "KWD", "1,234.501"),
        (10**9, "CLF", "1.0000"),
    ],
)
def test_money(nano: int, currency: str | None, text: str) -> None:
    """Against: two decimals for each currency; "-0"."""
    assert money_text(nano, currency) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (310, "5m10s"), (3_600, "1h"), (183_700, "2d3h")]
)
def test_duration(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_plain_text_has_no_controls() -> None:
    assert plain("a\x1b[31mb\u202ec\nd\te\x9b") == "a[31mbc\nd\te"
    assert plain(None) == "-"


def test_a_month_of_reconciled_days_is_a_calendar(server: Server) -> None:
    """Planted: acknowledged days as red ones; a February of 31 days."""
    told = {"at": "2026-02-21T09:00:00Z", "by": "ai-company/fiona", "reason": "known"}
    server.routes["GET reconciliations"] = {
        "items": [
            {**DAY, "day": "2026-02-28", "status": "red", "acknowledgement": told},
            {**DAY, "day": "2026-02-03", "status": "unavailable", "cluster": "beta"},
            {**DAY, "day": "2026-02-02", "status": "pending"},
            {**DAY, "day": "2026-02-01", "status": "red"},
        ],
        "next": None,
    }
    lines = server.run("reconciliation", "--month", "2026-02").out.splitlines()
    assert server.sent == ["GET reconciliations?start=2026-02-01&end=2026-03-01&limit=500"]
    assert lines == [
        "CLUSTER  DAYS 1 TO 28, IN FIVES",
        "alpha    X~... ..... ..... ..... ..... ..a",
        "beta     ..?.. ..... ..... ..... ..... ...",
    ]
    ran = server.run("reconciliation", "--month", "2026-13")
    assert ran.exit_code == 2
    assert "Write the month as 2026-11." in ran.err
    ran = server.run("reconciliation", "--month", "2026-02", "--differences")
    assert ran.exit_code == 2
