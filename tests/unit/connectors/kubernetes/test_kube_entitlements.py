"""What of a Kubernetes cluster differs from the quota tree, and in which order it changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.kube_quota_builders import (
    GPUS,
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
    told,
)
from connectors.entitlements import Change, ChangeKind, Entitlements, Terms
from connectors.errors import ClusterUnavailable, OutcomeUnknown, WorkloadRejected
from connectors.kubernetes.client.api import Forbidden, KubeRefused, NotFound

LENDS = f"{GPUS} lend limit"


@pytest.fixture
def api() -> FakeKubeApi:
    return FakeKubeApi()


def test_what_is_taken_is_taken_before_anything_is_given(api: FakeKubeApi) -> None:
    pushed(api)
    wanted = a_tree(
        a_node("org", gpus(64)),
        a_node("org/production", gpus(26, lends=0, borrows=0), is_team=True),
        a_node("org/research", gpus(38)),
        a_node("org/research/nlp", gpus(20, lends=4, borrows=2), is_team=True, weight=31),
        a_node("org/research/vision", gpus(10), is_team=True),
        spare_gpus=60,
    )
    control = a_control(api, kube_shape("shared"))
    borrows = f"{GPUS} borrow limit"
    assert told(control.changes(wanted)) == [
        ("lower", f"cluster queue {NLP} (org/research/nlp)", {borrows: 8}, {borrows: 2}),
        ("lower", f"cluster queue {VISION} (org/research/vision)", {GPUS: 16}, {GPUS: 10}),
        (
            *("lower", f"object limits {NLP} (org/research/nlp)"),
            *({"requests.nvidia.com/gpu": 48}, {"requests.nvidia.com/gpu": 44}),
        ),
        ("lower", f"cohort {TOP}", {GPUS: 64}, {GPUS: 60}),
        ("raise", f"cohort {RESEARCH} (org/research)", {borrows: 8}, {borrows: None}),
        (
            *("raise", f"object limits {PRODUCTION} (org/production)"),
            *({"requests.nvidia.com/gpu": 48}, {"requests.nvidia.com/gpu": 52}),
        ),
        ("raise", f"cluster queue {PRODUCTION} (org/production)", {GPUS: 24}, {GPUS: 26}),
        (
            *("raise", f"cluster queue {NLP} (org/research/nlp)"),
            *({"weight": 30, GPUS: 16}, {"weight": 31, GPUS: 20}),
        ),
    ]
    push(control, wanted)
    assert control.changes(wanted) == ()


def test_what_a_queue_lends_falls_with_what_it_has(api: FakeKubeApi) -> None:
    """Kueue refuses a queue that lends more than it has, also for a moment."""
    pushed(api)
    wanted = a_tree(
        *(
            replace(node, terms={"h100": gpus(2, borrows=8)})
            if node.path == "org/research/nlp"
            else node
            for node in a_company_tree().nodes
        ),
        spare_gpus=64,
    )
    control = a_control(api, kube_shape("shared"))
    first = control.changes(wanted)[0]
    assert (first.kind, dict(first.after), first.note) == (
        *(ChangeKind.LOWER, {GPUS: 2, f"{GPUS} lend limit": None}, ""),
    )
    push(control, wanted)
    assert control.changes(wanted) == ()


@pytest.mark.parametrize(
    ("has", "lends", "changes"),
    [
        (20, 20, [("raise", {GPUS: 20, LENDS: 20})]),
        (20, 16, [("raise", {GPUS: 20, LENDS: 16})]),
        (20, 15, [("lower", {LENDS: 15}), ("raise", {GPUS: 20})]),
    ],
)
def test_a_first_limit_on_what_is_lent_takes_only_below_what_was_lent(
    api: FakeKubeApi, has: int, lends: int, changes: list[tuple[str, dict[str, int]]]
) -> None:
    """Of the 16 GPUs of a queue without that limit, all are lent.

    Mutant: the first limit was taken first whatever it is; Kueue refuses one above what the queue
    has until then.
    """

    def tree(terms: Terms) -> Entitlements:
        return a_tree(a_node("org", gpus(64)), a_node("org/team", terms, is_team=True))

    control = a_control(api, kube_shape("shared"))
    push(control, tree(gpus(16)))
    found = control.changes(tree(gpus(has, lends=lends)))
    queue = [change for change in found if change.thing == "cluster queue"]
    assert [(change.kind.value, dict(change.after)) for change in queue] == changes
    push(control, tree(gpus(has, lends=lends)))
    assert control.changes(tree(gpus(has, lends=lends))) == ()


def test_what_somebody_changed_by_hand_is_found_to_the_setting(api: FakeKubeApi) -> None:
    pushed(api)
    queue = queue_path(NLP)
    spec = api.objects[queue]["spec"]
    spec["stopPolicy"] = "Hold"
    spec["preemption"]["reclaimWithinCohort"] = "Any"
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "100"
    spec["resourceGroups"][0]["flavors"][0]["resources"][3]["lendingLimit"] = "1"
    spec["admissionChecksStrategy"]["admissionChecks"] = [
        {"name": "tidegate", "onFlavors": ["h100"]},
        {"name": "multikueue"},
    ]
    namespace = api.objects[f"/api/v1/namespaces/{NLP}"]["metadata"]
    namespace["labels"] |= {"pod-security.kubernetes.io/enforce": "privileged", "mine": "stays"}
    control = a_control(api, kube_shape("shared"))
    lends = f"{GPUS} lend limit"
    assert told(control.changes(a_company_tree())) == [
        (
            *("change", f"namespace {NLP} (org/research/nlp)"),
            *({"pod_security": "privileged"}, {"pod_security": "restricted"}),
        ),
        (
            *("raise", f"cluster queue {NLP} (org/research/nlp)"),
            {
                "stop": "Hold",
                "preemption": ["reclaimWithinCohort=Any"],
                "checks": ["multikueue", "tidegate on h100"],
                "h100 cpu": "100/0/0",
                lends: 1,
            },
            {
                "stop": "None",
                "preemption": [],
                "checks": ["multikueue", "tidegate"],
                "h100 cpu": None,
                lends: 4,
            },
        ),
    ]
    push(control, a_company_tree())
    assert control.changes(a_company_tree()) == ()
    # What others set besides is still there.
    assert api.get(queue)["spec"]["admissionChecksStrategy"]["admissionChecks"] == [
        *({"name": "multikueue"}, {"name": "tidegate"}),
    ]
    assert api.get(f"/api/v1/namespaces/{NLP}")["metadata"]["labels"]["mine"] == "stays"


def test_a_difference_that_was_accepted_stays_when_others_are_overwritten(
    api: FakeKubeApi,
) -> None:
    """An accepted one comes without its setting; the object is written with what it has."""
    pushed(api)
    queue = queue_path(NLP)
    resources = api.objects[queue]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    resources[0]["nominalQuota"] = "100"
    resources[3]["nominalQuota"] = "12"
    control = a_control(api, kube_shape("shared"))
    (change,) = control.changes(a_company_tree())
    assert dict(change.after) == {"h100 cpu": None, GPUS: 16}
    control.apply(replace(change, before={GPUS: 12}, after={GPUS: 16}))
    found = api.get(queue)
    assert (cell(found)["nominalQuota"], cell(found, name="cpu")["nominalQuota"]) == ("16", "100")


def test_quota_of_others_in_a_cohort_of_ours_stays_where_it_was_let_stand(
    api: FakeKubeApi,
) -> None:
    """It is shown with its amounts, and written back with the next change of anything else: in one
    group with ours, as one resource may be in one group only. Mutants: our pools' cells are written
    alone; the names without amounts; no limits; taking it away counts as a change like others, so
    it goes after somebody else was given more."""
    pushed(api)
    path = f"{KUEUE}/cohorts/{RESEARCH}"
    groups = api.objects[path]["spec"]["resourceGroups"]
    limited = {"name": "nvidia.com/gpu", "nominalQuota": "3", "borrowingLimit": "0"}
    groups[0]["flavors"].append({"name": "mine", "resources": [limited]})
    memory = {"name": "memory", "nominalQuota": "1536Mi", "lendingLimit": "1Gi"}
    groups.append(
        {"coveredResources": ["memory"], "flavors": [{"name": "own", "resources": [memory]}]}
    )
    control = a_control(api, kube_shape("shared"))
    theirs = ["mine nvidia.com/gpu 3/0/-", "own memory 1610612736/-/1073741824"]
    (change,) = control.changes(a_company_tree())
    assert told((change,)) == [
        (
            *("lower", f"cohort {RESEARCH} (org/research)"),
            *({"other_quota": theirs}, {"other_quota": []}),
        )
    ]
    control.apply(replace(change, before={"weight": 100}, after={"weight": 50}))
    (group,) = api.get(path)["spec"]["resourceGroups"]
    nothing = {"name": "memory", "nominalQuota": "0"}
    assert group == {
        "coveredResources": ["nvidia.com/gpu", "memory"],
        "flavors": [
            {
                "name": "h100",
                "resources": [
                    {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "8"},
                    nothing,
                ],
            },
            {"name": "mine", "resources": [limited, nothing]},
            {
                "name": "own",
                "resources": [
                    {"name": "nvidia.com/gpu", "nominalQuota": "0"},
                    {"name": "memory", "nominalQuota": "1610612736", "lendingLimit": "1073741824"},
                ],
            },
        ],
    }
    assert [dict(change.before) for change in control.changes(a_company_tree())] == [
        {"other_quota": theirs},
        {"weight": 50},
    ]
    push(control, a_company_tree())
    (group,) = api.get(path)["spec"]["resourceGroups"]
    assert [one["name"] for one in group["flavors"]] == ["h100"]
    assert control.changes(a_company_tree()) == ()


def test_a_field_of_another_writer_that_is_to_be_gone_goes(api: FakeKubeApi) -> None:
    """An apply leaves it to him; a merge patch takes it away."""
    wanted = replace(a_company_tree(), spare_mgpu={})
    control = a_control(api, kube_shape("shared"))
    push(control, wanted)
    organization = f"{KUEUE}/cohorts/{ORG}"
    api.objects[organization]["spec"]["parentName"] = "elsewhere"
    (change,) = control.changes(wanted)
    assert (change.kind, dict(change.after)) == (ChangeKind.LOWER, {"parent": None})
    control.apply(change)
    assert "parentName" not in api.get(organization)["spec"]


def test_what_left_the_tree_is_stopped_emptied_and_removed(api: FakeKubeApi) -> None:
    pushed(api)
    left = a_tree(
        a_node("org", gpus(64)),
        a_node("org/production", gpus(24, lends=0, borrows=0), is_team=True),
        spare_gpus=64,
    )
    api.objects[queue_path(NLP)]["status"] = {"reservingWorkloads": 2, "pendingWorkloads": 1}
    control = a_control(api, kube_shape("shared"))
    changes = [c for c in control.changes(left) if c.kind is not ChangeKind.RAISE]
    assert [
        (c.kind.value, c.thing, c.path.removeprefix("org/research"), c.is_blocked) for c in changes
    ] == [
        ("lower", "cluster queue", "/nlp", False),
        ("lower", "cluster queue", "/vision", False),
        ("delete", "queue", "", True),
        ("delete", "queue", "", False),
        ("delete", "cluster queue", "/nlp", True),
        ("delete", "cluster queue", "/vision", False),
        ("delete", "object limits", "", False),
        ("delete", "object limits", "", False),
        ("delete", "network policy", "", False),
        ("delete", "network policy", "", False),
        ("delete", "namespace", "/nlp", True),
        ("delete", "namespace", "/vision", True),
        ("delete", "cohort", "", True),
    ]
    assert changes[4].note == (
        "2 workloads hold quota in it and 1 wait; it goes when they are done or deleted"
    )
    assert changes[12].note == f"is still used by cluster queue {NLP}"
    push(control, left)
    assert api.broken == []
    assert api.get(queue_path(NLP))["spec"]["stopPolicy"] == "Hold"
    assert queue_path(VISION) not in api.objects
    assert f"/api/v1/namespaces/{VISION}" in api.objects
    api.objects[queue_path(NLP)]["status"] = {}
    push(control, left)
    assert {c.thing for c in control.changes(left)} == {"namespace"}
    # Both come back with what their namespaces hold.
    push(control, a_company_tree())
    assert control.changes(a_company_tree()) == ()


def test_a_queue_that_was_taken_into_use_again_is_not_deleted(api: FakeKubeApi) -> None:
    pushed(api)
    control = a_control(api, kube_shape("shared"))
    change = Change(ChangeKind.DELETE, "cluster queue", NLP)
    api.objects[queue_path(NLP)]["status"] = {"pendingWorkloads": 3}
    with pytest.raises(WorkloadRejected, match="0 workloads hold quota in it and 3 wait"):
        control.apply(change)
    with pytest.raises(WorkloadRejected, match="is never deleted from here"):
        control.apply(Change(ChangeKind.DELETE, "namespace", NLP))
    api.objects[queue_path(NLP)]["status"] = {}
    control.apply(change)
    control.apply(change)
    assert queue_path(NLP) not in api.objects


def test_a_cohort_that_others_use_stays(api: FakeKubeApi) -> None:
    pushed(api)
    api.objects[f"{KUEUE}/clusterqueues/theirs"] = {
        "kind": "ClusterQueue",
        "metadata": {"name": "theirs"},
        "spec": {"cohortName": RESEARCH},
    }
    control = a_control(api, kube_shape("shared"))
    left = a_tree(a_node("org", gpus(64)), spare_gpus=64)
    (cohort,) = (c for c in control.changes(left) if c.thing == "cohort" and c.is_blocked)
    assert (cohort.name, cohort.note) == (RESEARCH, "is still used by cluster queue theirs")


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        (
            {},
            "the cluster has one of this name, of somebody else; rename or remove it",
        ),
        (
            {"app.kubernetes.io/managed-by": "tidegate", "tidegate.io/cluster": "other"},
            "the cluster has one of this name, of another Tidegate, or of this one under another "
            "entry for the cluster; to hand it over, set its label tidegate.io/cluster to "
            f"{kube_shape().owner}",
        ),
    ],
)
def test_what_is_of_others_is_left_alone(
    api: FakeKubeApi, labels: dict[str, str], note: str
) -> None:
    path = f"{KUEUE}/resourceflavors/h100"
    theirs = {"kind": "ResourceFlavor", "metadata": {"name": "h100", "labels": labels}, "spec": {}}
    api.objects[path] = theirs
    control = a_control(api, kube_shape())
    first = control.changes(a_company_tree())[0]
    assert (first.kind, first.subject, first.is_blocked) == (
        *(ChangeKind.CREATE, "flavor h100", True),
    )
    assert first.note == note
    with pytest.raises(WorkloadRejected, match="somebody else's meanwhile"):
        control.apply(first)
    assert api.objects[path] is theirs


def test_the_check_of_who_votes_is_taken_over(api: FakeKubeApi) -> None:
    api.objects[f"{KUEUE}/admissionchecks/tidegate"] = {
        "kind": "AdmissionCheck",
        "metadata": {"name": "tidegate"},
        "spec": {"controllerName": "tidegate.io/arbiter"},
    }
    pushed(api)
    assert a_control(api, kube_shape("shared")).changes(a_company_tree()) == ()


def test_what_the_cluster_would_refuse_is_told_before(api: FakeKubeApi) -> None:
    pushed(api)
    wanted = a_tree(*(replace(node, weight=5) for node in a_company_tree().nodes), spare_gpus=64)
    message = 'User "portal" cannot patch resource "clusterqueues"'
    api.refuses[queue_path(NLP)] = Forbidden(403, "Forbidden", f"it is forbidden: {message}")
    api.refuses[queue_path(VISION)] = KubeRefused(422, "Invalid", "weight: too small")
    control = a_control(api, kube_shape("shared"))
    refused = {c.name: c.note for c in control.changes(wanted) if c.is_blocked}
    assert refused == {
        NLP: 'the cluster would refuse it: it is forbidden: User "portal" cannot patch resource '
        '"clusterqueues"; the rights that are needed are in deploy/kubernetes/role.yaml',
        VISION: "the cluster would refuse it: weight: too small",
    }
    assert api.writes == []
    assert api.dry_runs > 0
    change = next(c for c in control.changes(wanted) if c.name == VISION)
    with pytest.raises(WorkloadRejected, match="weight: too small"):
        control.apply(change)


def test_what_the_cluster_does_not_keep_is_unknown(api: FakeKubeApi) -> None:
    pushed(api)
    api.loses.add(queue_path(NLP))
    control = a_control(api, kube_shape("shared"))
    change = Change(ChangeKind.RAISE, "cluster queue", NLP, after={GPUS: 99})
    with pytest.raises(OutcomeUnknown, match="was set to 99 and the cluster has 16"):
        control.apply(change)


def test_a_change_of_what_is_gone_or_going_is_refused(api: FakeKubeApi) -> None:
    pushed(api)
    control = a_control(api, kube_shape("shared"))
    change = Change(ChangeKind.RAISE, "cluster queue", NLP, after={GPUS: 99})
    api.objects[queue_path(NLP)]["metadata"]["deletionTimestamp"] = "2026-11-21T08:00:00Z"
    with pytest.raises(WorkloadRejected, match="is being deleted; compare again"):
        control.apply(change)
    (waits,) = control.changes(a_company_tree())
    assert (waits.kind, waits.is_blocked, waits.note) == (
        *(ChangeKind.CREATE, True, "is being deleted; it is made again when it is gone"),
    )
    del api.objects[queue_path(NLP)]
    with pytest.raises(WorkloadRejected, match="is gone; compare again"):
        control.apply(change)


def test_lowering_below_what_is_in_use_says_that_it_runs_on(api: FakeKubeApi) -> None:
    pushed(api)
    api.objects[queue_path(PRODUCTION)]["status"] = {
        "flavorsReservation": [
            {"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "20"}]}
        ]
    }
    wanted = a_tree(
        *(
            replace(node, terms={"h100": gpus(10, lends=0, borrows=0)})
            if node.path == "org/production"
            else node
            for node in a_company_tree().nodes
        ),
        spare_gpus=64,
    )
    first = a_control(api, kube_shape("shared")).changes(wanted)[0]
    assert first.note == (
        f"20 {GPUS} are in use and run on; nothing starts before less than 10 are"
    )


def test_nobody_with_quota_is_a_mistake(api: FakeKubeApi) -> None:
    with pytest.raises(WorkloadRejected, match="set a quota first"):
        a_control(api, kube_shape()).changes(replace(a_company_tree(), nodes=()))


def test_a_cluster_without_kueue_says_so(api: FakeKubeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(path: str, **more: object) -> None:
        raise NotFound(404, "NotFound", "the server could not find the requested resource")

    monkeypatch.setattr(api, "list", absent)
    with pytest.raises(ClusterUnavailable, match="newer must be installed there"):
        a_control(api, kube_shape()).changes(a_company_tree())


def test_a_pool_that_left_is_taken_from_the_queues_first(api: FakeKubeApi) -> None:
    two = {"h100": {"node_selector": {"gpu": "h100"}}, "a100": {"node_selector": {"gpu": "a100"}}}
    push(a_control(api, kube_shape(pools=two)), a_company_tree())
    control = a_control(api, kube_shape(pools={"h100": two["h100"]}))
    assert push(control, a_company_tree()) == [
        f"lower cluster queue {NLP} (org/research/nlp)",
        f"lower cluster queue {VISION} (org/research/vision)",
        f"lower cluster queue {PRODUCTION} (org/production)",
        "delete flavor a100",
    ]
    assert (api.broken, control.changes(a_company_tree())) == ([], ())


def options_of(*names: str) -> dict[str, object]:
    """The pools of these names; batch is one of cores."""
    cores = {"device": "cpu"}
    return {
        name: {"node_selector": {"example.com/pool": name}, **(cores if name == "batch" else {})}
        for name in names
    }


def with_pool(pool: str) -> Entitlements:
    """The company's tree, where each node has as much of `pool` as of h100, and 64 are nobody's."""
    tree = a_company_tree()
    nodes = tuple(
        replace(node, terms={**node.terms, pool: node.terms["h100"]}) for node in tree.nodes
    )
    return replace(tree, nodes=nodes, spare_mgpu={"h100": 64_000, pool: 64_000})


@pytest.mark.parametrize("pool", ["a100", "batch"])
@pytest.mark.parametrize("mode", ["arbiter", "shared"])
def test_a_flavor_is_there_before_anything_names_it_and_goes_after_all_else(
    api: FakeKubeApi, mode: str, pool: str
) -> None:
    """A pool comes and goes again. Planted: in shared mode the limits on what departments borrow of
    it were written first, and naming it was taken from them when it had gone."""
    pushed(api, mode)
    with_both = a_control(api, kube_shape(mode, pools=options_of("h100", pool)))
    first = with_both.changes(with_pool(pool))[0]
    assert (first.kind.value, first.subject) == ("create", f"flavor {pool}")
    push(with_both, with_pool(pool))
    assert (api.broken, with_both.changes(with_pool(pool))) == ([], ())
    alone = a_control(api, kube_shape(mode, pools=options_of("h100")))
    last = alone.changes(a_company_tree())[-1]
    assert (last.kind.value, last.subject, last.is_blocked) == ("delete", f"flavor {pool}", False)
    push(alone, a_company_tree())
    assert (api.broken, alone.changes(a_company_tree())) == ([], ())


def test_a_pool_gets_another_flavor_and_topology(api: FakeKubeApi) -> None:
    """Planted: queues, which have one flavor less, named the new one before it was made."""
    pushed(api, "arbiter")
    labels = {"node_selector": {"gpu": "h100"}}
    levels = {"topology_name": "fabric", "topology_levels": ["example.com/rack"]}
    new = {"h100": {**labels, "flavor": "h100-fabric", "required_topology": "example.com/rack"}}
    new["h100"] |= levels
    control = a_control(api, kube_shape(pools=new))
    done = push(control, a_company_tree())
    assert (done[:2], done[-1]) == (
        ["create topology fabric", "create flavor h100-fabric"],
        "delete flavor h100",
    )
    assert (api.broken, control.changes(a_company_tree())) == ([], ())
    back = a_control(api, kube_shape())
    assert push(back, a_company_tree())[-2:] == [
        "delete flavor h100-fabric",
        "delete topology fabric",
    ]
    assert (api.broken, back.changes(a_company_tree())) == ([], ())


def test_a_flavor_of_which_somebody_elses_cohort_has_quota_stays(api: FakeKubeApi) -> None:
    """Mutants: only queues are asked; a cohort's cells are taken for flavors' names."""
    control = a_control(api, kube_shape("shared", pools=options_of("h100", "a100")))
    push(control, with_pool("a100"))
    spec = api.get(f"{KUEUE}/cohorts/{TOP}")["spec"]
    theirs = {"kind": "Cohort", "metadata": {"name": "theirs"}, "spec": spec}
    api.objects[f"{KUEUE}/cohorts/theirs"] = theirs
    left = a_control(api, kube_shape("shared", pools=options_of("h100"))).changes(a_company_tree())
    assert (left[-1].subject, left[-1].is_blocked, left[-1].note) == (
        *("flavor a100", True, "is still used by cohort theirs"),
    )
