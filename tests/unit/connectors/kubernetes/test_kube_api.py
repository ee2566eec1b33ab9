"""What the answers of an API server mean, and those that do not come: a real socket each time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3

from connectors.errors import AnotherCluster, ClusterUnavailable, OutcomeUnknown
from connectors.kubernetes.client import api as module
from connectors.kubernetes.client.api import (
    IDENTITY_PATH,
    WHOLE_ANSWER_S,
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    KubeApi,
    KubeRefused,
    MayNotGo,
    NotFound,
    WebhookAway,
)

NS = {"metadata": {"uid": "the-uid", "resourceVersion": "7"}}


@dataclass
class Answer:
    """One answer; `dies` closes the connection instead, and one that `lingers` goes on after its
    first byte when the server is let go."""

    body: Any = field(default_factory=lambda: NS)
    code: int = 200
    dies: bool = False
    lingers: bool = False
    lines: tuple[Any, ...] = ()


@dataclass
class AServer:
    """Answers by path, in turn and the last one again; what it was asked."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def on(self, path: str, *answers: Answer) -> None:
        self.answers[path] = list(answers)

    def next_for(self, path: str) -> Answer:
        answers = self.answers.get(path) or [Answer(code=404, body=a_status(404, "NotFound"))]
        return answers.pop(0) if len(answers) > 1 else answers[0]


def a_status(code: int, reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


@pytest.fixture
def server() -> Iterator[AServer]:
    told = AServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            length = int(self.headers.get("Content-Length") or 0)
            told.bodies.append(json.loads(self.rfile.read(length) or b"null"))
            told.asked.append(f"{self.command} {self.path}")
            answer = told.next_for(path)
            if answer.dies:
                self.close_connection = True
                return
            self.send_response(answer.code)
            self.send_header("Content-Type", "application/json")
            if answer.lines:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for line in answer.lines:
                    data = json.dumps(line).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.write(b"0\r\n\r\n")
                return
            data = json.dumps(answer.body).encode()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if answer.lingers:
                self.wfile.write(data[:1])
                told.let_go.wait(20)
                data = data[1:]
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    told.port = http.server_port
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield told
    told.let_go.set()
    http.shutdown()
    http.server_close()


def a_kubeconfig(tmp_path: Path, port: int) -> str:
    path = tmp_path / "kubeconfig"
    here = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    user = {"name": "a", "user": {"token": "t"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [here],
                "users": [user],
                "contexts": [context],
                "current-context": "a",
            }
        )
    )
    return str(path)


@pytest.fixture
def api(server: AServer, tmp_path: Path) -> Iterator[KubeApi]:
    opened = KubeApi(kubeconfig=a_kubeconfig(tmp_path, server.port))
    yield opened
    opened.close()


def test_the_cluster_says_its_time_and_who_it_is(server: AServer, api: KubeApi) -> None:
    server.on(IDENTITY_PATH, Answer())
    assert api.probe().uid == "the-uid"
    assert api.probe().observed_at > 1_700_000_000


