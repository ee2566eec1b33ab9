"""Pods of the bed are real processes, and the bed does with them what a kubelet does."""

import os
import threading
import time
import uuid
from pathlib import Path

import pytest

from builders.bed_pods import (
    a_config_map,
    a_pod,
    annotate,
    create,
    delete,
    has_phase,
    is_gone,
    is_over,
    read_log,
    says,
    seconds,
    terminated,
)
from kube_bed import KubeBed, until

pytestmark = pytest.mark.kube


def _processes(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_job_runs_its_script_and_its_end_comes_back(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a Job, when its script has ended, log, exit code, message and times are its."""
    template = a_pod(
        kube_namespace, "x", "echo out; echo err >&2; echo why > /dev/termination-log; exit 3"
    )
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "real", "namespace": kube_namespace},
        "spec": {"backoffLimit": 0, "template": {"spec": template["spec"]}},
    }
    before_s = int(time.time())
    create(kube_bed, job)

    def the_pod() -> str:
        path = f"/api/v1/namespaces/{kube_namespace}/pods?labelSelector=job-name%3Dreal"
        pods = kube_bed.api.call("GET", path)["items"]
        return pods[0]["metadata"]["name"] if pods else ""

    name = until(the_pod, "no Pod of the Job")
    end = terminated(is_over(kube_bed, kube_namespace, name))

    assert (end["exitCode"], end["reason"], end["message"]) == (3, "Error", "why\n")
    assert before_s <= seconds(end["startedAt"]) <= seconds(end["finishedAt"]) <= time.time()
    assert read_log(kube_bed, kube_namespace, name) == "out\nerr\n"
    path = f"/apis/batch/v1/namespaces/{kube_namespace}/jobs/real"
    until(
        lambda: [
            one
            for one in kube_bed.api.call("GET", path)["status"].get("conditions") or ()
            if one["type"] == "Failed" and one["reason"] == "BackoffLimitExceeded"
        ],
        "the Job is not Failed",
    )


def test_environment_and_arguments_are_expanded_as_kubernetes_does(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given references in values and arguments, the process sees what the API documents."""
    create(kube_bed, a_config_map(kube_namespace, "given", {"COLOR": "red", "SIZE": "3"}))
    fields = {
        "MY_NAME": "metadata.name",
        "MY_SPACE": "metadata.namespace",
        "MY_NODE": "spec.nodeName",
        "MY_IP": "status.podIP",
        "MY_LABEL": "metadata.labels['app.example/part']",
        "MY_NOTE": "metadata.annotations['example/note']",
    }
    env = [
        {"name": "A", "value": "a$b"},
        {"name": "B", "value": "$(A)-$$(A)-$(NONE)-$(LATER)-$"},
        {"name": "LATER", "value": "l"},
        {"name": "SHADE", "value": "$(COLOR)ish"},
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
        {
            "name": "MIB",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
    ]
    names = ["A", "B", "SHADE", "SIZE", *fields, "MIB"]
    script = "; ".join(f'echo "{name}=${name}"' for name in names) + '; echo "$0 $1"; pwd'
    limits = {"nvidia.com/gpu": "2", "memory": "1500M"}
    pod = a_pod(
        kube_namespace,
        "values",
        command=["/bin/sh", "-c", script],
        labels={"app.example/part": "head"},
        annotations={"example/note": "n o"},
        container={
            "args": ["zero$$", "$(B)"],
            "env": env,
            "envFrom": [{"configMapRef": {"name": "given"}}],
            "resources": {"limits": limits},
            "workingDir": "/srv/made/for/it",
        },
    )
    create(kube_bed, pod)
    done = is_over(kube_bed, kube_namespace, "values")

    b = "a$b-$(A)-$(NONE)-$(LATER)-$"
    assert read_log(kube_bed, kube_namespace, "values").splitlines() == [
        "A=a$b",
        f"B={b}",
        "SHADE=redish",
        "SIZE=3",
        "MY_NAME=values",
        f"MY_SPACE={kube_namespace}",
        f"MY_NODE={done['spec']['nodeName']}",
        f"MY_IP={done['status']['podIP']}",
        "MY_LABEL=head",
        "MY_NOTE=n o",
        "MIB=1431",
        f"zero$ {b}",
        "/srv/made/for/it",
    ]
    assert not Path("/srv/made").exists()


def test_volumes_are_where_and_what_the_pod_says(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given each kind of volume, the files have their content and mode, and the machine none."""
    data = {"run": "#!/bin/sh\necho ran\n", "other": "o"}
    create(kube_bed, a_config_map(kube_namespace, "files", data))
    items = [{"key": "run", "path": "bin/run", "mode": 0o500}]
    note = {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}
    script = """
cat /bed-test/all/other; echo
stat -L -c '%a %n' /bed-test/all/run /bed-test/some/bin/run /bed-test/both/note
/bed-test/some/bin/run
cat /bed-test/both/note; echo
ls /bed-test/some
echo w > /bed-test/empty/w && cat /bed-test/empty/w
touch /bed-test/all/new 2>&1 || echo refused
touch /run/here /dev/shm/here && ls /run
echo more >> /etc/hosts
"""
    pod = a_pod(
        kube_namespace,
        "files",
        script,
        annotations={"note": "first\nsecond"},
        container={
            "volumeMounts": [
                {"name": "all", "mountPath": "/bed-test/all"},
                {"name": "some", "mountPath": "/bed-test/some"},
                {"name": "empty", "mountPath": "/bed-test/empty"},
                {"name": "both", "mountPath": "/bed-test/both"},
            ]
        },
        volumes=[
            {"name": "all", "configMap": {"name": "files", "defaultMode": 0o555}},
            {"name": "some", "configMap": {"name": "files", "items": items}},
            {"name": "empty", "emptyDir": {}},
            {
                "name": "both",
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "files", "items": [items[0] | {"path": "r"}]}},
                        {"downwardAPI": {"items": [note]}},
                    ],
                },
            },
        ],
    )
    create(kube_bed, pod)
    end = terminated(is_over(kube_bed, kube_namespace, "files"))

    log = read_log(kube_bed, kube_namespace, "files").splitlines()
    assert log == [
        "o",
        "555 /bed-test/all/run",
        "500 /bed-test/some/bin/run",
        "440 /bed-test/both/note",
        "ran",
        "first",
        "second",
        "bin",
        "w",
        "touch: cannot touch '/bed-test/all/new': Read-only file system",
        "refused",
        "here",
    ]
    assert end["exitCode"] == 0
    assert not Path("/bed-test").exists()
    assert not Path("/run/here").exists()


def test_an_annotation_reaches_a_running_pod_within_two_seconds(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a Pod that reads its notice, when it is annotated, it sees it soon."""
    field = {"fieldPath": "metadata.annotations['example/notice']"}
    notice = {"path": "notice", "fieldRef": field}
    script = (
        "echo up; while [ ! -s /run/pod/notice ]; do sleep 0.05; done; cat /run/pod/notice; exit 0"
    )
    pod = a_pod(
        kube_namespace,
        "told",
        script,
        container={"volumeMounts": [{"name": "pod", "mountPath": "/run/pod"}]},
        volumes=[{"name": "pod", "downwardAPI": {"items": [notice]}}],
    )
    create(kube_bed, pod)
    says(kube_bed, kube_namespace, "told", "up")
    annotate(kube_bed, kube_namespace, "told", {"example/notice": "leave"})
    is_over(kube_bed, kube_namespace, "told")

    assert read_log(kube_bed, kube_namespace, "told") == "up\nleave"


def test_deletion_is_sigterm_and_then_the_end_of_all_processes(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a Pod that obeys and one that does not, both go in time with all they started."""
    mark = f"BED_MARK={uuid.uuid4().hex}"
    name, value = mark.split("=")
    env = {"env": [{"name": name, "value": value}]}
    obeys = "trap 'exit 5' TERM; setsid sleep 300 & echo up; wait"
    defies = "trap '' TERM; setsid sleep 300 & echo up; wait; sleep 300"
    create(kube_bed, a_pod(kube_namespace, "obeys", obeys, container=env))
    create(kube_bed, a_pod(kube_namespace, "defies", defies, container=env))
    for pod in ("obeys", "defies"):
        says(kube_bed, kube_namespace, pod, "up")
    seen: dict[str, int] = {}

    def watch() -> None:
        path = f"/api/v1/namespaces/{kube_namespace}/pods"
        while len(seen) < 2:
            for pod in kube_bed.api.call("GET", path)["items"]:
                if pod["status"]["phase"] == "Failed":
                    seen[pod["metadata"]["name"]] = terminated(pod)["exitCode"]

    # A finalizer keeps them, so that their last status can be read.
    for pod in ("obeys", "defies"):
        path = f"/api/v1/namespaces/{kube_namespace}/pods/{pod}"
        body = {"metadata": {"finalizers": ["example.org/look"]}}
        kube_bed.api.call("PATCH", path, body, "application/merge-patch+json")
    watcher = threading.Thread(target=watch)
    watcher.start()
    began_s = time.monotonic()
    delete(kube_bed, kube_namespace, "obeys")
    delete(kube_bed, kube_namespace, "defies")
    watcher.join(timeout=60)
    took_s = time.monotonic() - began_s
    for pod in ("obeys", "defies"):
        path = f"/api/v1/namespaces/{kube_namespace}/pods/{pod}"
        body = {"metadata": {"finalizers": None}}
        kube_bed.api.call("PATCH", path, body, "application/merge-patch+json")

    assert seen == {"obeys": 5, "defies": 137}
    assert took_s >= 2
    assert _processes(mark) == []
    for pod in ("obeys", "defies"):
        is_gone(kube_bed, kube_namespace, pod)


def test_a_second_deletion_shortens_the_grace(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a Pod in a long grace, when it is deleted with 1 s, it goes then."""
    script = "trap '' TERM; echo up; while :; do sleep 1; done"
    pod = a_pod(kube_namespace, "slow", script, terminationGracePeriodSeconds=600)
    create(kube_bed, pod)
    says(kube_bed, kube_namespace, "slow", "up")
    delete(kube_bed, kube_namespace, "slow")
    delete(kube_bed, kube_namespace, "slow", grace_s=1)
    is_gone(kube_bed, kube_namespace, "slow")


def test_a_process_without_a_handler_does_not_hear_sigterm(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a main process without handlers, it is number 1 and lives until SIGKILL."""
    create(kube_bed, a_pod(kube_namespace, "deaf", command=["sleep", "300"]))
    has_phase(kube_bed, kube_namespace, "deaf", "Running")
    began_s = time.monotonic()
    delete(kube_bed, kube_namespace, "deaf", grace_s=2)
    is_gone(kube_bed, kube_namespace, "deaf")

    assert time.monotonic() - began_s >= 2


def test_a_pod_ends_at_its_deadline(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given activeDeadlineSeconds, the Pod is Failed with the reason, whatever its code."""
    script = "trap 'exit 0' TERM; echo up; sleep 300 & wait"
    create(kube_bed, a_pod(kube_namespace, "late", script, activeDeadlineSeconds=2))
    pod = is_over(kube_bed, kube_namespace, "late")

    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert terminated(pod)["exitCode"] == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program", 'exec: "no-such-program": executable file not found in $PATH'),
        ("/no/such/program", 'exec: "/no/such/program": no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
    ],
)
def test_a_command_that_cannot_be_started_says_so(
    kube_bed: KubeBed, kube_namespace: str, command: str, said: str
) -> None:
    """Given a command that is not there, the end is StartError with 128 and the reason."""
    create(kube_bed, a_pod(kube_namespace, "wrong", command=[command]))
    pod = is_over(kube_bed, kube_namespace, "wrong")
    end = terminated(pod)

    assert pod["status"]["phase"] == "Failed"
    assert (end["reason"], end["exitCode"]) == ("StartError", 128)
    assert end["message"].endswith(f"error during container init: {said}")
    assert end["startedAt"] == "1970-01-01T00:00:00Z"


def test_a_long_termination_message_is_cut(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given more than 4096 bytes at another path, the first 4096 come back."""
    script = "head -c 5000 /dev/zero | tr '\\0' m > /tmp-message"
    path = {"terminationMessagePath": "/tmp-message"}
    create(kube_bed, a_pod(kube_namespace, "talks", script, container=path))
    end = terminated(is_over(kube_bed, kube_namespace, "talks"))

    assert end["message"] == "m" * 4096
    assert not Path("/tmp-message").exists()


def test_the_user_is_the_one_of_the_security_context(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given runAsUser and a restricted context, the process is that user and gains no rights."""
    security = {
        "runAsNonRoot": True,
        "runAsUser": 4321,
        "runAsGroup": 4322,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    }
    script = "id -u; id -g; grep -E '^(NoNewPrivs|CapEff)' /proc/self/status; hostname; echo $HOME"
    pod = a_pod(kube_namespace, "who", script, container=container, securityContext=security)
    create(kube_bed, pod)
    is_over(kube_bed, kube_namespace, "who")

    assert read_log(kube_bed, kube_namespace, "who").split() == [
        *("4321", "4322", "CapEff:", "0000000000000000", "NoNewPrivs:", "1", "who", "/"),
    ]


def test_pods_of_a_subdomain_find_each_other(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given two Pods of one subdomain, the one reaches the other by its service's name."""
    first = "echo up; sleep 60"
    create(kube_bed, a_pod(kube_namespace, "r0", first, hostname="gang-0", subdomain="gang"))
    has_phase(kube_bed, kube_namespace, "r0", "Running")
    names = f"gang-0.gang gang-0.gang.{kube_namespace}.svc gang-1.gang gang-1"
    second = f"for name in {names}; do getent hosts $name | cut -d' ' -f1; done"
    create(kube_bed, a_pod(kube_namespace, "r1", second, hostname="gang-1", subdomain="gang"))
    addresses = [
        has_phase(kube_bed, kube_namespace, name, "Running", "Succeeded")["status"]["podIP"]
        for name in ("r0", "r1")
    ]
    is_over(kube_bed, kube_namespace, "r1")

    found = read_log(kube_bed, kube_namespace, "r1").split()
    assert found == [addresses[0], addresses[0], addresses[1], addresses[1]]
    assert addresses[0] != addresses[1]


def test_a_service_account_token_is_projected(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a Pod that mounts its account, the token is there and it is the account's own."""
    script = (
        "cd /var/run/secrets/kubernetes.io/serviceaccount; cat namespace; echo; "
        "grep -c BEGIN ca.crt; cut -d. -f2 token | wc -l"
    )
    create(kube_bed, a_pod(kube_namespace, "holds", script, automountServiceAccountToken=True))
    is_over(kube_bed, kube_namespace, "holds")

    log = read_log(kube_bed, kube_namespace, "holds").split()
    assert log[:2] == [kube_namespace, "1"]


def test_a_missing_config_map_keeps_the_pod_waiting(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a volume of a ConfigMap that comes later, the Pod waits and then runs."""
    pod = a_pod(
        kube_namespace,
        "waits",
        "cat /run/c/text",
        container={"volumeMounts": [{"name": "c", "mountPath": "/run/c"}]},
        volumes=[{"name": "c", "configMap": {"name": "later"}}],
    )
    create(kube_bed, pod)

    def reason() -> str:
        found = kube_bed.pod(kube_namespace, "waits") or {"status": {}}
        told = found["status"].get("containerStatuses") or [{"state": {}}]
        return str(told[0]["state"].get("waiting", {}).get("reason", ""))

    until(lambda: reason() == "ContainerCreating", "it does not wait")
    create(kube_bed, a_config_map(kube_namespace, "later", {"text": "came"}))
    is_over(kube_bed, kube_namespace, "waits")

    assert read_log(kube_bed, kube_namespace, "waits") == "came"


def test_an_image_that_cannot_be_had_keeps_the_pod_waiting(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given an image of no registry, the Pod says ImagePullBackOff and can be deleted."""
    image = {"image": "registry.invalid/team/train:1"}
    create(kube_bed, a_pod(kube_namespace, "pulls", container=image))

    def waiting() -> bool:
        pod = kube_bed.pod(kube_namespace, "pulls") or {"status": {}}
        told = pod["status"].get("containerStatuses") or [{"state": {}}]
        return told[0]["state"].get("waiting", {}).get("reason") == "ImagePullBackOff"

    until(waiting, "it does not wait for its image")
    delete(kube_bed, kube_namespace, "pulls")
    is_gone(kube_bed, kube_namespace, "pulls")


def test_a_pod_with_the_bed_s_annotations_has_no_process(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a Pod that kwok plays, it ends as it is told and nothing was run."""
    place = Path(os.environ.get("TMPDIR") or "/tmp") / f"never-{uuid.uuid4().hex}"
    marks = {"bed.tidegate.io/run-seconds": "1", "bed.tidegate.io/exit": "4"}
    create(kube_bed, a_pod(kube_namespace, "fake", f"touch {place}", annotations=marks))
    end = terminated(is_over(kube_bed, kube_namespace, "fake"))

    assert end["exitCode"] == 4
    assert not place.exists()
