"""Options of a Kubernetes cluster: what is taken, and what is refused with a sentence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from builders.kubernetes_builders import (
    BLOCK,
    IMAGE,
    RACK,
    a_pool_with,
    kubernetes_options,
    some_options,
)
from connectors.errors import WorkloadRejected
from connectors.kubernetes.nodes.features import feature_terms, features_of, without_nodes
from connectors.kubernetes.objects.resources import JOB, RAYJOB
from connectors.kubernetes.options.images import (
    ImageReference,
    is_allowed,
    parse_allowed,
    parse_image,
    plain_image,
)
from connectors.kubernetes.options.options import (
    image_refusal,
    job_image_refusal,
    names_images,
    parse_options,
    unit_mgpu,
)
from connectors.kubernetes.options.pools import HOST_LABEL, not_on_gpus

DIGEST = "sha256:" + "a" * 64


def test_the_least_options() -> None:
    options = parse_options({"in_cluster": True, "pools": {"h100": {}}})
    pool = options.pools["h100"]
    assert (options.kubeconfig, options.scheduler, options.kind) == (None, "kueue", "job")
    assert (options.mode, options.allowed_registries, options.run_as_user) == (
        "arbiter",
        None,
        1000,
    )
    assert (pool.flavor, pool.resource, pool.mgpu_per_unit) == ("h100", "nvidia.com/gpu", 1000)
    assert (options.resource, options.has_kueue) == (JOB, True)
    assert some_options(kind="rayjob").resource == RAYJOB
    assert some_options(scheduler="kai").resource == JOB


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"url": "x"}, "unknown options of a Kubernetes cluster: url"),
        ({"in_cluster": True}, "either option kubeconfig or in_cluster true"),
        ({"kubeconfig": None}, "either option kubeconfig or in_cluster true"),
        ({"in_cluster": "yes"}, "option in_cluster must be true or false"),
        ({"kubeconfig": "/a/../b"}, "absolute path without spaces and '..'"),
        ({"kubeconfig": "relative"}, "absolute path"),
        ({"context": "a b"}, "name of a context"),
        ({"scheduler": "default"}, "option scheduler must be one of kueue, volcano, kai, yunikorn"),
        ({"kind": "deployment"}, "option kind must be one of job, jobset"),
        ({"mode": "both"}, "option mode must be one of arbiter, shared"),
        ({"scheduler": "kai", "kind": "jobset"}, "options kind and mode are of Kueue"),
        ({"scheduler": "kai", "mode": "shared"}, "options kind and mode are of Kueue"),
        ({"queue": "all"}, "option queue is of the other schedulers"),
        ({"scheduler": "kai", "queue": "A b"}, "option queue must be lower case"),
        ({"pools": {}}, "option pools must be like"),
        ({"pools": {"a b": {}}}, "'a b' is no name of a pool"),
        ({"pools": {"h100": {"partition": "x"}}}, "pool h100 has cpu_per_gpu, device_class"),
        ({"pools": {"a": {}, "b": {}}}, "two pools have the same node_selector and resource"),
        ({"allowed_registries": "docker.io"}, "must be a list of at most 100"),
        ({"allowed_registries": ["pytorch"]}, "write docker.io/pytorch for that name"),
        ({"require_digest": True}, "option pools.h100.image: the image docker.io/pytorch/pytorch"),
        ({"portal_url": "gpus.test"}, "option portal_url must look like https://host"),
        ({"portal_url": "https://gpus.test/x"}, "option portal_url must look like https://host"),
        ({"run_as_user": 0}, "option run_as_user must be a whole number from 1"),
        ({"run_as_user": True}, "option run_as_user must be a whole number from 1"),
        ({"operators": ["bob"]}, "option operators must be a list of accounts"),
        ({"exempt": ["bob"]}, "option exempt must be a list of accounts"),
        ({"exempt": ['system:serviceaccount:a:b"']}, "option exempt must be a list of accounts"),
        ({"unlabelled": "ignore"}, "option unlabelled"),
        ({"work_mib": 0}, "option work_mib must be a whole number from 1"),
        ({"shared_memory_mib": None}, "option shared_memory_mib must be a whole number from 1"),
        ({"pull_secrets": ["A"]}, "option pull_secrets must be lower case"),
        ({"service_account": "a/b"}, "option service_account must be lower case"),
        ({"features": {"a b": "x"}}, "'a b' is no feature"),
        ({"features": {"ib": "x y=1"}}, "feature ib must be a label of nodes, or label=value"),
        ({"features": {"ib": "x=a b"}}, "feature ib must be a label of nodes, or label=value"),
        ({"log_root": "logs"}, "option log_root must be an absolute path"),
        ({"log_cap_bytes": -1}, "option log_cap_bytes must be a whole number"),
        ({"ray_version": "new"}, "option ray_version must be a version"),
    ],
)
def test_what_no_cluster_can_have_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_options(kubernetes_options(**changes))


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        ({"flavor": "H100"}, "option pools.h100.flavor must be lower case"),
        ({"node_selector": {"a b": "x"}}, "which is no label of nodes"),
        ({"node_selector": {"a": "x\n"}}, "which is no label of nodes"),
        ({"resource": "memory"}, "must be an extended resource"),
        ({"resource": "requests.nvidia.com/gpu"}, "must not be of kubernetes.io"),
        ({"resource": "kubernetes.io/x"}, "must not be of kubernetes.io"),
        ({"mgpu_per_unit": 0}, "whole number from 1 to 1000"),
        ({"mgpu_per_unit": 2000}, "whole number from 1 to 1000"),
        ({"resource": "a.b/c", "device_class": "x"}, "either resource or device_class"),
        ({"tolerations": [{}]}, "is a list of {key, operator, value, effect}"),
        ({"tolerations": [{"key": "a", "operator": "In"}]}, 'is "Equal", or "Exists"'),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}, 'or "Exists"'),
        ({"tolerations": [{"operator": "Exists"}]}, "which is no key of a taint"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "is one of NoExecute, NoSchedule"),
        (
            {"required_topology": RACK, "preferred_topology": RACK},
            "pool h100 has either required_topology or preferred_topology",
        ),
        ({"topology_levels": [RACK]}, "has both topology_name and topology_levels"),
        ({"topology_name": "t"}, "has both topology_name and topology_levels"),
        ({"topology_name": "t", "topology_levels": [RACK, RACK]}, "different labels"),
        (
            {"topology_name": "t", "topology_levels": ["a/b"], "required_topology": RACK},
            f"asks for topology {RACK}, which topology_levels do not have",
        ),
        (
            {"topology_domains": {"rack": RACK}},
            "topology_domains of pool h100 must give some of block, rack, nvlink a label",
        ),
        *(
            (
                {"topology_name": "t", "topology_levels": ["a/b", RACK], "topology_domains": wrong},
                "topology_domains of pool h100 must give",
            )
            for wrong in (
                [RACK],
                {"row": RACK},
                {"rack": "a/c"},
                {"rack": RACK, "block": RACK},
            )
        ),
        ({"image": 7}, "must be a container image"),
        ({"image": "a/Upper"}, "option pools.h100.image: 'a/Upper' is no container image"),
        ({"cpu_per_gpu": 0}, "option pools.h100.cpu_per_gpu must be a whole number"),
        ({"memory_mib_per_gpu": 1.5}, "must be a whole number"),
        ({"resource": "cpu"}, 'a pool of CPU cores has "device": "cpu" in its place'),
        ({"device": "gpu"}, 'pool h100 has device "cpu" beside flavor, image, memory_mib_per_core'),
        ({"device": "cpu", "cpu_per_gpu": 1}, "nothing else (not cpu_per_gpu); a pool of GPUs has"),
        ({"device": "gpu"}, "nothing else; a pool of GPUs has no device but a resource"),
        (
            {"memory_mib_per_core": 4, "x": 1},
            'nothing else (not memory_mib_per_core, x; that is for a pool with "device": "cpu")',
        ),
        ({"partition": "x"}, "nothing else (not partition)"),
        ({"device": "cpu", "topology_name": "t"}, 'pool h100 has device "cpu" beside'),
        ({"device": "cpu"}, "pool h100 of CPU cores needs a node_selector"),
        (
            {"device": "cpu", "node_selector": {"a": "b"}, "reserved_cpu_milli": -1},
            "option pools.h100.reserved_cpu_milli must be a whole number",
        ),
        (
            {"device": "cpu", "node_selector": {"a": "b"}, "memory_mib_per_core": "1Gi"},
            "option pools.h100.memory_mib_per_core must be a whole number",
        ),
    ],
)
def test_what_no_pool_can_have_is_refused(pool: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_options(kubernetes_options(pool=pool))


@pytest.mark.parametrize(
    ("levels", "named", "domains"),
    [
        ([BLOCK, RACK, HOST_LABEL], None, {"block": BLOCK, "rack": RACK}),
        ([BLOCK, HOST_LABEL], None, {"block": BLOCK}),
        ([HOST_LABEL], None, {}),
        (["zone", BLOCK, RACK], {"rack": RACK, "block": BLOCK}, {"block": BLOCK, "rack": RACK}),
        ([BLOCK, "clique"], {"nvlink": "clique"}, {"nvlink": "clique"}),
        ([BLOCK], {}, {}),
    ],
)
def test_what_jobs_call_the_levels(
    levels: list[str], named: dict[str, str] | None, domains: dict[str, str]
) -> None:
    pool = a_pool_with(topology_name="t", topology_levels=levels)
    if named is not None:
        pool["topology_domains"] = named
    assert some_options(pool=pool).pools["h100"].topology_domains == domains
    assert some_options(scheduler="yunikorn", pool=pool).pools["h100"].topology_domains == {}


def test_topology_is_asked_of_those_who_know_it() -> None:
    with pytest.raises(ValueError, match="and YuniKorn knows none"):
        some_options(scheduler="yunikorn", pool=a_pool_with(required_topology=RACK))
    with pytest.raises(ValueError, match="name it in topology_name"):
        some_options(scheduler="kai", pool=a_pool_with(required_topology=RACK))
    some_options(scheduler="volcano", pool=a_pool_with(required_topology=RACK))


@pytest.mark.parametrize(
    ("text", "registry", "path", "tag", "digest"),
    [
        ("busybox", "docker.io", "library/busybox", None, None),
        ("busybox:1.36", "docker.io", "library/busybox", "1.36", None),
        ("index.docker.io/busybox", "docker.io", "library/busybox", None, None),
        ("acme/train:v1", "docker.io", "acme/train", "v1", None),
        ("localhost/train", "localhost", "train", None, None),
        ("host:5000/train", "host:5000", "train", None, None),
        ("host:5000/train:v1", "host:5000", "train", "v1", None),
        ("[::1]:5000/a/b", "[::1]:5000", "a/b", None, None),
        (f"GHCR.io/a/b__c-d.e:T@{DIGEST}", "ghcr.io", "a/b__c-d.e", "T", DIGEST),
        (f"nvcr.io/nvidia/pytorch@{DIGEST}", "nvcr.io", "nvidia/pytorch", None, DIGEST),
    ],
)
def test_images_are_read_as_runtimes_read_them(
    text: str, registry: str, path: str, tag: str | None, digest: str | None
) -> None:
    assert parse_image(text) == ImageReference(registry, path, tag, digest)


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "a/", "/a", "a//b", "A", "a/B", "-a", "a-", "a..b", "a:b:c", "a:", ":a", "a b"),
        *("docker://x:1", "http://ghcr.io/a", "nvcr.io#nvidia/pytorch", "a@sha256:1", "a@", "a\n"),
        *(f"a@{DIGEST}\n", f"a@{DIGEST.upper()}", "a:" + "t" * 129, "a" * 300, "ａ", "host:x/a"),
        *("user@host/a", "ghcr.io/$(X)", "a;b", "a'b", 'a"b', "../a", "ghcr.io/../a"),
    ],
)
def test_what_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"image|digest|tag"):
        parse_image(text)


@pytest.mark.parametrize(
    ("allowed", "image", "is_in"),
    [
        ("docker.io/pytorch", "pytorch/pytorch:2", True),
        ("docker.io/pytorch", "pytorch-fork/pytorch", False),
        ("docker.io/pytorch", "docker.io/pytorch/a/b", True),
        ("docker.io/library/busybox", "busybox", True),
        ("docker.io", "anything", True),
        ("docker.io", "docker.io.evil.example/a", False),
        ("ghcr.io/acme/train", "ghcr.io/acme/train:1", True),
        ("ghcr.io/acme/train", "ghcr.io/acme/trainer", False),
        ("host:5000", "host:5000/a", True),
        ("host:5000", "host:5001/a", False),
        ("host:5000", "host/a", False),
        ("GHCR.io", "ghcr.io/a", True),
    ],
)
def test_a_list_of_registries_matches_whole_parts(allowed: str, image: str, is_in: bool) -> None:
    assert is_allowed(parse_image(image), [parse_allowed(allowed)]) is is_in


@pytest.mark.parametrize(
    "text", ["", "pytorch", "a/b", "docker.io/", "docker.io/a/", "ghcr.io/a:1", "*.io", "a b"]
)
def test_what_is_no_registry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"registry|'/'"):
        parse_allowed(text)


def test_the_policy_of_images() -> None:
    options = some_options(
        allowed_registries=["docker.io/pytorch"],
        require_digest=True,
        pool=a_pool_with(image=f"{IMAGE}@{DIGEST}"),
    )
    assert image_refusal(f"pytorch/pytorch@{DIGEST}", options) == ""
    assert "must be named with its digest" in image_refusal("pytorch/pytorch:2", options)
    assert image_refusal("x", options).startswith("images of docker.io/library/x may not be run")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("nvcr.io#nvidia/pytorch:24.05-py3", "nvcr.io/nvidia/pytorch:24.05-py3"),
        ("docker://nvcr.io#nvidia/pytorch", "nvcr.io/nvidia/pytorch"),
        ("docker://pytorch/pytorch:2.4", "pytorch/pytorch:2.4"),
        ("localhost:5000#a/b", "localhost:5000/a/b"),
        ("pytorch/pytorch:2.4", "pytorch/pytorch:2.4"),
        ("ubuntu#x", "ubuntu#x"),
    ],
)
def test_images_are_taken_as_the_guide_writes_them(text: str, plain: str) -> None:
    """Mutant: the guide's own example was refused on Kubernetes."""
    assert plain_image(text) == plain