#: As it came from Kueue, which had not heard of a namespace that was there.
KUEUE_IS_LATE = 'admission webhook "mpod.kb.io" denied the request: Namespace "t-1" not found'


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(a_status(409, "AlreadyExists"), 409), AlreadyExists),
        (Answer(a_status(409, "Conflict"), 409), Conflict),
        (Answer(a_status(404, "NotFound"), 404), NotFound),
        (Answer(a_status(422, "Invalid"), 422), KubeRefused),
        (Answer(a_status(403, "", 'webhook "x" denied the request: y'), 403), Forbidden),
        (Answer(a_status(401, "Unauthorized"), 401), ClusterUnavailable),
        (Answer(a_status(429, "TooManyRequests"), 429), ClusterUnavailable),
        (Answer(a_status(503), 503), ClusterUnavailable),
        (Answer(a_status(500, "", 'failed calling webhook "mjob"'), 500), WebhookAway),
        (Answer(a_status(404, "NotFound", KUEUE_IS_LATE), 404), ClusterUnavailable),
        (Answer(a_status(500, "", KUEUE_IS_LATE), 500), ClusterUnavailable),
        (Answer(a_status(422, "Invalid", KUEUE_IS_LATE), 422), KubeRefused),
        (Answer(a_status(500, "", "something"), 500), OutcomeUnknown),
        (Answer(a_status(504, "Timeout"), 504), OutcomeUnknown),
        (Answer(dies=True), OutcomeUnknown),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value.code),
)
def test_what_the_answer_to_a_write_means(
    server: AServer, api: KubeApi, answer: Answer, kind: type[Exception]
) -> None:
    """Only what certainly had no effect is ClusterUnavailable; a write is sent once."""
    server.on("/things", answer)
    with pytest.raises(kind) as raised:
        api.create("/things", {})
    assert type(raised.value) is kind
    assert len([one for one in server.asked if one.startswith("POST")]) == 1


def test_credentials_that_are_over_are_told_with_what_to_do(server: AServer, api: KubeApi) -> None:
    server.on("/things", Answer(a_status(401, "Unauthorized", "Unauthorized"), 401))
    with pytest.raises(ClusterUnavailable) as raised:
        api.get("/things")
    assert str(raised.value) == (
        "the API server does not know whose credentials these are (Unauthorized): they have "
        "expired or were revoked; write the kubeconfig anew, it is read again by itself"
    )


def test_a_refusal_names_what_is_wrong(server: AServer, api: KubeApi) -> None:
    cause = {"field": "spec.x", "reason": "FieldValueInvalid", "message": "must be y"}
    server.on("/things", Answer(a_status(422, "Invalid", "is invalid", causes=[cause]), 422))
    with pytest.raises(KubeRefused, match="is invalid") as raised:
        api.create("/things", {})
    assert (raised.value.code, raised.value.causes[0].field) == (422, "spec.x")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(
            a_status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}]),
            429,
        ),
        Answer(
            a_status(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support.",
            ),
            500,
        ),
    ],
    ids=["one budget", "several"],
)
def test_a_budget_is_told_from_a_server_that_is_busy(
    server: AServer, api: KubeApi, answer: Answer
) -> None:
    """Mutant: a Pod that may not go looked like a cluster that is away, for hours."""
    server.on("/pod/eviction", answer)
    with pytest.raises(MayNotGo):
        api.evict("/pod", name="p", namespace="n", uid="u", grace_s=30)
    assert server.bodies[-1] == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "n"},
        "deleteOptions": {"gracePeriodSeconds": 30, "preconditions": {"uid": "u"}},
    }


@pytest.mark.parametrize("answer", [a_status(404, "NotFound"), a_status(409, "Conflict")])
def test_a_pod_that_is_gone_or_another_one_is_not_evicted(
    server: AServer, api: KubeApi, answer: dict[str, Any]
) -> None:
    server.on("/pod/eviction", Answer(answer, answer["code"]))
    api.evict("/pod", name="p", namespace="n", uid="u", grace_s=30)
    assert len(server.asked) == 1


def test_a_read_is_sent_again_once_when_the_connection_breaks(
    server: AServer, api: KubeApi
) -> None:
    server.on("/thing", Answer(dies=True), Answer())
    assert api.get("/thing") == NS
    server.on("/thing", Answer(dies=True))
    with pytest.raises(ClusterUnavailable):
        api.get("/thing")


