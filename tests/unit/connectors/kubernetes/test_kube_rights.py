"""The rights of the portal's account in a cluster, as they stand in deploy/kubernetes/role.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from connectors.kubernetes.objects.resources import KINDS as WORKLOADS
from connectors.kubernetes.quotas.objects import KINDS, NAMESPACE

KINDS_OF_WORKLOAD = tuple(WORKLOADS.values())
ROLE = Path(__file__).resolve().parents[4] / "deploy" / "kubernetes" / "role.yaml"


def rules() -> list[dict[str, Any]]:
    (role,) = (
        document
        for document in yaml.safe_load_all(ROLE.read_text())
        if document["kind"] == "ClusterRole"
    )
    found: list[dict[str, Any]] = role["rules"]
    return found


def given() -> set[tuple[str, str, str]]:
    """Group, resource and verb of every right that is not cut to some names."""
    return {
        (group, resource, verb)
        for rule in rules()
        if "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_no_right_is_a_wildcard_and_none_reads_secrets_or_gives_rights() -> None:
    words = [
        word
        for rule in rules()
        for word in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
    ]
    assert not [word for word in words if "*" in word]
    assert not {"secrets", "pods/exec", "serviceaccounts/token", "update", "deletecollection"} & {
        *words
    }
    assert not {"bind", "escalate", "impersonate", "rbac.authorization.k8s.io"} & {*words}
    assert ("", "namespaces", "delete") not in given()


def test_only_what_is_watched_may_be_watched() -> None:
    """Mutant: what quotas become, namespaces and events too, which nobody here watches."""
    watched = {(group, name) for group, name, verb in given() if verb == "watch"}
    kinds = {(kind.api_version.rpartition("/")[0], kind.plural) for kind in KINDS_OF_WORKLOAD}
    assert watched == kinds | {
        ("ray.io", "rayclusters"),
        ("kueue.x-k8s.io", "workloads"),
        ("", "pods"),
        ("", "nodes"),
    }


def test_the_refusals_that_are_asked_for_may_be_listed() -> None:
    """Mutant: the right was taken away with that to watch events."""
    assert {verb for _, name, verb in given() if name == "events"} == {"list"}


def test_nodes_are_cordoned_and_emptied_and_no_more() -> None:
    """Mutant: without `pods/eviction` every eviction was refused; with `nodes` `delete` a node
    could be taken away."""
    rights = given()
    assert {verb for _, name, verb in rights if name == "pods/eviction"} == {"create"}
    assert {verb for _, name, verb in rights if name == "nodes"} == {
        "get",
        "list",
        "watch",
        "patch",
    }


def test_every_thing_that_quotas_become_can_be_written() -> None:
    rights = given()
    for thing, kind in KINDS.items():
        group = kind.api.rpartition("/")[0]
        verbs = {"get", "list", "create", "patch"}
        if thing != NAMESPACE:
            verbs.add("delete")
        missing = {verb for verb in verbs if (group, kind.plural, verb) not in rights}
        assert missing == set(), thing


def test_the_runtimes_of_manifests_are_read_and_no_more() -> None:
    """Planted: no right to read them, so that no runtime was checked."""
    assert {verb for _, name, verb in given() if name == "clustertrainingruntimes"} == {"get"}


def test_pods_are_tried_and_volumes_looked_for() -> None:
    """Against: without `create` of Pods no manifest was tried against Pod Security."""
    rights = given()
    assert {verb for _, name, verb in rights if name == "pods"} == {
        *("create", "get", "list", "watch", "patch", "delete"),
    }
    assert {verb for _, name, verb in rights if name == "persistentvolumeclaims"} == {"get"}


def test_metrics_are_read_and_no_more() -> None:
    """Planted: no right to list them, so that no job had metrics."""
    rights = {(name, verb) for group, name, verb in given() if group == "metrics.k8s.io"}
    assert rights == {("pods", "list")}
