"""What of a Slurm cluster differs from the quota tree, and in which order it changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from connectors.entitlements import Change, ChangeKind, Entitlement, Entitlements, Share
from connectors.errors import ClusterUnavailable, OutcomeUnknown, WorkloadRejected
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.controller import SlurmController
from connectors.slurm.entitlements import SlurmEntitlements
from connectors.slurm.neutral import Account, Association, JobList, Qos, SlurmJob, User
from connectors.slurm.options import parse_options

OPTIONS = {
    "url": "http://127.0.0.1:6820",
    "service_user": "tidegate",
    "token_socket": "/run/minter",
    "tag_secret": "0123456789abcdef",
    "pools": {
        "h100": {"partition": "h100", "gres_type": "h100"},
        "a100": {"partition": "a100", "gres_type": "a100"},
    },
}
H100, A100, ALL = "gres/gpu:h100", "gres/gpu:a100", "gres/gpu"


@dataclass
class Accounting:
    """The accounting of a cluster in memory; `calls` are its writes."""

    resources: tuple[str, ...] = (ALL, H100, A100, "cpu")
    names: tuple[str, ...] = ("hpc1",)
    known_accounts: dict[str, Association] = field(default_factory=dict)
    members: dict[tuple[str, str], Association] = field(default_factory=dict)
    known_qos: dict[str, Qos] = field(default_factory=dict)
    known_users: dict[str, User] = field(default_factory=dict)
    running: list[SlurmJob] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    forgets: bool = False
    changes_accounts_by_detour: bool = True

    def clusters(self) -> tuple[str, ...]:
        return self.names

    def tracked_resources(self) -> tuple[str, ...]:
        return self.resources

    def associations(
        self, *, account: str | None = None, user: str | None = None
    ) -> tuple[Association, ...]:
        found = [*self.known_accounts.values(), *self.members.values()]
        return tuple(
            item for item in found if account in (None, item.account) and user in (None, item.user)
        )

    def qos(self) -> tuple[Qos, ...]:
        return tuple(self.known_qos.values())

    def users(self) -> tuple[User, ...]:
        return tuple(self.known_users.values())

    def jobs(self) -> JobList:
        return JobList(0, tuple(self.running))

    def put_account(self, account: Account) -> None:
        self.calls.append(("account", account.name))

    def put_association(
        self,
        item: Association,
        *,
        detour: str | None = None,
        known: tuple[Association, ...] | None = None,
    ) -> None:
        assert known in (None, tuple(filter(None, [self.known_accounts.get(item.account)])))
        self.calls.append(("association", f"{item.account}/{item.user}/{detour or ''}"))
        if self.forgets:
            return
        limits = {name: count for name, count in item.group_tres.items() if count is not None}
        stored = replace(item, group_tres=limits)
        if item.user:
            above = self.known_accounts[item.account]
            self.members[item.account, item.user] = replace(stored, qos=item.qos or above.qos)
        else:
            self.known_accounts[item.account] = stored

    def put_qos(self, qos: Qos, *, known: tuple[Qos, ...]) -> None:
        assert known == self.qos()
        self.calls.append(("qos", qos.name))
        self.known_qos[qos.name] = qos

    def add_user(self, user: str, *, account: str, cluster: str) -> None:
        assert (account in self.known_accounts, cluster) == (True, self.clusters()[0])
        self.calls.append(("user", f"{user}/"))
        self.known_users[user] = User(user)

    def put_user(self, user: User) -> None:
        self.calls.append(("user", f"{user.name}/{user.default_account}"))
        self.known_users[user.name] = user

    def delete_association(self, account: str, *, cluster: str, user: str) -> None:
        self.calls.append(("delete member", f"{account}/{user}"))
        del self.members[account, user]

    def delete_account(self, name: str) -> None:
        self.calls.append(("delete account", name))
        self.known_accounts.pop(name, None)

    def delete_qos(self, name: str) -> None:
        self.calls.append(("delete qos", name))
        del self.known_qos[name]


def a_control(accounting: Accounting, **options: Any) -> SlurmEntitlements:
    return SlurmEntitlements(
        cast(SlurmController, accounting),
        cast(SlurmAccounting, accounting),
        parse_options(OPTIONS | options),
    )


def a_team(path: str = "org/nlp", guaranteed: int = 8, ceiling: int | None = 12) -> Entitlement:
    return Entitlement(
        path=path,
        is_team=True,
        shares={"h100": Share(guaranteed, ceiling), "a100": Share(0, 0)},
        weight=30,
        users=("ana",),
    )


def a_tree(*teams: Entitlement) -> Entitlements:
    shares = {"h100": Share(0, None), "a100": Share(0, 4)}
    return Entitlements(
        nodes=(Entitlement("org", False, shares, 100), *(teams or (a_team(),))),
        organizations=frozenset({"org", "other"}),
        grace_s=300,
    )


def a_running_job(**changes: Any) -> SlurmJob:
    values: dict[str, Any] = {
        **{"job_id": 7, "name": "job", "user": "ana", "account": "org_nlp"},
        **{"partition": "h100", "qos": "g-org_nlp", "comment": "", "state": "RUNNING"},
        **{"state_flags": frozenset(), "reason": "", "is_held": False, "submit_time": 1},
        **{"start_time": 2, "end_time": None, "exit_code": None},
        **{"exit_signal": None, "node_count": 1, "nodes": ("h001",)},
        **{"gpus_requested": {"h100": 6}, "gpus_allocated": {"h100": 6}, "gpus_by_node": {}},
        **{"time_limit_s": None},
    }
    return SlurmJob(**values | changes)


def pushed(wanted: Entitlements, accounting: Accounting | None = None) -> Accounting:
    """A cluster to which `wanted` was pushed; its calls are forgotten."""
    accounting = accounting or Accounting()
    control = a_control(accounting)
    for change in control.changes(wanted):
        control.apply(change)
    assert control.changes(wanted) == ()
    accounting.calls.clear()
    return accounting


def told(changes: tuple[Change, ...]) -> list[tuple[str, str]]:
    return [(change.kind.value, change.subject) for change in changes]


def test_an_empty_cluster_gets_everything_parents_first() -> None:
    accounting = Accounting()
    changes = a_control(accounting).changes(a_tree())
    assert [(change.kind, change.subject, dict(change.after)) for change in changes] == [
        (
            *(ChangeKind.CREATE, "qos tg-borrow"),
            {
                "priority": 10,
                "preempt_mode": ["REQUEUE"],
                "grace_s": 300,
                "flags": ["NO_RESERVE"],
            },
        ),
        (
            *(ChangeKind.CREATE, "qos g-org_nlp"),
            {"priority": 1000, "preempts": ["tg-borrow"], ALL: 8, H100: 8, A100: 0},
        ),
        (
            *(ChangeKind.CREATE, "account org"),
            {"parent": "root", "fairshare": 100, ALL: None, H100: None, A100: 4},
        ),
        (
            *(ChangeKind.CREATE, "account org_nlp"),
            {
                **{"parent": "org", "fairshare": 30, ALL: 12, H100: 12, A100: 0},
                **{"qos": ["g-org_nlp", "tg-borrow"], "default_qos": "g-org_nlp"},
            },
        ),
        (ChangeKind.CREATE, "member ana of org_nlp", {"account": "org_nlp"}),
    ]
    assert all(change.before == {} and not change.is_blocked for change in changes)
    made = pushed(a_tree())
    assert made.known_accounts["org_nlp"] == Association(
        *("org_nlp", "hpc1"),
        parent_account="org",
        group_tres={ALL: 12, H100: 12, A100: 0},
        qos=("g-org_nlp", "tg-borrow"),
        default_qos="g-org_nlp",
        shares=30,
    )
    assert made.known_users == {"ana": User("ana")}


def test_what_is_taken_comes_before_what_is_given_children_before_parents() -> None:
    accounting = pushed(a_tree(a_team("org/a", 8, 8), a_team("org/b", 4, 4), a_team("org/c", 4, 4)))
    grown = a_tree(a_team("org/a", 2, 2), a_team("org/b", 10, 10), a_team("org/d", 4, 4))
    lower = replace(
        grown,
        nodes=(
            replace(grown.nodes[0], shares={"h100": Share(0, 16), "a100": Share(0, 5)}),
            *grown.nodes[1:],
        ),
    )
    assert told(a_control(accounting).changes(lower)) == [
        ("lower", "account org_a"),
        ("lower", "account org"),
        ("lower", "qos g-org_a"),
        ("delete", "account org_c"),
        ("delete", "qos g-org_c"),
        ("raise", "qos g-org_b"),
        ("create", "qos g-org_d"),
        ("raise", "account org"),
        ("raise", "account org_b"),
        ("create", "account org_d"),
        ("create", "member ana of org_d"),
    ]


def test_settings_of_others_are_kept() -> None:
    accounting = pushed(a_tree())
    team = accounting.known_accounts["org_nlp"]
    accounting.known_accounts["org_nlp"] = replace(team, group_tres={**team.group_tres, "cpu": 99})
    known = accounting.known_qos["g-org_nlp"]
    accounting.known_qos["g-org_nlp"] = replace(
        *(known,), flags=("DENY_LIMIT",), user_tres={"cpu": 5}, preempts=("low", "tg-borrow")
    )
    accounting.known_accounts["chemistry"] = Association("chemistry", "hpc1", parent_account="root")
    accounting.known_qos["g-chemistry"] = Qos("g-chemistry")
    accounting.known_accounts["organ_x"] = Association("organ_x", "hpc1", parent_account="root")
    control = a_control(accounting)
    assert control.changes(a_tree()) == ()
    wanted = a_tree(a_team(guaranteed=9, ceiling=None))
    for change in control.changes(wanted):
        control.apply(change)
    assert accounting.known_accounts["org_nlp"].group_tres == {"cpu": 99, A100: 0}
    kept = accounting.known_qos["g-org_nlp"]
    assert (kept.flags, kept.user_tres, kept.preempts) == (
        *(("DENY_LIMIT",), {"cpu": 5}),
        ("low", "tg-borrow"),
    )
    assert kept.group_tres == {ALL: 9, H100: 9, A100: 0}


@pytest.mark.parametrize(
    ("resources", "pools", "limits"),
    [
        ((ALL, H100), ["h100"], {ALL: 8, H100: 8}),
        # The cluster has GPUs that are no pool's: all together are not ours to limit.
        ((ALL, H100, A100), ["h100"], {H100: 8}),
        ((ALL,), ["h100"], {ALL: 8}),
    ],
)
def test_limits_are_by_type_where_the_cluster_counts_types(
    resources: tuple[str, ...], pools: list[str], limits: dict[str, int]
) -> None:
    kept = {name: OPTIONS["pools"][name] for name in pools}  # type: ignore[index]
    control = a_control(Accounting(resources), pools=kept)
    qos = next(change for change in control.changes(a_tree()) if change.name == "g-org_nlp")
    assert {name: value for name, value in qos.after.items() if ALL in name} == limits


def test_a_cluster_that_counts_too_little_or_is_one_of_several_says_what_to_do() -> None:
    with pytest.raises(ClusterUnavailable, match="AccountingStorageTRES"):
        a_control(Accounting((ALL, H100))).changes(a_tree())
    several = Accounting(names=("hpc1", "hpc2"))
    with pytest.raises(ClusterUnavailable, match="hpc1, hpc2; name this one in option"):
        a_control(several).changes(a_tree())
    assert a_control(several, cluster_name="hpc2").changes(a_tree())


def test_a_limit_below_what_runs_says_so() -> None:
    accounting = pushed(a_tree())
    accounting.running.append(a_running_job())
    account, qos = a_control(accounting).changes(a_tree(a_team(guaranteed=4, ceiling=6)))
    assert account.note == ""
    assert qos.note == "; ".join(
        f"6 {name} are in use and run on; nothing starts before less than 4 are"
        for name in (ALL, H100)
    )
    assert not qos.is_blocked


def test_what_left_the_tree_stays_while_it_is_in_use() -> None:
    accounting = pushed(a_tree(a_team("org/a"), a_team("org/b")))
    gone = a_tree(a_team("org/a"))
    accounting.running.append(a_running_job(account="org_b", qos="g-org_b", state="PENDING"))
    changes = a_control(accounting).changes(gone)
    assert [(item.kind, item.subject, item.is_blocked, item.note) for item in changes] == [
        (ChangeKind.DELETE, subject, True, "in use, so it stays: job 7")
        for subject in ("account org_b", "qos g-org_b")
    ]
    for change in changes:
        with pytest.raises(WorkloadRejected, match="in use: job 7"):
            a_control(accounting).apply(change)
    assert accounting.calls == []
    accounting.running.clear()
    for change in a_control(accounting).changes(gone):
        a_control(accounting).apply(change)
    assert accounting.calls == [
        ("delete member", "org_b/ana"),
        ("delete account", "org_b"),
        ("delete qos", "g-org_b"),
    ]


def test_an_account_with_somebody_elses_below_it_stays() -> None:
    accounting = pushed(a_tree(a_team("org/a"), a_team("org/b")))
    accounting.known_accounts["guests"] = Association("guests", "hpc1", parent_account="org_b")
    account, _ = a_control(accounting).changes(a_tree(a_team("org/a")))
    assert (account.subject, account.is_blocked, account.note) == (
        *("account org_b", True),
        "accounts below it stay: guests",
    )


def test_members_come_and_go_and_keep_a_default_account() -> None:
    accounting = pushed(a_tree())
    accounting.members["org_nlp", "leo"] = Association(
        "org_nlp", "hpc1", "leo", qos=("g-org_nlp", "tg-borrow"), is_default=True
    )
    accounting.members["chemistry", "leo"] = Association("chemistry", "hpc1", "leo")
    ana = accounting.members["org_nlp", "ana"]
    accounting.members["org_nlp", "ana"] = replace(ana, qos=("normal",))
    changes = a_control(accounting).changes(a_tree())
    assert told(changes) == [
        ("delete", "member leo of org_nlp"),
        ("change", "member ana of org_nlp"),
    ]
    for change in changes:
        a_control(accounting).apply(change)
    assert accounting.calls == [
        ("user", "leo/chemistry"),
        ("delete member", "org_nlp/leo"),
        ("association", "org_nlp/ana/"),
    ]
    assert a_control(accounting).changes(a_tree()) == ()


def test_an_account_takes_a_detour_and_an_organization_one_of_its_own() -> None:
    accounting = pushed(a_tree())
    first = a_tree()
    changed = replace(
        first,
        nodes=(replace(first.nodes[0], weight=1), replace(first.nodes[1], weight=2)),
    )
    for change in a_control(accounting).changes(changed):
        a_control(accounting).apply(change)
    assert accounting.calls == [
        ("account", "tidegate-detour"),
        ("association", "tidegate-detour//"),
        ("association", "org//tidegate-detour"),
        ("delete account", "tidegate-detour"),
        ("association", "org_nlp//root"),
    ]
    # Whoever died on the way left the account there: it is put back.
    moved = replace(accounting.known_accounts["org_nlp"], parent_account="root")
    accounting.known_accounts["org_nlp"] = moved
    (back,) = a_control(accounting).changes(changed)
    assert (back.before, back.after) == ({"parent": "root"}, {"parent": "org"})


def test_who_was_left_on_the_detour_goes_home_first_and_is_not_deleted_with_it() -> None:
    accounting = pushed(with_rival(1))
    detour = Association("tidegate-detour", "hpc1", parent_account="root")
    accounting.known_accounts["tidegate-detour"] = detour
    for name in ("org", "rival"):
        left = replace(accounting.known_accounts[name], parent_account="tidegate-detour")
        accounting.known_accounts[name] = left
    control = a_control(accounting)
    changes = control.changes(with_rival(2))
    assert told(changes) == [
        ("change", "account org"),
        ("change", "account rival"),
        ("change", "account org_nlp"),
    ]
    control.apply(changes[0])
    assert ("delete account", "tidegate-detour") not in accounting.calls
    control.apply(changes[1])
    assert ("delete account", "tidegate-detour") in accounting.calls
    # Nor is one deleted that another cluster passes through.
    accounting.calls.clear()
    accounting.known_accounts["at hpc2"] = replace(detour, cluster="hpc2")
    (change, *_) = control.changes(with_rival(2, weight=9))
    control.apply(change)
    assert ("delete account", "tidegate-detour") not in accounting.calls


def with_rival(team_weight: int, *, weight: int = 100) -> Entitlements:
    first = a_tree(replace(a_team(), weight=team_weight))
    organization = replace(first.nodes[0], weight=weight)
    rival = replace(first.nodes[0], path="rival")
    return replace(
        first,
        nodes=(organization, first.nodes[1], rival),
        organizations=frozenset({"org", "rival"}),
    )


def test_nothing_wanted_is_a_mistake() -> None:
    accounting = pushed(a_tree())
    with pytest.raises(WorkloadRejected, match="nothing removed; set a quota first"):
        a_control(accounting).changes(replace(a_tree(), nodes=()))


def test_what_several_clusters_share_is_not_deleted() -> None:
    accounting = pushed(a_tree(a_team("org/a"), a_team("org/b")))
    accounting.names = ("hpc1", "hpc2")
    control = a_control(accounting, cluster_name="hpc1")
    changes = control.changes(a_tree(a_team("org/a")))
    note = "stays: other clusters of the same accounting may use it"
    assert [(item.kind, item.subject, item.is_blocked, item.note) for item in changes] == [
        (ChangeKind.DELETE, subject, True, note) for subject in ("account org_b", "qos g-org_b")
    ]
    for change in changes:
        with pytest.raises(WorkloadRejected, match="stays: other clusters"):
            control.apply(change)
    assert accounting.calls == []


def test_a_member_is_removed_on_this_cluster_only() -> None:
    accounting = pushed(a_tree())
    accounting.names = ("hpc1", "hpc2")
    ana = accounting.members["org_nlp", "ana"]
    accounting.members["org_nlp", "ana at hpc2"] = replace(ana, cluster="hpc2")
    control = a_control(accounting, cluster_name="hpc1")
    (change,) = control.changes(a_tree(replace(a_team(), users=())))
    control.apply(change)
    assert accounting.calls == [("delete member", "org_nlp/ana")]
    assert set(accounting.members) == {("org_nlp", "ana at hpc2")}


def test_a_node_that_slurm_can_not_name_stands_in_nobodys_way() -> None:
    deep, long = "org" + "/a" * 10, "org/" + "b" * 63 + "/" + "c" * 63
    accounting = Accounting()
    changes = a_control(accounting).changes(a_tree(a_team(deep), a_team(long), a_team("org/nlp")))
    assert [(item.subject, item.note) for item in changes if item.is_blocked] == [
        (f"account {path}", f"{reason}; give it or what is above it a shorter name, or move it up")
        for path, reason in (
            (deep, f"'{deep}' is no path of a team, so it has no account"),
            (
                long,
                f"account '{long.replace('/', '_')[:80]}' is no name for Slurm: 1 to 128 of "
                "A-Z a-z 0-9 _ . @ + -",
            ),
        )
    ]
    assert told(tuple(item for item in changes if not item.is_blocked)) == told(
        a_control(accounting).changes(a_tree())
    )


def test_an_organization_that_is_called_root_never_gets_slurm_s_own_account() -> None:
    """Planted: its account was taken for the organization's, got its limits, and stood below
    itself; and without quota here it was to be removed with all that is below it."""
    accounting = Accounting(known_accounts={"root": Association("root", "hpc1")})
    first = a_tree()
    root = replace(first.nodes[0], path="root")
    team = replace(first.nodes[1], path="root/nlp")
    both = frozenset({"org", "root"})
    wanted = replace(first, nodes=(*first.nodes, root, team), organizations=both)
    changes = a_control(accounting).changes(wanted)
    reason = (
        "the account root is not the organization's; it has none on this cluster until the option "
        "account_prefix gives it another name"
    )
    assert [(item.subject, item.note) for item in changes if item.is_blocked] == [
        ("account root", reason),
        ("account root/nlp", reason),
    ]
    without_quota = replace(first, organizations=both)
    assert a_control(accounting).changes(without_quota) == tuple(
        item for item in changes if not item.is_blocked
    )
    prefixed = a_control(accounting, account_prefix="tg-").changes(wanted)
    assert [item for item in prefixed if item.is_blocked] == []
    assert ("create", "account tg-root_nlp") in told(prefixed)


def test_a_write_that_the_cluster_forgets_is_noticed() -> None:
    accounting = pushed(a_tree())
    accounting.forgets = True
    (change,) = a_control(accounting).changes(
        replace(a_tree(), nodes=(a_tree().nodes[0], replace(a_team(), weight=31)))
    )
    with pytest.raises(OutcomeUnknown, match="fairshare was set to 31 and the cluster has 30"):
        a_control(accounting).apply(change)


def test_a_tree_of_accounts_that_slurm_has_lost_is_not_written_to() -> None:
    """A write to it may never end. Planted: only an account below itself at once was seen."""
    accounting = pushed(a_tree())
    before = accounting.known_accounts["org"]
    for above, words in (
        ("org", "below org, which stands below itself"),
        ("org_nlp", "below org, which stands below itself"),
        ("gone", "account org below gone, which is not there"),
    ):
        accounting.known_accounts["org"] = replace(before, parent_account=above)
        with pytest.raises(WorkloadRejected, match=words):
            a_control(accounting).changes(a_tree())
    assert accounting.calls == []
    # Nobody's child, as older Slurm makes it, is somebody else's matter.
    accounting.known_accounts["org"] = before
    accounting.known_accounts["lost"] = Association("lost", "hpc1")
    assert a_control(accounting).changes(a_tree()) == ()
