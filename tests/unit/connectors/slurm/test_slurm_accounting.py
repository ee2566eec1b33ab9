"""What is asked of the accounting and written to it, on every version."""

import json
from typing import Any

import httpx
import pytest

from builders.slurm_rest_builders import (
    FINE,
    NOW,
    RECORDINGS,
    STRUCTURED,
    ScriptedCluster,
    a_client,
    an_answer,
    an_error,
    answer_of,
    raises_exactly,
    recording,
)
from connectors.errors import (
    ClusterUnavailable,
    NotOffered,
    WorkloadRejected,
)
from connectors.slurm.accounting import NO_LIMIT, STUB_S
from connectors.slurm.answers import SlurmRefused
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Account, Association, Qos, User


def test_a_question_about_one_job_waits_a_short_time_only() -> None:
    waited: list[Any] = []

    def late(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("late")

    cluster = ScriptedCluster("v0.0.38").on("GET", "/job/7", late)
    with pytest.raises(ClusterUnavailable, match="did not answer within 10 s"):
        a_client(cluster).accounting.job_history(7)
    assert waited == [10.0]


def test_the_limits_are_asked_for_as_long_as_the_caller_waits() -> None:
    waited: list[Any] = []

    def late(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("late")

    client = a_client(ScriptedCluster("v0.0.38").on("GET", "/qos", late))
    with pytest.raises(ClusterUnavailable, match="did not answer within 5 s"):
        client.accounting.qos(timeout_s=5.0)
    with pytest.raises(ClusterUnavailable, match="did not answer within 30 s"):
        client.accounting.qos()
    assert waited == [5.0, 30.0]


def a_history(version: str) -> list[dict[str, Any]]:
    if version == "v0.0.38":
        version = "22.05-v0.0.38-accounting"
    jobs: list[dict[str, Any]] = next(
        exchange["response"]["jobs"]
        for exchange in reversed(recording(RECORDINGS.get(version, version)))
        if exchange["request"]["path"].startswith("/slurmdb/")
        and exchange["request"]["method"] == "GET"
        and (exchange["response"] or {}).get("jobs")
    )
    return jobs


@pytest.mark.parametrize("version", RECORDINGS)
def test_the_history_asks_for_a_window_from_now_on(version: str) -> None:
    """No time zone and no clock but the controller's is in the question."""
    cluster = ScriptedCluster(version).on(
        "GET", "/jobs", an_answer({"jobs": [], "errors": [], "warnings": []})
    )
    assert (
        a_client(cluster).accounting.history(start=NOW - 3_600, end=NOW + 300, account="nlp") == ()
    )
    (request,) = cluster.seen("GET", "/jobs")
    assert request.url.path == f"/slurmdb/{version}/jobs"
    assert dict(request.url.params) == {
        "start_time": "now-3720seconds",
        "end_time": "now+420seconds",
        "skip_steps": "true",
        "account": "nlp",
    }


def test_the_history_is_cut_to_its_window_and_account() -> None:
    (record,) = a_history("v0.0.38")
    begin, end = record["time"]["eligible"], record["time"]["end"]
    cluster = ScriptedCluster("v0.0.38").on("GET", "/jobs", an_answer({"jobs": [record]}))
    client = a_client(cluster)

    def found(start: int, until: int, account: str | None = None) -> int:
        return len(client.accounting.history(start=start, end=until, account=account))

    assert found(begin - 10, begin) == 0
    assert found(begin - 10, begin + 1) == 1
    assert found(end, end + 10) == 1
    assert found(end + 1, end + 10) == 0
    assert found(begin, end, "science") == 1
    assert found(begin, end, "nlp") == 0
    with pytest.raises(ValueError, match="must not end before"):
        client.accounting.history(start=2, end=1)


def test_a_database_that_is_down_is_never_an_empty_history() -> None:
    """v0.0.38 answers 200 and an empty list."""
    for version, status in (("v0.0.38", 200), ("v0.0.44", 502)):
        down = an_answer(an_error(7000, "Unable to connect to database", jobs=[]), status)
        cluster = ScriptedCluster(version).on("GET", "/jobs", down).on("GET", "/job/7", down)
        cluster.on("GET", "/qos", down).on("GET", "/associations", down)
        client = a_client(cluster)
        for call in (
            lambda client=client: client.accounting.history(start=1, end=2),
            lambda client=client: client.accounting.job_history(7),
            client.accounting.qos,
            client.accounting.associations,
        ):
            raises_exactly(ClusterUnavailable, call)


def test_nothing_found_is_an_empty_history() -> None:
    name = "22.05-v0.0.38-accounting"
    cluster = ScriptedCluster("v0.0.38").on(
        "GET", "/job/99999999", answer_of(name, "GET", "/job/99999999")
    )
    assert a_client(cluster).accounting.job_history(99999999) == ()
    nothing = {"jobs": [], "errors": [], "warnings": [{"description": "Nothing found"}]}
    cluster = ScriptedCluster("v0.0.44").on("GET", "/job/99999999", an_answer(nothing))
    assert a_client(cluster).accounting.job_history(99999999) == ()


@pytest.mark.parametrize("version", STRUCTURED)
def test_the_runs_of_a_job_come_oldest_first(version: str) -> None:
    records = a_history(version)
    job_id = records[0]["job_id"]
    cluster = ScriptedCluster(version).on(
        "GET", f"/job/{job_id}", an_answer({"jobs": records[::-1], "errors": []})
    )
    runs = a_client(cluster).accounting.job_history(job_id)
    assert [run.state for run in runs] == ["PENDING", "RUNNING"]


def test_a_stub_of_the_accounting_is_not_taken_for_a_run() -> None:
    (record,) = a_history("v0.0.38")
    stub = {**record, "name": "allocation", "partition": "", "nodes": "h001"}
    cluster = ScriptedCluster("v0.0.38").on("GET", "/job/28", an_answer({"jobs": [stub]}))
    cluster.on("GET", "/jobs", an_answer({"jobs": [stub]}))
    client = a_client(cluster)
    started = record["time"]["start"]
    cluster.now = started + 5
    with pytest.raises(ClusterUnavailable, match="only a stub of job 28"):
        client.accounting.job_history(28)
    with pytest.raises(ClusterUnavailable, match="only a stub of job 28"):
        client.accounting.history(start=started - 60, end=started + 60)
    cluster.now = started + STUB_S
    assert len(client.accounting.job_history(28)) == 1


def test_a_filter_that_the_version_leaves_out_is_an_error() -> None:
    answer = {"jobs": [], "errors": [], "warnings": [{"description": "Ignoring unknown key"}]}
    cluster = ScriptedCluster("v0.0.44").on("GET", "/jobs", an_answer(answer))
    with pytest.raises(ClusterUnavailable, match="left out"):
        a_client(cluster).accounting.history(start=1, end=2)


def test_the_accounting_of_v38_as_recorded() -> None:
    name = "22.05-v0.0.38-accounting"
    cluster = ScriptedCluster("v0.0.38")
    for path, at in (("/users", 0), ("/accounts", 0), ("/qos", 2), ("/associations", 0)):
        cluster.on("GET", path, answer_of(name, "GET", path, at=at))
    cluster.on("GET", "/clusters", answer_of(name, "GET", "/clusters"))
    client = a_client(cluster)
    assert client.accounting.clusters() == ("tidegate",)
    assert client.accounting.users()[1:3] == (
        User("ana", "conn", "None"),
        User("eva", "science", "None"),
    )
    assert client.accounting.accounts()[-1] == Account("science", "Science", "research")
    assert client.accounting.qos()[1] == Qos(
        "lent", "lent", priority=6, flags=("DENY_LIMIT",), user_tres={"gres/gpu": 5}
    )
    assert client.accounting.associations(user="eva") == (
        Association("science", "tidegate", user="eva", qos=("normal",), is_default=True, shares=1),
    )


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_qos_is_read_before_it_is_written(version: str) -> None:
    key = "QOS" if version == "v0.0.38" else "qos"
    known = {
        "name": "lent",
        "limits": {"max": {"tres": {"total": [{"type": "gres", "name": "gpu", "count": 8}]}}},
    }
    cluster = ScriptedCluster(version)
    after = {
        "name": "lent",
        "limits": {
            "max": {"tres": {"per": {"user": [{"type": "gres", "name": "gpu", "count": 2}]}}}
        },
    }
    answers = [an_answer({key: [qos], "errors": []}) for qos in (known, after, known)]
    cluster.on("GET", "/qos", *answers)
    cluster.on("POST", "/qos", FINE)
    a_client(cluster).accounting.put_qos(Qos("lent", user_tres={"gres/gpu": 2}))
    (request,) = cluster.seen("POST", "/qos")
    (written,) = json.loads(request.content)[key]
    assert written["limits"]["max"]["tres"] == {
        "total": [{"type": "gres", "name": "gpu", "count": -1}],
        "per": {"user": [{"type": "gres", "name": "gpu", "count": 2}]},
    }
    assert (written["flags"], written["preempt"]) == ([], {"list": [], "mode": []})
    with pytest.raises(NotOffered, match="did not take the whole of QOS lent"):
        a_client(cluster).accounting.put_qos(Qos("lent", user_tres={"gres/gpu": 2}))


def test_v38_does_not_change_an_accounts_association_in_its_place() -> None:
    """It answers 200 and changes nothing, or slurmrestd dies."""
    name = "22.05-v0.0.38-accounting"
    known = answer_of(name, "GET", "/associations")
    cluster = ScriptedCluster("v0.0.38").on("GET", "/associations", known)
    client = a_client(cluster)
    same = Association("science", "tidegate", parent_account="root", group_tres={"gres/gpu": 16})
    client.accounting.put_association(same)
    for other in (
        Association("science", "tidegate", group_tres={"gres/gpu": 8}),
        Association("science", "tidegate", group_tres={"gres/gpu": None}),
        Association("science", "tidegate", qos=("lent",)),
        Association("science", "tidegate", shares=2),
    ):
        raises_exactly(NotOffered, lambda other=other: client.accounting.put_association(other))
    assert cluster.seen("POST", "/associations") == []


def test_v38_changes_an_accounts_association_on_a_detour() -> None:
    """slurmdbd skips a change to the parent that there is; and all is said, lest it be lost."""
    known = answer_of("22.05-v0.0.38-accounting", "GET", "/associations")
    cluster = ScriptedCluster("v0.0.38").on("GET", "/associations", known)
    cluster.on("POST", "/associations", FINE)
    client = a_client(cluster)
    (before,) = [
        item for item in client.accounting.associations(account="science") if not item.user
    ]

    def written() -> list[dict[str, Any]]:
        return [
            json.loads(request.content)["associations"][0]
            for request in cluster.seen("POST", "/associations")
        ]

    client.accounting.put_association(Association("science", "tidegate", shares=2), detour="aside")
    away, back = written()
    assert (away.pop("parent_account"), back.pop("parent_account")) == ("aside", "root")
    assert (
        away
        == back
        == {
            "account": "science",
            "cluster": "tidegate",
            "user": None,
            "shares_raw": 2,
            "qos": list(before.qos),
            **({"default": {"qos": before.default_qos}} if before.default_qos else {}),
            "max": {
                "tres": {
                    "total": [
                        {"type": "cpu", "name": "", "count": -1},
                        {"type": "gres", "name": "gpu", "count": 16},
                    ]
                }
            },
        }
    )
    # One that really moves needs no detour.
    client.accounting.put_association(Association("science", "tidegate", parent_account="other"))
    assert [item["parent_account"] for item in written()[2:]] == ["other"]


@pytest.mark.parametrize("parent", ["", "other"])
def test_v38_raises_a_limit_out_of_reach_before_it_clears_it(parent: str) -> None:
    """The controller is told of the first and not of the second. Planted: cleared on both ways;
    nothing raised where the account really moves."""
    known = answer_of("22.05-v0.0.38-accounting", "GET", "/associations")
    cluster = ScriptedCluster("v0.0.38").on("GET", "/associations", known)
    cluster.on("POST", "/associations", FINE)
    cleared = Association(
        *("science", "tidegate"),
        parent_account=parent,
        group_tres={"gres/gpu": None, "gres/gpu:h100": None},
    )
    a_client(cluster).accounting.put_association(cleared, detour="aside")
    written = [
        json.loads(request.content)["associations"][0]
        for request in cluster.seen("POST", "/associations")
    ]
    assert [
        (
            item["parent_account"],
            {limit["name"]: limit["count"] for limit in item["max"]["tres"]["total"]},
        )
        for item in written
    ] == [
        ("aside", {"": -1, "gpu": NO_LIMIT, "gpu:h100": -1}),
        (parent or "root", {"": -1, "gpu": -1, "gpu:h100": -1}),
    ]


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_new_association_is_written(version: str) -> None:
    nothing = an_answer(an_error(9003, "Nothing found"), 500)
    cluster = ScriptedCluster(version).on("GET", "/associations", nothing)
    cluster.on("POST", "/associations", FINE)
    written = Association("nlp", "tide", parent_account="science")
    a_client(cluster).accounting.put_association(written)
    (request,) = cluster.seen("POST", "/associations")
    assert json.loads(request.content) == {"associations": [DIALECTS[version].association(written)]}


def test_removing_what_is_not_there_is_done() -> None:
    name = "22.05-v0.0.38-accounting"
    cluster = ScriptedCluster("v0.0.38")
    cluster.on("DELETE", "/account/a", answer_of(name, "DELETE", "/account/science", at=1))
    cluster.on("DELETE", "/qos/q", answer_of(name, "DELETE", "/qos/lent", status=500))
    cluster.on("DELETE", "/account/b", answer_of(name, "DELETE", "/user/eva", status=304))
    cluster.on("DELETE", "/association", an_answer(an_error(1900)))
    client = a_client(cluster)
    client.accounting.delete_account("a")
    client.accounting.delete_qos("q")
    client.accounting.delete_account("b")
    client.accounting.delete_association("a", cluster="tide", user="u")


def test_removing_needs_a_name() -> None:
    """Without a user, DELETE of an association takes all users of the account."""
    cluster = ScriptedCluster("v0.0.38")
    client = a_client(cluster)
    for call in (
        lambda: client.accounting.delete_association("a", cluster="tide", user=""),
        lambda: client.accounting.delete_account(""),
        lambda: client.accounting.delete_qos("a/b"),
        lambda: client.accounting.delete_account("x y"),
    ):
        with pytest.raises(WorkloadRejected, match="no name for Slurm"):
            call()
    assert cluster.seen("DELETE", "") == []


def test_an_account_with_running_jobs_is_not_removed() -> None:
    for version, reply in (
        ("v0.0.38", an_answer(an_error(7001, "Job(s) active"), 200)),
        ("v0.0.44", an_answer(an_error(7009, "Job(s) active"), 500)),
    ):
        cluster = ScriptedCluster(version).on("DELETE", "/account/a", reply)
        raises_exactly(SlurmRefused, lambda c=cluster: a_client(c).accounting.delete_account("a"))