def test_a_registry_is_allowed_however_it_is_written() -> None:
    options = some_options(allowed_registries=["nvcr.io/nvidia"])
    assert image_refusal("docker://nvcr.io#nvidia/pytorch:24.05-py3", options) == ""
    assert image_refusal("docker://nvcr.io#other/pytorch", options).startswith(
        "images of nvcr.io/other/pytorch may not be run here"
    )
    assert image_refusal("me@nvcr.io#x", options).startswith("'me@nvcr.io/x' has no proper digest")


def test_what_is_asked_of_stored_options() -> None:
    stored = kubernetes_options(allowed_registries=["ghcr.io"])
    wrong = stored | {"pools": {}}
    assert job_image_refusal(stored, "h100", None) == ""
    assert job_image_refusal(stored, "b200", None) == ""
    assert job_image_refusal(stored, "h100", "x:1").startswith("images of docker.io/library/x")
    assert job_image_refusal(wrong, "h100", "x:1") == ""
    assert job_image_refusal(kubernetes_options(pool={}), "h100", None).endswith("name one")
    assert (names_images(stored), names_images(stored | {"allowed_registries": []})) == (
        True,
        False,
    )
    sliced = kubernetes_options(pool=a_pool_with(resource="a.b/c", mgpu_per_unit=125))
    assert [unit_mgpu(sliced, "h100"), unit_mgpu(sliced, "x"), unit_mgpu(wrong, "h100")] == [
        *(125, 1000, 1000)
    ]


