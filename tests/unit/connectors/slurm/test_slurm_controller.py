"""What is asked of the controller and told to it, on every version."""

import json
from typing import Any

import httpx
import pytest

from builders.slurm_rest_builders import (
    CLOSED,
    FINE,
    LOST,
    NEVER_SENT,
    NOW,
    RECORDINGS,
    STRUCTURED,
    ScriptedCluster,
    a_client,
    a_job_record,
    a_submission,
    an_answer,
    an_error,
    answer_of,
    raises_exactly,
    recorded,
    recording,
)
from connectors.errors import (
    ClusterUnavailable,
    NotOffered,
    OutcomeUnknown,
    WorkloadRejected,
)
from connectors.slurm.answers import AuthenticationFailed, SlurmRefused
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.transport import ODD_RECORDS_MAX


def refusal_status(version: str) -> int:
    """What the release of a recording answers where slurmctld refuses: 26.05 has another one."""
    return 422 if RECORDINGS[version].startswith("26.05") else 500


# Submissions.


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_held_submission_has_a_number(version: str) -> None:
    """v0.0.38 puts an error beside it, the newer ones warnings."""
    exchange = recorded(version, "POST", "/job/submit")
    cluster = ScriptedCluster(version).on(
        "POST", "/job/submit", an_answer(exchange["response"], 200)
    )
    assert (
        a_client(cluster).controller.submit("ana", a_submission()) == exchange["response"]["job_id"]
    )


@pytest.mark.parametrize("version", RECORDINGS)
def test_refusals_of_a_submission_are_definite(version: str) -> None:
    status = refusal_status(version)
    numbers = []
    for at in range(4):
        cluster = ScriptedCluster(version).on(
            "POST", "/job/submit", answer_of(version, "POST", "/job/submit", status=status, at=at)
        )
        error = raises_exactly(
            SlurmRefused,
            lambda cluster=cluster: a_client(cluster).controller.submit("ana", a_submission()),
        )
        assert isinstance(error, SlurmRefused)
        numbers.append(error.number)
    assert numbers == [2000, 2045, 2066, 2014]


def test_a_field_that_v38_does_not_know_is_a_definite_refusal() -> None:
    cluster = ScriptedCluster("v0.0.38").on(
        "POST", "/job/submit", answer_of("v0.0.38", "POST", "/job/submit", status=400)
    )
    with pytest.raises(SlurmRefused, match='Unknown key "no_such_field"; Failure during parsing'):
        a_client(cluster).controller.submit("ana", a_submission())


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_job_with_a_field_left_out_is_cancelled(version: str) -> None:
    exchange = next(
        exchange
        for exchange in recording(RECORDINGS[version])
        if "no_such_field" in json.dumps(exchange["request"]["body"])
    )
    job_id = exchange["response"]["job_id"]
    gone = an_answer(an_error(2017), 404)
    cluster = (
        ScriptedCluster(version)
        .on("POST", "/job/submit", an_answer(exchange["response"]))
        .on("DELETE", f"/job/{job_id}", FINE)
        .on("GET", f"/job/{job_id}", gone)
    )
    error = raises_exactly(
        WorkloadRejected, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )
    assert 'Ignoring unknown field "no_such_field"' in str(error)
    assert len(cluster.seen("DELETE", f"/job/{job_id}")) == 1


def test_a_500_with_a_number_is_a_job() -> None:
    """A waiting job (2015) is kept; one of which a part was not understood (9207) is not."""
    waits = an_answer(an_error(2015, "Not available now", job_id=9), 500)
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/submit", waits)
    assert a_client(cluster).controller.submit("ana", a_submission()) == 9
    misread = an_answer(an_error(9207, "Unknown flag HOLD", job_id=9), 500)
    cluster = (
        ScriptedCluster("v0.0.44").on("POST", "/job/submit", misread).on("DELETE", "/job/9", FINE)
    )
    raises_exactly(
        WorkloadRejected, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )
    assert len(cluster.seen("DELETE", "/job/9")) == 1


