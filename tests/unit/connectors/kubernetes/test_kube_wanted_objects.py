"""The objects that a quota tree becomes on a Kubernetes cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.kube_quota_builders import (
    KUEUE,
    NLP,
    ORG,
    PRODUCTION,
    RESEARCH,
    TOP,
    VISION,
    FakeKubeApi,
    a_company_tree,
    a_control,
    a_node,
    a_tree,
    cell,
    gpus,
    kube_shape,
    push,
    pushed,
    queue_path,
)
from connectors.entitlements import Change, ChangeKind
from connectors.errors import WorkloadRejected
from connectors.kubernetes.objects.naming import team_namespace
from connectors.kubernetes.quotas.cells import quantity
from connectors.kubernetes.quotas.objects import KINDS


@pytest.fixture
def api() -> FakeKubeApi:
    return FakeKubeApi()


def test_the_first_push_makes_everything_parents_first(api: FakeKubeApi) -> None:
    control = a_control(api, kube_shape("shared"))
    assert push(control, a_company_tree()) == [
        "create flavor h100",
        "create priority class tidegate-borrowed",
        "create priority class tidegate-guaranteed",
        "create admission check tidegate",
        f"create cohort {TOP}",
        f"create cohort {ORG} (org)",
        f"create cohort {RESEARCH} (org/research)",
        f"create namespace {PRODUCTION} (org/production)",
        f"create namespace {NLP} (org/research/nlp)",
        f"create namespace {VISION} (org/research/vision)",
        f"create network policy {PRODUCTION} (org/production)",
        f"create network policy {NLP} (org/research/nlp)",
        f"create network policy {VISION} (org/research/vision)",
        f"create object limits {PRODUCTION} (org/production)",
        f"create object limits {NLP} (org/research/nlp)",
        f"create object limits {VISION} (org/research/vision)",
        f"create cluster queue {PRODUCTION} (org/production)",
        f"create cluster queue {NLP} (org/research/nlp)",
        f"create cluster queue {VISION} (org/research/vision)",
        f"create queue {PRODUCTION} (org/production)",
        f"create queue {NLP} (org/research/nlp)",
        f"create queue {VISION} (org/research/vision)",
    ]
    assert api.broken == []
    assert control.changes(a_company_tree()) == ()


def test_the_queue_of_a_team_in_shared_mode(api: FakeKubeApi) -> None:
    pushed(api)
    found = api.get(queue_path(NLP))
    owner = kube_shape().owner
    assert found["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "tidegate",
        "tidegate.io/cluster": owner,
    }
    assert found["metadata"]["annotations"] == {"tidegate.io/path": "org/research/nlp"}
    wide = {"borrowingLimit": "0", "lendingLimit": "0"}
    assert found["spec"] == {
        "cohortName": RESEARCH,
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "namespaceSelector": {"matchLabels": {"tidegate.io/team": NLP}},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "withinClusterQueue": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
        "admissionChecksStrategy": {"admissionChecks": [{"name": "tidegate"}]},
        "fairSharing": {"weight": "30"},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"],
                "flavors": [
                    {
                        "name": "h100",
                        "resources": [
                            {"name": "cpu", "nominalQuota": str(10**15), **wide},
                            {"name": "memory", "nominalQuota": str(2**60), **wide},
                            {"name": "ephemeral-storage", "nominalQuota": str(2**60), **wide},
                            {
                                "name": "nvidia.com/gpu",
                                "nominalQuota": "16",
                                "borrowingLimit": "8",
                                "lendingLimit": "4",
                            },
                        ],
                    }
                ],
            }
        ],
    }


def test_cohorts_own_what_their_members_are_not_guaranteed(api: FakeKubeApi) -> None:
    """Kueue adds a cohort's quota to its members', and a root has no limits."""
    pushed(api)
    top = api.get(f"{KUEUE}/cohorts/{TOP}")
    organization = api.get(f"{KUEUE}/cohorts/{ORG}")
    research = api.get(f"{KUEUE}/cohorts/{RESEARCH}")
    assert cell(top) == {"name": "nvidia.com/gpu", "nominalQuota": "64"}
    assert (organization["spec"]["parentName"], "resourceGroups" in organization["spec"]) == (
        *(TOP, False),
    )
    assert research["spec"]["parentName"] == ORG
    assert cell(research) == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "8",
        "borrowingLimit": "8",
    }
    assert api.total() == 24 + 16 + 16 + 8 + 64


def test_nothing_stands_above_one_organization_that_has_all(api: FakeKubeApi) -> None:
    wanted = replace(a_company_tree(), spare_mgpu={"h100": 999})
    push(a_control(api, kube_shape("shared")), wanted)
    assert f"{KUEUE}/cohorts/{TOP}" not in api.objects
    assert "parentName" not in api.get(f"{KUEUE}/cohorts/{ORG}")["spec"]
    # With a second organization each may borrow from the other.
    both = replace(wanted, nodes=(*wanted.nodes, a_node("rival", gpus(0, borrows=0))))
    done = push(a_control(api, kube_shape("shared")), both)
    rival = team_namespace("rival")
    assert done == [
        f"create cohort {TOP}",
        f"create cohort {rival} (rival)",
        f"change cohort {ORG} (org)",
    ]
    assert api.get(f"{KUEUE}/cohorts/{rival}")["spec"]["resourceGroups"][0]["flavors"] == [
        {
            "name": "h100",
            "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "0", "borrowingLimit": "0"}],
        }
    ]
    # And it goes again with all that named it.
    assert push(a_control(api, kube_shape("shared")), wanted) == [
        f"lower cohort {ORG} (org)",
        f"delete cohort {rival} (rival)",
        f"delete cohort {TOP}",
    ]
    assert api.broken == []


def test_arbiter_mode_gives_every_queue_more_than_can_be_asked_for(api: FakeKubeApi) -> None:
    pushed(api, "arbiter")
    for team in (NLP, VISION, PRODUCTION):
        assert cell(api.get(queue_path(team))) == {
            "name": "nvidia.com/gpu",
            "nominalQuota": str(10**15),
            "borrowingLimit": "0",
            "lendingLimit": "0",
        }
    assert all(
        "resourceGroups" not in found["spec"]
        for path, found in api.objects.items()
        if "/cohorts/" in path
    )
    assert "requests.nvidia.com/gpu" not in hard_limits(api, NLP)


def hard_limits(api: FakeKubeApi, team: str) -> dict[str, str]:
    found: dict[str, str] = api.get(f"/api/v1/namespaces/{team}/resourcequotas/tidegate")["spec"][
        "hard"
    ]
    return found


def test_a_teams_namespace(api: FakeKubeApi) -> None:
    pushed(api)
    found = api.get(f"/api/v1/namespaces/{NLP}")
    assert found["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "tidegate",
        "tidegate.io/cluster": kube_shape().owner,
        "tidegate.io/team": NLP,
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "v1.36",
    }
    # Twice what it may use: what is being stopped counts until it is gone.
    assert hard_limits(api, NLP) == {
        "pods": "10000",
        "count/jobs.batch": "100000",
        "count/configmaps": "100000",
        "count/services": "5000",
        "services.nodeports": "0",
        "services.loadbalancers": "0",
        "requests.nvidia.com/gpu": "48",
    }
    assert "requests.nvidia.com/gpu" not in hard_limits(api, VISION)
    policy = api.get(f"/apis/networking.k8s.io/v1/namespaces/{NLP}/networkpolicies/tidegate")
    assert policy["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
    }
    queue = api.get(f"{KUEUE}/namespaces/{NLP}/localqueues/main")
    assert queue["spec"] == {"clusterQueue": NLP, "stopPolicy": "None"}


def test_pools_become_flavors_in_a_fixed_order_each_with_its_own_resource(
    api: FakeKubeApi,
) -> None:
    mig = "nvidia.com/mig-1g.10gb"
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    levels = ["example.com/block", "kubernetes.io/hostname"]
    shape = kube_shape(
        "shared",
        pools={
            "slices": {"node_selector": {"gpu": "a100"}, "resource": mig, "mgpu_per_unit": 125},
            "h100": {
                "node_selector": {"gpu": "h100"},
                "tolerations": [toleration],
                "topology_name": "fabric",
                "topology_levels": levels,
            },
        },
    )
    node = a_node("org/t", gpus(2, lends=1, borrows=0), is_team=True)
    team = replace(node, terms={**node.terms, "slices": gpus(1, borrows=1)})
    wanted = a_tree(a_node("org", gpus(2)), team)
    push(a_control(api, shape), wanted)
    name = team_namespace("org/t")
    found = api.get(queue_path(name))
    assert [one["name"] for one in found["spec"]["resourceGroups"][0]["flavors"]] == [
        *("h100", "slices"),
    ]
    none = {"nominalQuota": "0", "borrowingLimit": "0", "lendingLimit": "0"}
    assert cell(found, "h100", mig) == {"name": mig, **none}
    assert cell(found, "slices") == {"name": "nvidia.com/gpu", **none}
    assert cell(found, "slices", mig) == {
        "name": mig,
        "nominalQuota": "8",
        "borrowingLimit": "8",
    }
    assert api.get(f"{KUEUE}/resourceflavors/h100")["spec"] == {
        "nodeLabels": {"gpu": "h100"},
        "tolerations": [toleration],
        "topologyName": "fabric",
    }
    assert api.get(f"{KUEUE}/resourceflavors/slices")["spec"] == {"nodeLabels": {"gpu": "a100"}}
    assert api.get(f"{KUEUE}/topologies/fabric")["spec"] == {
        "levels": [{"nodeLabel": label} for label in levels]
    }
    assert hard_limits(api, name)["requests.nvidia.com/gpu"] == "4"
    assert hard_limits(api, name)[f"requests.{mig}"] == "32"
    assert api.broken == []
    assert a_control(api, shape).changes(wanted) == ()


def test_another_scheduler_has_namespaces_and_no_queues(api: FakeKubeApi) -> None:
    shape = kube_shape(scheduler="volcano")
    push(a_control(api, shape), a_company_tree())
    assert {found["kind"] for found in api.objects.values()} == {
        *("Namespace", "NetworkPolicy", "ResourceQuota"),
    }
    with pytest.raises(WorkloadRejected, match="has no 'cohort' to change"):
        a_control(api, shape).apply(Change(ChangeKind.CREATE, "cohort", "x"))


def test_pools_that_give_one_topology_two_shapes_are_refused(api: FakeKubeApi) -> None:
    pools = {
        name: {
            "node_selector": {"gpu": name},
            "topology_name": "fabric",
            "topology_levels": [label],
        }
        for name, label in (("a", "example.com/rack"), ("b", "example.com/row"))
    }
    with pytest.raises(WorkloadRejected, match="different topology_levels in different pools"):
        a_control(api, kube_shape(pools=pools)).changes(a_company_tree())


def test_quantities() -> None:
    assert [quantity(text) for text in ("0", "1k", "128", "1Pi", "1E", 3)] == [
        *(0, 1_000, 128, 2**50, 10**18, 3),
    ]
    assert [quantity(text) for text in ("500m", "1.5", "2e3", "-1", "")] == [
        *("500m", "1.5", "2e3", "-1", ""),
    ]


def test_every_thing_has_a_place_in_the_api() -> None:
    assert {thing: kind.path("x") for thing, kind in KINDS.items() if kind.only} == {
        "network policy": "/apis/networking.k8s.io/v1/namespaces/x/networkpolicies/tidegate",
        "object limits": "/api/v1/namespaces/x/resourcequotas/tidegate",
        "queue": f"{KUEUE}/namespaces/x/localqueues/main",
    }