def test_features_are_labels() -> None:
    features = some_options(features={"ib": "a.b/fabric=ib", "big": "a.b/big"}).features
    assert feature_terms(("ib", "big", "nvlink", "ib"), features) == [
        {"key": "a.b/fabric", "operator": "In", "values": ["ib"]},
        {"key": "a.b/big", "operator": "Exists"},
        {"key": "feature.node.kubernetes.io/nvlink", "operator": "Exists"},
        {"key": "feature.node.kubernetes.io/nvlink", "operator": "NotIn", "values": ["false"]},
    ]
    labels = {
        "a.b/fabric": "ib",
        "a.b/big": "false",
        "feature.node.kubernetes.io/nvlink": "true",
        "feature.node.kubernetes.io/old": "false",
        "feature.node.kubernetes.io/ib": "true",
        "kubernetes.io/hostname": "n1",
    }
    assert features_of(labels, features) == ("big", "ib", "nvlink")
    assert features_of({**labels, "a.b/fabric": "roce"}, features) == ("big", "nvlink")
    with pytest.raises(WorkloadRejected, match="can be no label"):
        feature_terms(("ib-",), features)


def test_closed_nodes_are_left_out_of_every_term() -> None:
    """Any one term is enough for a node, and an empty term selects none.

    Planted: only the first term leaves them out; an empty term selects all other nodes.
    """
    fields = [
        {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
        {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]},
    ]
    a, b, empty = {"matchExpressions": [{"key": "a"}]}, {"matchFields": [{"key": "b"}]}, {}
    assert without_nodes([a, b, empty], ()) == [a, b, empty]
    assert without_nodes([a, b, empty], ("n1", "n2")) == [
        {**a, "matchFields": fields},
        {"matchFields": [{"key": "b"}, *fields]},
        empty,
    ]
    assert without_nodes([], ("n1", "n2")) == [{"matchFields": fields}]