@pytest.mark.parametrize("reply", [CLOSED, an_answer(an_error(2002)), an_answer("", 500)])
def test_a_wrong_job_that_can_not_be_cancelled_is_an_unknown_outcome(reply: Any) -> None:
    misread = an_answer(an_error(9207, job_id=9), 500)
    cluster = (
        ScriptedCluster("v0.0.44").on("POST", "/job/submit", misread).on("DELETE", "/job/9", reply)
    )
    raises_exactly(
        OutcomeUnknown, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )


@pytest.mark.parametrize("fault", NEVER_SENT, ids=repr)
def test_a_submission_that_never_left_did_nothing(fault: Exception) -> None:
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/submit", fault)
    raises_exactly(
        ClusterUnavailable, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )


@pytest.mark.parametrize("fault", LOST, ids=repr)
@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_submission_whose_answer_is_lost_is_never_sent_again(
    version: str, fault: Exception
) -> None:
    cluster = ScriptedCluster(version).on("POST", "/job/submit", fault)
    raises_exactly(
        OutcomeUnknown, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )
    assert len(cluster.seen("POST", "/job/submit")) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (an_answer("", 500), OutcomeUnknown),
        (an_answer("Bad gateway", 502), OutcomeUnknown),
        (an_answer("OK", 200), OutcomeUnknown),
        (an_answer([1], 200), OutcomeUnknown),
        (an_answer({}, 200), OutcomeUnknown),
        (an_answer({"job_id": 0, "errors": []}, 200), OutcomeUnknown),
        (an_answer({"job_id": True, "errors": []}, 200), OutcomeUnknown),
        (an_answer(an_error(1802, "Unable to receive"), 500), OutcomeUnknown),
        (an_answer(an_error(0), 500), OutcomeUnknown),
        (an_answer(an_error(1800, "No controller"), 502), ClusterUnavailable),
        (an_answer(an_error(2020, "Try later"), 500), ClusterUnavailable),
        (an_answer(an_error(1007), 511), AuthenticationFailed),
        (an_answer("Authentication failure", 401), AuthenticationFailed),
        (an_answer("Too many requests", 429), ClusterUnavailable),
        (an_answer("Request timeout", 408), OutcomeUnknown),
        (an_answer("", 302), ClusterUnavailable),
        (an_answer(an_error(2063, "No working directory"), 500), SlurmRefused),
        (an_answer(an_error(2115, "Invalid TRES"), 422), SlurmRefused),
        (an_answer({"errors": [{"error_code": 2066}]}, 500), SlurmRefused),
        (an_answer({"errors": [{"errno": 2066}]}, 500), SlurmRefused),
        (an_answer({"errors": ["No"]}, 500), OutcomeUnknown),
    ],
)
def test_what_an_answer_without_a_job_says(reply: httpx.Response, kind: type[Exception]) -> None:
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/submit", reply)
    raises_exactly(kind, lambda: a_client(cluster).controller.submit("ana", a_submission()))


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_job_that_is_not_there(version: str) -> None:
    """A 500 on v0.0.38 and a 404 later; an answer without an opinion is no such word."""
    gone = an_answer(an_error(2017, "Invalid job id specified", jobs=[]), 404)
    if version == "v0.0.38":
        gone = answer_of("22.05-v0.0.38-accounting", "GET", "/job/99999999", status=500)
    cluster = ScriptedCluster(version).on("GET", "/job/99999999", gone)
    assert a_client(cluster).controller.job(99999999) is None
    for reply in (
        an_answer({"jobs": [], "errors": []}),
        an_answer("", 500),
        an_answer(an_error(1800), 500),
    ):
        cluster = ScriptedCluster(version).on("GET", "/job/99999999", reply)
        with pytest.raises(ClusterUnavailable):
            a_client(cluster).controller.job(99999999)


def test_a_task_of_an_array_is_found_among_the_others() -> None:
    record = a_job_record("v0.0.44")
    cluster = ScriptedCluster("v0.0.44").on(
        "GET",
        "/job/8",
        an_answer({"jobs": [{**record, "job_id": 9}, {**record, "job_id": 8}], "errors": []}),
    )
    job = a_client(cluster).controller.job(8)
    assert job is not None
    assert job.job_id == 8


# The list of jobs.


