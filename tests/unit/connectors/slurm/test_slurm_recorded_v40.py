"""What 24.11 does with v0.0.40 where its accounting is written, is down or refuses a token. 26.05
with v0.0.45 did the same when it was tried, but for the digits of a time."""

from typing import Any

import pytest

from builders.slurm_rest_builders import (
    STRUCTURED,
    ScriptedCluster,
    a_client,
    an_answer,
    an_error,
    raises_exactly,
    recorded,
    recording,
)
from connectors.errors import ClusterUnavailable
from connectors.slurm.answers import AuthenticationFailed
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Association, Qos, SlurmPartition
from connectors.slurm.resizing import joined

FILE = "24.11-v0.0.40-accounting"
V40 = DIALECTS["v0.0.40"]


def reads(path: str, **where: Any) -> Any:
    return recorded(FILE, "GET", path, **where)["response"]


def writes(path: str) -> list[dict[str, Any]]:
    return [
        exchange["request"]["body"]
        for exchange in recording(FILE)
        if exchange["request"]["method"] == "POST" and exchange["request"]["path"].endswith(path)
    ]


def an_answer_to(method: str, path: str, **where: Any) -> Any:
    exchange = recorded(FILE, method, path, **where)
    return an_answer(exchange["response"], exchange["status"])


def test_an_account_gets_its_parent_and_its_limits() -> None:
    nlp = Association(
        "nlp", "tidegate", parent_account="research", group_tres={"gres/gpu": 16}, shares=3
    )
    cleared = Association(
        "nlp", "tidegate", parent_account="research", group_tres={"gres/gpu": None}, shares=3
    )
    assert writes("/associations")[1:3] == [
        {"associations": [V40.association(nlp)]},
        {"associations": [V40.association(cleared)]},
    ]
    kept = [
        V40.read_association(record)
        for at in (0, 1)
        for record in reads("/associations", at=at)["associations"]
    ]
    assert kept == [
        Association(
            "nlp", "tidegate", parent_account="research", qos=("normal",), shares=3, group_tres=tres
        )
        for tres in ({"gres/gpu": 16}, {})
    ]


def test_an_empty_user_for_none_makes_an_account_without_a_parent() -> None:
    """Mutant: "" was written from v0.0.40 on, and every pushed account stood beside the tree."""
    meant = Association("orphan", "tidegate", parent_account="research")
    (body,) = writes("/associations")[3]["associations"]
    assert body == {**V40.association(meant), "user": ""}
    (record,) = reads("/associations", at=2)["associations"]
    found = V40.read_association(record)
    assert (found.account, found.parent_account, found.qos) == ("orphan", "", ())


def test_a_removed_user_comes_back_by_one_call_only() -> None:
    path, body = V40.new_user("vera", account="nlp", cluster="tidegate")
    assert path == "/slurmdb/{}/users_association"
    assert writes("/users_association") == [body, body]
    listed = [
        [V40.read_user(record).name for record in reads("/users", at=at)["users"]] for at in (0, 1)
    ]
    # After a write to users/ that was answered 200, and after one to users_association/.
    assert listed == [["root", "tidegate"], ["root", "vera", "tidegate"]]


def test_the_last_that_a_qos_preempts_stays() -> None:
    known = Qos("g-nlp", preempts=("normal",))
    (body,) = writes("/qos")[-1]["qos"]
    assert body["preempt"]["list"] == V40.qos(Qos("g-nlp"), known=known)["preempt"]["list"] == []
    last = [V40.read_qos(record) for record in reads("/qos", at=5)["qos"]]
    assert last[-1] == Qos(
        "g-nlp",
        "NLP",
        priority=6,
        flags=("DENY_LIMIT",),
        preempts=("normal",),
        preempt_mode=("CANCEL",),
        grace_s=3,
        group_tres={"gres/gpu": 8},
        job_tres={"cpu": 9},
    )


def test_the_time_of_the_last_list_is_told_in_a_form_that_it_knows() -> None:
    """Mutant: bare digits, so that every second list failed on v0.0.40 and v0.0.41."""
    since = recorded(FILE, "GET", "/jobs", at=1)["request"]["params"]["update_time"]
    assert since == V40.changed_since(int(since.removeprefix("uts")))
    assert not reads("/jobs", at=1)["errors"]
    refused = recorded(FILE, "GET", "/jobs", status=422)
    assert refused["request"]["params"]["update_time"].isdigit()


def test_a_job_that_was_made_smaller_is_one_run() -> None:
    """Mutant: its records were joined by their start, which from 24.11 on is that of the change."""
    (record,) = reads("/slurm/v0.0.40/job/124")["jobs"]
    live = V40.job(record)
    (run,) = joined(V40.history(one) for one in reads("/slurmdb/v0.0.40/job/124")["jobs"])
    assert (run.submit_time, run.start_time, run.end_time) == (
        *(live.submit_time, live.start_time, live.end_time),
    )
    assert (run.gpus, run.before) == ({"h100": 2}, ((live.resize_time, {"h100": 4}),))
    assert live.resize_time == 1_795_309_492


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_refused_token_is_no_dead_database(version: str) -> None:
    """The accounting says "no connection" to both; the controller names a refused token."""
    for diag, kind in (
        (an_answer_to("GET", "/diag", status=511), AuthenticationFailed),
        (an_answer_to("GET", "/diag"), ClusterUnavailable),
        (an_answer(an_error(1800), 502), ClusterUnavailable),
    ):
        cluster = (
            ScriptedCluster(version)
            .on("GET", "/qos", an_answer_to("GET", "/qos", status=502))
            .on("DELETE", "/account/nlp", an_answer_to("GET", "/qos", status=502))
            .on("GET", "/diag", diag)
        )
        raises_exactly(kind, a_client(cluster).accounting.qos)
        raises_exactly(
            kind, lambda cluster=cluster: a_client(cluster).accounting.delete_account("nlp")
        )


@pytest.mark.parametrize("version", STRUCTURED)
def test_partitions_are_read_while_the_accounting_is_down(version: str) -> None:
    """Mutant: the error beside them spoiled them, and nothing was submitted meanwhile."""
    answer = an_answer_to("GET", "/partitions", status=500)
    cluster = ScriptedCluster(version).on("GET", "/partitions", answer)
    h100 = tuple(f"h{number:03}" for number in range(1, 65))
    a100 = tuple(f"a{number:02}" for number in range(1, 17))
    assert a_client(cluster).controller.partitions() == (
        SlurmPartition("h100", "UP", h100, 604_800, {"h100": 512}),
        SlurmPartition("a100", "UP", a100, 604_800, {"a100": 128}),
    )


@pytest.mark.parametrize(
    "body",
    [
        {
            "partitions": [],
            "errors": [{"error_number": 111, "description": "Slurmdb query failed"}],
        },
        {"errors": [{"error_number": 111, "description": "Slurmdb query failed"}]},
    ],
)
def test_no_partitions_beside_that_error_are_no_answer(body: dict[str, Any]) -> None:
    cluster = ScriptedCluster("v0.0.40").on("GET", "/partitions", an_answer(body, 500))
    raises_exactly(ClusterUnavailable, a_client(cluster).controller.partitions)


def test_another_error_beside_partitions_spoils_them() -> None:
    body = recorded(FILE, "GET", "/partitions", status=500)["response"]
    body["errors"].append({"error_number": 1800, "description": "No controller"})
    cluster = ScriptedCluster("v0.0.40").on("GET", "/partitions", an_answer(body, 500))
    raises_exactly(ClusterUnavailable, a_client(cluster).controller.partitions)