CORES = {"device": "cpu", "node_selector": {"zone": "a", "pool": "batch"}}


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        ({"gpu": "h100"}, [["gpu"]]),
        ({"zone": "a", "gpu": "h100"}, [["gpu"]]),
        ({"gpu": "h100", "kind": "x"}, [["gpu"], ["kind"]]),
        ({"pool": "h100"}, [[]]),
    ],
)
def test_a_pool_of_cores_keeps_out_of_those_of_gpus(
    selector: dict[str, str], terms: list[list[str]]
) -> None:
    """By what their nodes have together and its own have not. Mutants: every label of theirs alone,
    so that nodes in the same zone take no job; labels that both give are left in."""
    pools = parse_options(
        kubernetes_options(pools={"h100": {"node_selector": selector}, "batch": CORES})
    ).pools
    found = not_on_gpus(pools["batch"], pools)
    assert [[one["key"] for one in term] for term in found] == terms
    assert {one["operator"] for term in found for one in term} <= {"NotIn"}


@pytest.mark.parametrize("selector", [{}, {"zone": "a"}])
def test_gpus_that_take_in_the_nodes_of_a_pool_of_cores_are_refused(
    selector: dict[str, str],
) -> None:
    """Kueue would give its jobs the flavor of these."""
    with pytest.raises(ValueError, match="pool h100 takes in all nodes of pool batch of CPU cores"):
        parse_options(
            kubernetes_options(pools={"h100": {"node_selector": selector}, "batch": CORES})
        )