UNCHANGED = {
    "v0.0.38": httpx.Response(304),
    "v0.0.44": an_answer(
        {
            "jobs": [],
            "last_update": {"set": True, "infinite": False, "number": 0},
            "errors": [],
            "warnings": [{"description": "No job changes since update_time[123]=Now"}],
        }
    ),
}


@pytest.mark.parametrize("version", UNCHANGED)
def test_the_last_list_stands_for_unchanged(version: str) -> None:
    clock_s = 1_000.0
    record = a_job_record(version)
    whole = an_answer({"jobs": [record], "errors": []})
    cluster = ScriptedCluster(version).on(
        "GET", "/jobs", whole, UNCHANGED[version], UNCHANGED[version], whole
    )
    client = a_client(cluster, monotonic_s=lambda: clock_s)
    job = DIALECTS[version].job(record)
    assert (client.controller.jobs().observed_at, client.controller.jobs().jobs) == (NOW, (job,))
    cluster.now, clock_s = NOW + 7, 1_059.0
    listed = client.controller.jobs()
    assert (listed.observed_at, listed.jobs) == (NOW + 7, (job,))
    clock_s = 1_060.0
    assert client.controller.jobs().jobs == (job,)
    asked = [dict(request.url.params) for request in cluster.seen("GET", "/jobs")]
    flags = dict(DIALECTS[version].job_list_parameters)
    since = f"{'' if version == 'v0.0.38' else 'uts'}{NOW - 1}"
    assert asked == [
        flags,
        {**flags, "update_time": since},
        {**flags, "update_time": since},
        flags,
    ]


@pytest.mark.parametrize("version", UNCHANGED)
def test_an_empty_queue_is_told_from_an_unchanged_one(version: str) -> None:
    whole = an_answer({"jobs": [a_job_record(version)], "errors": [], "warnings": []})
    empty = an_answer({"jobs": [], "errors": [], "warnings": []})
    cluster = ScriptedCluster(version).on("GET", "/jobs", whole, empty)
    client = a_client(cluster)
    assert len(client.controller.jobs().jobs) == 1
    assert client.controller.jobs().jobs == ()


@pytest.mark.parametrize("version", UNCHANGED)
def test_no_list_stands_for_unchanged_before_there_was_one(version: str) -> None:
    cluster = ScriptedCluster(version).on("GET", "/jobs", UNCHANGED[version])
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.jobs()


@pytest.mark.parametrize("version", UNCHANGED)
def test_an_empty_list_with_an_error_is_no_list(version: str) -> None:
    whole = an_answer({"jobs": [a_job_record(version)], "errors": []})
    broken = an_answer(an_error(1800, jobs=[]), 200)
    cluster = ScriptedCluster(version).on("GET", "/jobs", whole, broken)
    client = a_client(cluster)
    assert len(client.controller.jobs().jobs) == 1
    with pytest.raises(ClusterUnavailable):
        client.controller.jobs()


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
@pytest.mark.parametrize(
    ("odd", "number"),
    [
        ({"job_state": None}, 9),
        ({"submit_time": None}, 9),
        ({"tres_alloc_str": 7}, 9),
        ({"nodes": "h[1-"}, 9),
        ({"job_id": None}, None),
    ],
)
def test_one_odd_job_is_told_and_hides_no_other(
    version: str, odd: dict[str, Any], number: int | None
) -> None:
    """Planted: a list that fails with its first odd record."""
    record = a_job_record(version)
    body = {"jobs": [record, {**record, "job_id": 9, **odd}], "errors": []}
    listed = a_client(
        ScriptedCluster(version).on("GET", "/jobs", an_answer(body))
    ).controller.jobs()
    assert [job.job_id for job in listed.jobs] == [record["job_id"]]
    assert [one.job_id for one in listed.unread] == [number]


