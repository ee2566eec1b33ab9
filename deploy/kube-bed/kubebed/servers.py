"""The bed's servers: with which flags each starts, and where it says that it is ready.

What a flag is for stands beside it where its name does not tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from kubebed.configuration import init_containers
from kubebed.settings import HOST, SOURCE, Settings

#: Only what Jobs need: each controller left out saves memory and time at start.
_CONTROLLERS = (
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "garbage-collector-controller",
    "job-controller",
    "ttl-after-finished-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "resourcequota-controller",
    "disruption-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
)


@dataclass(frozen=True, slots=True)
class Server:
    """One process: the whole command line, its ports, and the address that answers 200."""

    name: str
    command: tuple[str, ...]
    ports: tuple[str, ...]
    ready_url: str


def all_servers(settings: Settings) -> dict[str, Server]:
    """Every server by name, in the order in which they start."""
    makers: tuple[Callable[[Settings], Server], ...] = (
        _etcd,
        _apiserver,
        _controllers,
        _scheduler,
        _kwok,
        _runtime,
        _runner,
        _jobset,
        _kueue,
        _training,
        _mpi,
        _trainer,
        _ray,
    )
    return {server.name: server for server in (make(settings) for make in makers)}


def _etcd(settings: Settings) -> Server:
    client = f"https://{HOST}:{settings.port('etcd')}"
    peer = f"http://{HOST}:{settings.port('etcd-peer')}"
    return Server(
        name="etcd",
        command=(
            str(settings.binaries / "etcd"),
            "--name=bed",
            f"--data-dir={settings.data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=bed={peer}",
            f"--cert-file={settings.pki / 'server.crt'}",
            f"--key-file={settings.pki / 'server.key'}",
            f"--trusted-ca-file={settings.pki / 'ca.crt'}",
            "--client-cert-auth",
            # A killed process loses nothing by it, only a machine that loses its power.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ),
        ports=("etcd", "etcd-peer"),
        ready_url=f"{client}/readyz",
    )


def _apiserver(settings: Settings) -> Server:
    # Never a GOMEMLIMIT of 1 GiB: collecting garbage then takes 2.5 times the CPU.
    pki = settings.pki
    return Server(
        name="apiserver",
        command=(
            str(settings.binaries / "kube-apiserver"),
            f"--bind-address={HOST}",
            f"--secure-port={settings.port('apiserver')}",
            # A loopback address is not allowed in the Endpoints that the reconciler would write.
            f"--advertise-address={HOST}",
            "--endpoint-reconciler-type=none",
            f"--etcd-servers=https://{HOST}:{settings.port('etcd')}",
            f"--etcd-cafile={pki / 'ca.crt'}",
            f"--etcd-certfile={pki / 'apiserver.crt'}",
            f"--etcd-keyfile={pki / 'apiserver.key'}",
            *_served_with(settings),
            f"--client-ca-file={pki / 'ca.crt'}",
            "--authorization-mode=Node,RBAC",
            # Without these, controllers and scheduler complain every ten seconds.
            f"--requestheader-client-ca-file={pki / 'ca.crt'}",
            "--requestheader-allowed-names=nobody",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--service-account-issuer={settings.url}",
            f"--service-account-key-file={pki / 'tokens.pub'}",
            f"--service-account-signing-key-file={pki / 'tokens.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # The way to the kubelet, which has the Pods' logs.
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'apiserver.crt'}",
            f"--kubelet-client-key={pki / 'apiserver.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            # A dead node evicts after 5 s; the default is 300.
            "--default-not-ready-toleration-seconds=5",
            "--default-unreachable-toleration-seconds=5",
            f"--audit-policy-file={settings.conf / 'audit.yaml'}",
            f"--audit-log-path={settings.log / 'audit.log'}",
            "--profiling=false",
        ),
        ports=("apiserver",),
        ready_url=f"{settings.url}/readyz",
    )


def _controllers(settings: Settings) -> Server:
    return Server(
        name="controllers",
        command=(
            str(settings.binaries / "kube-controller-manager"),
            f"--bind-address={HOST}",
            f"--secure-port={settings.port('controllers')}",
            f"--kubeconfig={settings.kubeconfig('controllers')}",
            *_delegated_to(settings, "controllers"),
            *_served_with(settings),
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",  # no lease to wait for after kill -9
            "--use-service-account-credentials",
            f"--service-account-private-key-file={settings.pki / 'tokens.key'}",
            f"--root-ca-file={settings.pki / 'ca.crt'}",
            # The default of 20 requests a second holds 500 Jobs back.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--concurrent-job-syncs=20",
            "--profiling=false",
        ),
        ports=("controllers",),
        ready_url=f"https://{HOST}:{settings.port('controllers')}/healthz",
    )


def _scheduler(settings: Settings) -> Server:
    return Server(
        name="scheduler",
        command=(
            str(settings.binaries / "kube-scheduler"),
            f"--bind-address={HOST}",
            f"--secure-port={settings.port('scheduler')}",
            f"--config={settings.conf / 'scheduler.yaml'}",
            *_delegated_to(settings, "scheduler"),
            *_served_with(settings),
            "--profiling=false",
        ),
        ports=("scheduler",),
        ready_url=f"https://{HOST}:{settings.port('scheduler')}/readyz",
    )


def _kwok(settings: Settings) -> Server:
    address = f"{HOST}:{settings.port('kubelet')}"
    return Server(
        name="kwok",
        command=(
            str(settings.binaries / "kwok"),
            f"--kubeconfig={settings.kubeconfig('kwok')}",
            f"--config={SOURCE / 'kwok.yaml'}",
            "--manage-all-nodes=true",
            f"--node-ip={HOST}",
            # The nodes' port is the runner's, which asks kwok for the logs of Pods that it plays.
            f"--node-port={settings.port('runner')}",
            f"--server-address={address}",  # without it, it listens on all addresses
            *_served_with(settings),
            "--cidr=10.128.0.1/12",
            "--node-lease-duration-seconds=40",
            "--enable-crds=Logs",
        ),
        ports=("kubelet",),
        ready_url=f"https://{address}/healthz",
    )


def _runtime(settings: Settings) -> Server:
    return Server(
        name="runtime",
        command=(sys.executable, "-m", "kubebed.runner.runtime", str(settings.folder)),
        ports=(),
        ready_url=f"unix:{settings.folder / 'run' / 'runtime.sock'}",
    )


def _runner(settings: Settings) -> Server:
    return Server(
        name="runner",
        command=(sys.executable, "-m", "kubebed.runner.main", str(settings.folder)),
        ports=("runner",),
        ready_url=f"https://{HOST}:{settings.port('runner')}/healthz",
    )


def _jobset(settings: Settings) -> Server:
    return Server(
        name="jobset",
        command=(
            str(settings.binaries / "jobset"),
            f"--kubeconfig={settings.kubeconfig('jobset')}",
            f"--config={settings.conf / 'jobset.yaml'}",
        ),
        ports=("jobset-webhook", "jobset-health"),
        ready_url=f"http://{HOST}:{settings.port('jobset-health')}/readyz",
    )


def _kueue(settings: Settings) -> Server:
    return Server(
        name="kueue",
        command=(
            str(settings.binaries / "kueue"),
            f"--kubeconfig={settings.kubeconfig('kueue')}",
            f"--config={settings.conf / 'kueue.yaml'}",
            "--zap-log-level=info",
        ),
        ports=("kueue-webhook", "kueue-health", "kueue-metrics"),
        ready_url=f"http://{HOST}:{settings.port('kueue-health')}/readyz",
    )


def _training(settings: Settings) -> Server:
    return _operator(settings, "training", f"-init-container-template={init_containers(settings)}")


def _mpi(settings: Settings) -> Server:
    return _operator(settings, "mpi")


def _trainer(settings: Settings) -> Server:
    port = "trainer-webhook"
    return _operator(
        settings,
        "trainer",
        f"-webhook-port={settings.port(port)}",
        f"-webhook-cert-dir={settings.pki / 'trainer'}",
        ports=(port,),
    )


def _ray(settings: Settings) -> Server:
    return _operator(settings, "ray")


def _operator(settings: Settings, name: str, *flags: str, ports: tuple[str, ...] = ()) -> Server:
    health = f"{name}-health"
    return Server(
        name=name,
        command=(
            str(settings.binaries / "operators"),
            f"-operator={name}",
            f"-kubeconfig={settings.kubeconfig(name)}",
            f"-health-probe-bind-address={HOST}:{settings.port(health)}",
            *flags,
        ),
        ports=(health, *ports),
        ready_url=f"http://{HOST}:{settings.port(health)}/readyz",
    )


def _served_with(settings: Settings) -> tuple[str, ...]:
    return (
        f"--tls-cert-file={settings.pki / 'server.crt'}",
        f"--tls-private-key-file={settings.pki / 'server.key'}",
    )


def _delegated_to(settings: Settings, user: str) -> tuple[str, ...]:
    file = settings.kubeconfig(user)
    return (f"--authentication-kubeconfig={file}", f"--authorization-kubeconfig={file}")