def test_an_answer_that_trickles_is_given_up_and_not_asked_for_again(
    server: AServer, api: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: looked at the clock only when 64 KiB had come; an answer of 500 bytes, one at a time,
    held up all that is known of its cluster for minutes."""
    monkeypatch.setattr(module, "WHOLE_ANSWER_S", 0.0)
    server.on("/thing", Answer(lingers=True))
    with pytest.raises(ClusterUnavailable, match="an answer of 1 bytes"):
        api.get("/thing")
    with pytest.raises(OutcomeUnknown, match="an answer of 1 bytes"):
        api.merge_patch("/thing", {})
    assert [one.split()[0] for one in server.asked] == ["GET", "PATCH"]
    assert module.WRITE_TIMEOUT_S + WHOLE_ANSWER_S < 30


def test_a_write_is_waited_for_longer_than_a_read(
    server: AServer, api: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a write waits for webhooks, by default 10 s.

    Planted: the time-out of a read, so that a silent webhook was a silent API server by chance.
    """
    waited_s: list[float] = []
    timeout = urllib3.Timeout

    def noting(*, connect: float, read: float) -> urllib3.Timeout:
        waited_s.append(read)
        return timeout(connect=connect, read=read)

    monkeypatch.setattr(urllib3, "Timeout", noting)
    server.on("/thing", Answer())
    api.get("/thing")
    api.create("/thing", {})
    api.merge_patch("/thing", {})
    assert waited_s == [10.0, 13.0, 13.0]


@pytest.mark.parametrize("metadata", [[], None, "x", {"uid": ""}])
def test_a_cluster_that_does_not_say_who_it_is_does_not_answer(
    server: AServer, api: KubeApi, metadata: object
) -> None:
    server.on(IDENTITY_PATH, Answer({"metadata": metadata}))
    with pytest.raises(ClusterUnavailable, match="does not tell the uid"):
        api.probe()


@pytest.mark.parametrize(
    "page",
    [
        {"items": ["x"], "metadata": {"resourceVersion": "1"}},
        {"items": {"a": {}}, "metadata": {"resourceVersion": "1"}},
        {"items": [{"metadata": None}], "metadata": {"resourceVersion": "1"}},
        {"items": [], "metadata": ["x"]},
    ],
)
def test_a_list_of_what_are_no_objects_is_no_list(
    server: AServer, api: KubeApi, page: dict[str, Any]
) -> None:
    server.on("/things", Answer({"kind": "ThingList", "apiVersion": "v1", **page}))
    with pytest.raises(ClusterUnavailable, match="answers what is no list of objects"):
        api.list("/things")


@pytest.mark.parametrize("details", [["x"], "x", {"causes": ["x"]}, {"causes": {"a": 1}}, None])
def test_a_refusal_is_one_whatever_its_details_are(
    server: AServer, api: KubeApi, details: object
) -> None:
    server.on("/things", Answer({**a_status(422, "Invalid"), "details": details}, 422))
    with pytest.raises(KubeRefused) as raised:
        api.create("/things", {})
    assert (raised.value.code, raised.value.causes) == (422, ())


def test_nobody_there_had_no_effect(tmp_path: Path) -> None:
    api = KubeApi(kubeconfig=a_kubeconfig(tmp_path, 1))
    with pytest.raises(ClusterUnavailable) as raised:
        api.create("/things", {})
    assert type(raised.value) is ClusterUnavailable


def test_a_kubeconfig_that_is_written_anew_is_read_anew(server: AServer, tmp_path: Path) -> None:
    """Seen to die: the client kept for good."""
    api = KubeApi(kubeconfig=a_kubeconfig(tmp_path, 1))
    with pytest.raises(ClusterUnavailable):
        api.get("/thing")
    server.on("/thing", Answer(), Answer())
    path = Path(a_kubeconfig(tmp_path, server.port))
    assert api.get("/thing") == NS
    path.unlink()
    assert api.get("/thing") == NS
    api.close()


def test_rights_that_are_not_known_yet_are_no_refusal(server: AServer, api: KubeApi) -> None:
    """A server that has just been started answers 403 before it is ready."""
    refusal = Answer(a_status(403, "Forbidden", 'x is forbidden: User "y" cannot list'), 403)
    server.on("/things", refusal)
    server.on("/readyz", Answer(code=500))
    with pytest.raises(ClusterUnavailable, match="not ready yet"):
        api.get("/things")
    server.on("/readyz", Answer())
    with pytest.raises(Forbidden):
        api.get("/things")


def test_a_list_comes_page_by_page(server: AServer, api: KubeApi) -> None:
    def page(name: str, following: str) -> Answer:
        return Answer(
            {
                "apiVersion": "v1",
                "kind": "ThingList",
                "metadata": {"resourceVersion": "9", "continue": following},
                "items": [{"metadata": {"name": name}}],
            }
        )

    server.on("/things", page("a", "more"), page("b", ""))
    listed = api.list("/things", labels="x=y")
    assert [one["metadata"]["name"] for one in listed.items] == ["a", "b"]
    assert {(one["apiVersion"], one["kind"]) for one in listed.items} == {("v1", "Thing")}
    assert listed.resource_version == "9"
    assert server.asked == [
        "GET /things?labelSelector=x%3Dy&limit=500",
        "GET /things?labelSelector=x%3Dy&limit=500&continue=more",
    ]


def test_nothing_is_asked_after_the_time_of_a_client(server: AServer, tmp_path: Path) -> None:
    """The list has no end.

    Planted: a bound for each answer alone.
    """
    following = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": []}
    server.on("/things", Answer({"apiVersion": "v1", "kind": "ThingList", **following}))
    api = KubeApi(kubeconfig=a_kubeconfig(tmp_path, server.port), lasts_s=0.2)
    with pytest.raises(ClusterUnavailable):
        api.list("/things")
    count = len(server.asked)
    with pytest.raises(ClusterUnavailable, match="took too long"):
        api.get("/things")
    assert len(server.asked) == count
    api.close()


def test_a_list_whose_rest_is_gone_begins_anew_and_not_for_ever(
    server: AServer, api: KubeApi
) -> None:
    server.on("/things", Answer(a_status(410, "Expired"), 410))
    with pytest.raises(ClusterUnavailable, match="changes faster"):
        api.list("/things")
    assert len(server.asked) == 3


def test_a_410_comes_inside_a_stream_that_was_answered_with_200(
    server: AServer, api: KubeApi
) -> None:
    event = {"type": "ADDED", "object": {"metadata": {"resourceVersion": "8"}}}
    server.on("/things", Answer(lines=(event, {"type": "ERROR", "object": a_status(410)})))
    told = iter(api.watch("/things", resource_version="7"))
    assert next(told).kind == "ADDED"
    with pytest.raises(Gone):
        next(told)


def test_a_watch_that_ends_ends(server: AServer, api: KubeApi) -> None:
    event = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
    server.on("/things", Answer(lines=(event,)))
    assert [one.kind for one in api.watch("/things", resource_version="7")] == ["BOOKMARK"]


def test_nothing_is_written_to_another_cluster(server: AServer, tmp_path: Path) -> None:
    server.on(IDENTITY_PATH, Answer())
    server.on("/things", Answer())
    api = KubeApi(kubeconfig=a_kubeconfig(tmp_path, server.port), identity="another")
    writes: tuple[Callable[[], Any], ...] = (
        lambda: api.create("/things", {}),
        lambda: api.apply("/things", {}),
        lambda: api.merge_patch("/things", {}),
        lambda: api.delete("/things"),
    )
    for write in writes:
        with pytest.raises(AnotherCluster):
            write()
    assert {one.split()[0] for one in server.asked} == {"GET"}


def test_a_deletion_is_of_one_object_only(server: AServer, api: KubeApi) -> None:
    """What is absent, or is another one by now, is left alone."""
    api.delete("/thing", uid="u1")
    server.on("/thing", Answer(a_status(409, "Conflict"), 409))
    api.delete("/thing", uid="u1", grace_s=1, propagation="Background")
    assert server.bodies[-1] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 1,
        "propagationPolicy": "Background",
    }