def test_only_what_changed_of_a_list_is_read_again() -> None:
    """Mutants: a job was what its number had once said; every list was read whole."""
    record = a_job_record("v0.0.38")
    first = [{**record, "job_id": number, "job_state": "PENDING"} for number in (1, 2, 3)]
    second = [first[0], {**first[1], "job_state": "RUNNING"}, {**first[0], "job_id": 4}]
    cluster = ScriptedCluster("v0.0.38").on(
        "GET",
        "/jobs",
        *(an_answer({"errors": [], "jobs": jobs}) for jobs in (first, second, first)),
    )
    controller = a_client(cluster).controller
    before, after, again = (controller.jobs().jobs for _ in range(3))
    assert [(job.job_id, job.state) for job in after] == [
        *((1, "PENDING"), (2, "RUNNING"), (4, "PENDING")),
    ]
    assert after[0] is before[0]
    assert again == before
    # What was not in the last list is forgotten.
    assert [one is other for one, other in zip(again, before, strict=True)] == [True, False, False]


def test_what_was_unread_stays_so_while_the_list_is_unchanged() -> None:
    record = a_job_record("v0.0.38")
    body = {"jobs": [{**record, "job_id": 9, "job_state": None}], "errors": []}
    cluster = ScriptedCluster("v0.0.38").on(
        "GET", "/jobs", an_answer(body), httpx.Response(304, content=b"")
    )
    client = a_client(cluster)
    assert [one.job_id for one in client.controller.jobs().unread] == [9]
    assert [one.job_id for one in client.controller.jobs().unread] == [9]


def test_a_list_with_many_odd_jobs_is_no_list() -> None:
    record = {**a_job_record("v0.0.38"), "job_state": None}
    body = {"jobs": [record] * (ODD_RECORDS_MAX + 1), "errors": []}
    with pytest.raises(ClusterUnavailable, match="more than 100 records"):
        a_client(ScriptedCluster("v0.0.38").on("GET", "/jobs", an_answer(body))).controller.jobs()


def test_one_odd_node_is_told_and_hides_no_other() -> None:
    body = recorded("v0.0.38", "GET", "/nodes")["response"]
    fine = body["nodes"][0]
    body = {"nodes": [fine, {**fine, "name": "h999", "tres": 5}], "errors": []}
    cluster = ScriptedCluster("v0.0.38").on("GET", "/nodes", an_answer(body))
    told: list[str] = []
    assert [node.name for node in a_client(cluster).controller.nodes(odd=told.append)] == [
        fine["name"]
    ]
    assert told == ["nodes 'h999' makes no sense: the cluster's tres is no text"]
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.nodes()


def test_the_gpus_of_a_job_that_the_list_does_not_place_are_looked_up() -> None:
    record = {
        **a_job_record("v0.0.44"),
        **{"job_id": 5, "job_state": ["RUNNING"], "nodes": "g[01-02]", "tres_per_node": ""},
        "tres_alloc_str": "gres/gpu=6,gres/gpu:h100=6",
    }
    placed = {**record, "gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:0-1)"]}
    cluster = (
        ScriptedCluster("v0.0.44")
        .on("GET", "/jobs", an_answer({"jobs": [record], "errors": []}))
        .on("GET", "/job/5", an_answer({"jobs": [placed], "errors": []}))
    )
    assert a_client(cluster).controller.jobs().jobs[0].gpus_by_node == {"g01": 4, "g02": 2}


# Writes to jobs.


@pytest.mark.parametrize("version", RECORDINGS)
def test_hold_and_release(version: str) -> None:
    cluster = ScriptedCluster(version).on("POST", "/job/7", FINE)
    client = a_client(cluster)
    client.controller.set_hold(7, True)
    client.controller.set_hold(7, False)
    assert [json.loads(request.content) for request in cluster.seen("POST", "/job/7")] == [
        {"hold": True},
        {"hold": False},
    ]


def test_an_update_of_v38_that_answers_200_with_errors_failed() -> None:
    cluster = ScriptedCluster("v0.0.38").on("POST", "/job/7", an_answer(an_error(2042)))
    raises_exactly(SlurmRefused, lambda: a_client(cluster).controller.set_hold(7, False))


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_service_user_without_the_right_makes_the_cluster_unusable(version: str) -> None:
    status = refusal_status(version)
    exchange = next(
        exchange
        for exchange in recording(RECORDINGS[version])
        if exchange["request"]["method"] == "POST"
        and "/job/" in exchange["request"]["path"]
        and not exchange["request"]["path"].endswith("submit")
        and exchange["status"] == status
    )
    cluster = ScriptedCluster(version).on("POST", "/job/7", an_answer(exchange["response"], status))
    error = raises_exactly(
        ClusterUnavailable, lambda: a_client(cluster).controller.set_hold(7, False)
    )
    assert "make it an operator" in str(error)


def test_a_change_that_the_version_leaves_out_is_not_offered() -> None:
    ignored = {"errors": [], "warnings": [{"description": 'Ignoring unknown field "hold"'}]}
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/7", an_answer(ignored))
    raises_exactly(NotOffered, lambda: a_client(cluster).controller.set_hold(7, True))


@pytest.mark.parametrize("version", RECORDINGS)
def test_cancel_and_signal(version: str) -> None:
    gone = an_answer(an_error(2017), 404)
    cluster = ScriptedCluster(version).on("DELETE", "/job/7", FINE).on("GET", "/job/7", gone)
    client = a_client(cluster)
    client.controller.cancel(7)
    client.controller.cancel(7, signal="USR1")
    assert [dict(request.url.params) for request in cluster.seen("DELETE", "/job/7")] == [
        {},
        {"signal": "USR1"},
    ]
    with pytest.raises(WorkloadRejected, match="none of the signals"):
        client.controller.cancel(7, signal="FOO")
    assert len(cluster.seen("DELETE", "/job/7")) == 2


@pytest.mark.parametrize("version", STRUCTURED)
def test_cancelling_what_is_not_there_is_done(version: str) -> None:
    cluster = (
        ScriptedCluster(version)
        .on("DELETE", "/job/7", answer_of(version, "DELETE", "/job/99999999", status=404))
        .on("GET", "/job/7", an_answer(an_error(2017), 404))
    )
    a_client(cluster).controller.cancel(7)


@pytest.mark.parametrize("version", ["v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"])
def test_a_cancel_that_was_not_allowed_hides_in_the_status(version: str) -> None:
    denied = next(
        exchange["response"]
        for exchange in recording(RECORDINGS[version])
        if exchange["request"]["method"] == "DELETE" and exchange["request"]["user"] == "leo"
    )
    assert denied["errors"] == []
    cluster = ScriptedCluster(version).on("DELETE", "/job/7", an_answer(denied))
    error = raises_exactly(ClusterUnavailable, lambda: a_client(cluster).controller.cancel(7))
    assert "make it an operator" in str(error)


@pytest.mark.parametrize("version", ["v0.0.40", "v0.0.41"])
def test_where_a_cancel_tells_nothing_the_job_is_read_again(version: str) -> None:
    record = {**a_job_record("v0.0.41"), "job_id": 7}
    for reply, kind in (
        (an_answer({"jobs": [record], "errors": []}), OutcomeUnknown),
        (CLOSED, OutcomeUnknown),
        (an_answer({"jobs": [{**record, "job_state": ["CANCELLED"]}], "errors": []}), None),
        (
            an_answer({"jobs": [{**record, "job_state": ["RUNNING", "COMPLETING"]}], "errors": []}),
            None,
        ),
    ):
        cluster = ScriptedCluster(version).on("DELETE", "/job/7", FINE).on("GET", "/job/7", reply)
        client = a_client(cluster)
        if kind is None:
            client.controller.cancel(7)
        else:
            raises_exactly(kind, lambda client=client: client.controller.cancel(7))


# Nodes.


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_node_is_drained_and_resumed(version: str) -> None:
    cluster = ScriptedCluster(version).on("POST", "/node/g16", FINE, an_answer(an_error(2180), 500))
    client = a_client(cluster)
    client.controller.set_node("g16", drain=True, reason="disk")
    client.controller.set_node("g16", drain=False, reason="")
    assert [json.loads(request.content) for request in cluster.seen("POST", "/node/g16")] == [
        {"state": ["DRAIN"], "reason": "disk"},
        {"state": ["RESUME"]},
    ]
    for node in ("g16/../x", "g\n16"):
        with pytest.raises(WorkloadRejected, match="no name for Slurm"):
            client.controller.set_node(node, drain=True, reason="disk")
