"""Quotas and policies from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import Quota, TreeNode
from arbiter.quota.tree import tree_of
from simulator.policy_file import PolicyFile, read_policy
from simulator.scene import POOL, read_quotas, stage, uniform_fleet
from simulator.traces import Machine, TraceError
from simulator.workload import Settings

DEMO = Path(__file__).parents[3] / "platform" / "portal" / "demo" / "ai-company.yaml"
COMPANY = """
pools: {h100: {gpus: 100}}
policy: {rank: [production, research]}
departments:
  research:
    guaranteed: 45%
    borrow_limit: 10
    teams:
      nlp: {guaranteed: 33%}
      vision: {guaranteed: 67%, lend_limit: 2}
  production: {guaranteed: 50}
"""


def written(folder: Path, text: str, name: str = "quotas.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_tree_of_percentages_and_gpus(tmp_path: Path) -> None:
    """33 % and 67 % of 45 GPUs are 14.85 and 30.15: the largest remainder is nlp's."""
    tree = read_quotas(written(tmp_path, COMPANY))
    assert tree.gpus == 100
    assert tree.nodes == (
        TreeNode("research", None, 1),
        TreeNode("research/nlp", "research"),
        TreeNode("research/vision", "research"),
        TreeNode("production", None, 2),
    )
    assert tree.quotas == (
        Quota("research", POOL, 45_000, borrow_limit_mgpu=10_000),
        Quota("research/nlp", POOL, 15_000),
        Quota("research/vision", POOL, 30_000, lend_limit_mgpu=2_000),
        Quota("production", POOL, 50_000),
    )


def test_ranks_are_of_names_or_of_paths(tmp_path: Path) -> None:
    """A path is of one node, a name of all that are called so.

    Planted: paths, which a company file may have, looked up as names and so without a rank.
    """
    text = """
policy: {rank: [a/x, y]}
departments: {a: {teams: {x: {}, y: {}}}, b: {teams: {x: {}, y: {}}}}
"""
    tree = read_quotas(written(tmp_path, text))
    assert {node.id: node.rank for node in tree.nodes} == {
        "a": 0,
        "a/x": 2,
        "a/y": 1,
        "b": 0,
        "b/x": 0,
        "b/y": 1,
    }


def test_weights_for_spare_gpus(tmp_path: Path) -> None:
    """Planted: the weight read and dropped."""
    tree = read_quotas(written(tmp_path, "teams: {x: {weight: 300}, y: {}}"))
    assert tree.quotas == (Quota("x", POOL, 0, weight=300), Quota("y", POOL, 0, weight=100))


def test_the_demo_company_is_a_quota_file() -> None:
    tree = read_quotas(DEMO)
    assert tree.gpus == 1_000
    assert Quota("research/nlp", POOL, 200_000) in tree.quotas


def test_the_departments_of_an_organization_are_below_it(tmp_path: Path) -> None:
    """So their ranks order them, and what they leave is theirs before others'. Without a size of
    the fleet it is guaranteed what they are.

    It is no department itself, also where only teams are below it.

    Planted: the organization read and dropped; taken for a department.
    """
    tree = read_quotas(written(tmp_path, f"organization: AI Company\n{COMPANY}"))
    assert tree.nodes[:2] == (
        TreeNode("AI Company", None),
        TreeNode("research", "AI Company", 1),
    )
    assert tree.nodes[-1] == TreeNode("production", "AI Company", 2)
    assert tree.quotas[:2] == (
        Quota("AI Company", POOL, 100_000),
        Quota("research", POOL, 45_000, borrow_limit_mgpu=10_000),
    )
    scene, teams = stage(tree, uniform_fleet(100, 8), Policy(), ["nlp"], scale=False)
    assert (teams, scene.above("research/nlp")) == (
        {"nlp": "research/nlp"},
        ("research",),
    )
    assert scene.departments == {"research": 45_000}
    ranks = tree_of(tree.nodes)
    of = {name: ranks.ranks[at] for name, at in ranks.index.items()}
    assert of["production"] > of["research"]
    small = written(tmp_path, "organization: o\nteams: {x: {guaranteed: 3}, y: {guaranteed: 4}}")
    assert read_quotas(small).quotas[0] == Quota("o", POOL, 7_000)
    scene, _ = stage(read_quotas(small), uniform_fleet(8, 8), Policy(), ["x"], scale=False)
    assert (scene.departments, scene.above("x")) == ({}, ())


LISTED = """team,quota_gpus,borrow_limit_gpus,lend_limit_gpus
org/ads/rank,3,,
org/research/nlp,2,,1
sales,4,0,
org/research,8,10,
org/research/vision,5,,
org/ads/feed,1,,
"""


def test_a_list_of_paths_is_a_tree(tmp_path: Path) -> None:
    """research says what it is guaranteed, a GPU more than its teams; ads and org do not.

    Planted: the row of a department taken for one more team; a department without a row left with
    nothing, or with what is all below it summed over two levels; org, which has departments below
    it, taken for one.
    """
    tree = read_quotas(written(tmp_path, LISTED, "quotas.csv"))
    assert tree.nodes == (
        TreeNode("org", None),
        TreeNode("org/ads", "org"),
        TreeNode("org/ads/rank", "org/ads"),
        TreeNode("org/ads/feed", "org/ads"),
        TreeNode("org/research", "org"),
        TreeNode("org/research/nlp", "org/research"),
        TreeNode("org/research/vision", "org/research"),
        TreeNode("sales", None),
    )
    assert tree.quotas == (
        Quota("org", POOL, 12_000),
        Quota("org/ads", POOL, 4_000),
        Quota("org/ads/rank", POOL, 3_000),
        Quota("org/ads/feed", POOL, 1_000),
        Quota("org/research", POOL, 8_000, borrow_limit_mgpu=10_000),
        Quota("org/research/nlp", POOL, 2_000, lend_limit_mgpu=1_000),
        Quota("org/research/vision", POOL, 5_000),
        Quota("sales", POOL, 4_000, borrow_limit_mgpu=0),
    )
    scene, teams = stage(tree, uniform_fleet(16, 8), Policy(), ["nlp", "rank"], scale=False)
    assert teams == {"nlp": "org/research/nlp", "rank": "org/ads/rank"}
    assert scene.departments == {"org/ads": 4_000, "org/research": 8_000}
    assert scene.above("org/ads/rank") == ("org/ads",)
    assert scene.above("sales") == ()


def test_departments_may_be_at_the_top(tmp_path: Path) -> None:
    """Planted: nothing at the top taken for a department; a department of departments, which is
    not at the top, taken for an organization."""
    listed = "team,quota_gpus\nresearch/vision,2\nads/x,1\n"
    assert read_quotas(written(tmp_path, listed, "quotas.csv")).departments == ("research", "ads")
    deep = "team,quota_gpus\no/d/e/x,2\n"
    assert read_quotas(written(tmp_path, deep, "quotas.csv")).departments == ("o/d", "o/d/e")


def test_a_list_says_the_same_as_a_tree(tmp_path: Path) -> None:
    text = """
teams: {sales: {guaranteed: 4, borrow_limit: 0}}
departments:
  org:
    guaranteed: 12
    departments:
      ads: {guaranteed: 4, teams: {rank: {guaranteed: 3}, feed: {guaranteed: 1}}}
      research:
        guaranteed: 8
        borrow_limit: 10
        teams: {nlp: {guaranteed: 2, lend_limit: 1}, vision: {guaranteed: 5}}
"""
    listed = read_quotas(written(tmp_path, LISTED, "quotas.csv"))
    assert listed == read_quotas(written(tmp_path, text))


def test_a_list_of_teams_is_scaled_to_the_fleet_by_largest_remainder(tmp_path: Path) -> None:
    """10 GPUs by 3 : 3 : 1 are 4.29, 4.29 and 1.43."""
    text = "vc,nodes,gpus_per_node,quota_gpus\nx,3,8,24\ny,3,8,24\nz,1,8,8\n"
    tree = read_quotas(written(tmp_path, text, "quotas.csv"))
    scene, teams = stage(tree, uniform_fleet(10, 8), Policy(), ["x", "other"], scale=True)
    assert scene.teams == {"x": 4_000, "y": 4_000, "z": 2_000, "other": 0}
    assert teams == {"x": "x", "other": "other"}
    assert scene.machines == (Machine("n00000", 8_000), Machine("n00001", 2_000))
    assert scene.capacity_mgpu == 10_000


def test_scaling_goes_down_the_tree(tmp_path: Path) -> None:
    scene, teams = stage(
        read_quotas(written(tmp_path, COMPANY)),
        uniform_fleet(19, 8),
        Policy(),
        ["nlp", "research/vision"],
        scale=True,
    )
    assert {quota.node: quota.guaranteed_mgpu for quota in scene.quotas} == {
        "research": 9_000,
        "research/nlp": 3_000,
        "research/vision": 6_000,
        "production": 10_000,
    }
    assert scene.teams == {"research/nlp": 3_000, "research/vision": 6_000, "production": 10_000}
    assert teams == {"nlp": "research/nlp", "research/vision": "research/vision"}


def test_limits_are_scaled_with_the_guarantees(tmp_path: Path) -> None:
    """A fleet of 95 GPUs for guarantees of 95 is all there is; of 19, a fifth: research borrows 2
    instead of 10 and vision lends 0.4 instead of 2.

    Planted: limits left as they were."""
    tree = read_quotas(written(tmp_path, COMPANY))
    for gpus, borrow_mgpu, lend_mgpu in ((95, 10_000, 2_000), (19, 2_000, 400)):
        scene, _ = stage(tree, uniform_fleet(gpus, 8), Policy(), [], scale=True)
        of = {quota.node: quota for quota in scene.quotas}
        assert of["research"].borrow_limit_mgpu == borrow_mgpu
        assert of["research/vision"].lend_limit_mgpu == lend_mgpu
        assert of["research"].lend_limit_mgpu is None
    nothing = written(tmp_path, "teams: {x: {borrow_limit: 3}}\n")
    scene, _ = stage(read_quotas(nothing), uniform_fleet(8, 8), Policy(), [], scale=True)
    assert scene.quotas == (Quota("x", POOL, 0, borrow_limit_mgpu=3_000),)


@pytest.mark.parametrize("name", ["research", "a/research"])
def test_a_team_of_the_trace_that_is_a_department_is_refused(tmp_path: Path, name: str) -> None:
    text = "gpus: 4\ndepartments: {a: {departments: {research: {teams: {x: {}}}}}}\n"
    tree = read_quotas(written(tmp_path, text))
    with pytest.raises(
        ValueError, match=f"has jobs of '{name}', which the quotas have as a department; jobs"
    ):
        stage(tree, uniform_fleet(4, 4), Policy(), ["x", name], scale=False)


def test_guarantees_above_the_fleet_are_refused(tmp_path: Path) -> None:
    tree = read_quotas(written(tmp_path, COMPANY))
    with pytest.raises(ValueError, match="guarantees sum to 95 GPUs and the fleet has 94"):
        stage(tree, uniform_fleet(94, 8), Policy(), [], scale=False)


def test_a_name_that_two_teams_have_is_refused_where_the_trace_uses_it(tmp_path: Path) -> None:
    text = "gpus: 4\ndepartments: {a: {teams: {x: {}}}, b: {teams: {x: {}}}}\n"
    tree = read_quotas(written(tmp_path, text))
    with pytest.raises(ValueError, match="two teams of the quotas are called 'x'"):
        stage(tree, uniform_fleet(4, 4), Policy(), ["x"], scale=False)
    _, teams = stage(tree, uniform_fleet(4, 4), Policy(), ["a/x"], scale=False)
    assert teams == {"a/x": "a/x"}


def test_a_whole_number_of_gpus_may_have_a_point_and_zeros(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("team,quota_gpus\nx,8.0\n")
    assert [quota.guaranteed_mgpu for quota in read_quotas(path).quotas] == [8_000]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("q.csv", "team\nx\n", "q.csv, line 1: a column team"),
        ("q.csv", "team,quota_gpus\nx,1\nx,2\n", "line 3: team 'x' is empty or there twice"),
        ("q.csv", "team,quota_gpus\nd/x,1\nd,2\nd,2\n", "line 4: team 'd' is empty or there twice"),
        ("q.csv", "team,quota_gpus\nd/ /x,1\n", "line 2: team 'd/ /x' is empty or there twice"),
        ("q.csv", "team,quota_gpus\n" + "d/" * 16 + "x,1\n", "line 2: 'd/d/.*' is too deep"),
        (
            "q.csv",
            "team,quota_gpus\no/d/x,3\no/d/y,2\no/d,4\n",
            "q.csv: the guarantees right below o/d sum to 5 GPUs and it has 4; give it more, or",
        ),
        ("q.csv", "team,quota_gpus\nx,-1\n", "line 2: quota_gpus is '-1'; a whole number"),
        ("q.csv", "team,quota_gpus\nx,1.5\n", "line 2: quota_gpus is '1.5'; a whole number"),
        ("q.csv", f"team,quota_gpus\nx,{10**7 + 1}\n", "is needed, 0 to 10,000,000"),
        (
            "q.csv",
            f"team,quota_gpus\nx,1{'0' * 5_000}\n",
            f"quota_gpus is '1{'0' * 38}...; a whole",
        ),
        ("q.csv", "team,quota_gpus\nx\n", "line 2: 1 columns; the header has 2"),
        ("q.csv", "team,quota_gpus\n", "q.csv: there is no team in it"),
        ("q.yaml", "teams: {x: {guaranteed: 5%}}", "top of the file, as in gpus: 512"),
        ("q.yaml", "gpus: 4\nteams: {x: {guaranteed: 500%}}", "guaranteed of x is '500%'"),
        (
            "q.csv",
            "team,quota_gpus,lend_limit_gpus\nd/x,2,3\n",
            "q.csv: d/x lends up to 3 GPUs and is guaranteed only 2; lower its lend limit, or",
        ),
        # Planted: rounded to what there is.
        (
            "q.yaml",
            "gpus: 8\nteams: {x: {guaranteed: 60%}, y: {guaranteed: 41%}}",
            "q.yaml: the percentages right below the fleet sum to 101 %; give them 100 % at most",
        ),
        ("q.yaml", "gpus: 4\nteams: [x]", "teams must be a mapping"),
        ("q.yaml", "a: [", "q.yaml, line 1: expected the node content"),
        ("q.yaml", "gpus: 4", "there is no department and no team"),
        ("q.yaml", "pools: {a: {gpus: 1}, b: {gpus: 1}}", "one pool is simulated at a time"),
        (
            "q.yaml",
            "gpus: 9\nteams: {x: {guaranteed: 1, teams: {y: {guaranteed: 2}}}}",
            "the guarantees right below x sum to 2 GPUs and it has 1; give it more, or them less",
        ),
        ("q.yaml", "gpus: 4\nteams: {x: {guarantee: 4}}", "x has no 'guarantee'; it may have guar"),
        ("q.yaml", "gpus: 4\nteam: {x: {}}", "the file has no 'team'; it may have gpus, pools, "),
        ("q.yaml", "teams: {x: {weight: 0}}", "weight of x is 0; 1 to 1,000,000"),
        # Planted: a misspelt name of no effect.
        (
            "q.yaml",
            "policy: {rank: [x, production]}\nteams: {x: {}}",
            "q.yaml: rank: 'production' is no department or team of this file; write it as it",
        ),
        # Planted: whatever else stands there has no effect.
        (
            "q.yaml",
            "policy: {grace: 30}\nteams: {x: {}}",
            "policy has no 'grace'; it may have rank, grace_period_s, fair_share_half_life_days",
        ),
        # Planted: the last one counts.
        ("q.yaml", "teams: {x: {}}\ngpus: 1\nteams: {y: {}}", "line 3: 'teams' is there twice"),
        ("q.yaml", "organization: {name: a}\nteams: {x: {}}", "organization is .*; write its name"),
        ("q.yaml", "organization: x\nteams: {x: {}}", "'x' is the organization and below it"),
        (
            "q.yaml",
            "organization: o\ngpus: 4\nteams: {x: {guaranteed: 5}}",
            "the guarantees right below o sum to 5 GPUs and it has 4; give it more, or them less",
        ),
        (
            "q.yaml",
            "departments: {a: {departments: {x: {}}, teams: {x: {}}}}",
            "'x' is a department and a team below a; rename one",
        ),
    ],
)
def test_a_bad_quota_file_says_what_is_wrong(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    with pytest.raises(TraceError, match=words):
        read_quotas(written(tmp_path, text, name))


def test_policies_of_a_company_file_are_told_not_to_count(tmp_path: Path) -> None:
    text = "policy: {grace_period_s: 30, rank: [x]}\nteams: {x: &x {guaranteed: 1}, y: {<<: *x}}\n"
    tree = read_quotas(written(tmp_path, text))
    assert tree.unused == ("grace_period_s",)
    assert {quota.node: quota.guaranteed_mgpu for quota in tree.quotas} == {"x": 1_000, "y": 1_000}


def test_a_policy_has_its_defaults_for_what_is_not_named(tmp_path: Path) -> None:
    path = written(tmp_path, "grace_period_s: 30\nskips_blocked_within_team: false\n")
    rules = read_policy(path)
    assert rules.policy == Policy(grace_period_s_default=30, skips_blocked_within_team=False)
    assert rules.rank is None
    assert read_policy(None) == PolicyFile()
    assert read_policy(written(tmp_path, "# none\n")).policy == Policy()


@pytest.mark.parametrize(
    ("text", "grace_s"),
    [
        ("grace_period_s_max: 120", 120),
        ("grace_period_s_max: 900", 300),
        ("grace_period_s: 7200", 3_600),
        ("grace_period_s: 600\ngrace_period_s_max: 900", 600),
        # Planted: the organization's alone.
        ("grace_period_s: 600\ngrace_period_s_max: 120", 120),
    ],
)
def test_a_grace_is_bounded_as_in_the_portal(tmp_path: Path, text: str, grace_s: int) -> None:
    policy = read_policy(written(tmp_path, text)).policy
    assert policy == Policy(grace_period_s_default=grace_s)


OF_THE_PORTAL = """
organization: ai-company
rank:
- ai-company/production
- research/vision
grace_period_s: 120
fair_share_half_life_s: 86400
spare_order: fair_share
min_run_s: 60
preemptions_max: 5
skips_blocked_within_team: false
time_zone: Europe/Berlin
version: 7
"""


def test_a_policy_as_the_portal_prints_it_is_read_with_its_rank(tmp_path: Path) -> None:
    rules = read_policy(written(tmp_path, OF_THE_PORTAL))
    assert rules.policy == Policy(
        grace_period_s_default=120,
        fair_share_half_life_s=86_400,
        spare_order=SpareOrder.FAIR_SHARE,
        min_run_s=60,
        preemptions_max=5,
        skips_blocked_within_team=False,
    )
    tree = read_quotas(
        written(
            tmp_path,
            "organization: AI Company\npolicy: {rank: [AI Company/research]}\n"
            "departments: {research: {teams: {nlp: {}, vision: {}}}, production: {}}",
            "q.yaml",
        )
    )
    assert {node.id: node.rank for node in tree.nodes if node.rank} == {"research": 1}
    # Planted: the ranks of the quotas' file stay beside those of the policy.
    assert {node.id: node.rank for node in rules.ranked(tree).nodes if node.rank} == {
        "production": 2,
        "research/vision": 1,
    }
    assert read_policy(None).ranked(tree) == tree


def test_a_rank_that_the_quotas_do_not_know_is_refused(tmp_path: Path) -> None:
    rules = read_policy(written(tmp_path, "rank: [nobody]", "p.yaml"))
    tree = read_quotas(written(tmp_path, "teams: {x: {}}", "q.yaml"))
    words = "p.yaml: rank: 'nobody' is no department or team of the quotas; write it as it stands"
    with pytest.raises(TraceError, match=words):
        rules.ranked(tree)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        # Planted: refused nowhere, and without any effect.
        ("rank: [b, a]", "rank: 'a' is at the top of the quotas and so an organization; no rank"),
        ("rank: [x, x]", "rank: 'x' is there twice; name it once"),
        ("rank: a", "rank is a list of names"),
    ],
)
def test_a_rank_without_effect_is_refused(tmp_path: Path, policy: str, words: str) -> None:
    tree = read_quotas(written(tmp_path, "team,quota_gpus\na/y,1\na/x,1\nb/x,1\n", "q.csv"))
    with pytest.raises(TraceError, match=words):
        read_policy(written(tmp_path, policy)).ranked(tree)


def test_a_path_that_begins_like_the_organization_is_taken_as_it_stands(tmp_path: Path) -> None:
    """Planted: the organization's name is taken off every path."""
    tree = read_quotas(
        written(
            tmp_path,
            "organization: o\ndepartments: {prod: {teams: {v: {}}}, lab: {teams: {v: {}}}}",
            "q.yaml",
        )
    )
    rules = read_policy(written(tmp_path, "organization: prod\nrank: [prod/v, o/lab]"))
    assert {one.id: one.rank for one in rules.ranked(tree).nodes if one.rank} == {
        "prod/v": 2,
        "lab": 1,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("grace: 1", "the policy has no 'grace'; it has claim_overdue_s, "),
        # Planted: the arbiter's own name, which stands nowhere in the portal.
        ("grace_period_s_default: 1", "the policy has no 'grace_period_s_default'; it has "),
        ("starts_max: many", "starts_max cannot be 'many'"),
        ("starts_max: true", "starts_max cannot be True"),
        (
            "spare_order: best",
            "spare_order cannot be 'best': write credits_then_fair_share or fair_share_then_credits"
            " or fair_share",
        ),
        # Planted: none a cycle, which the portal refuses; then no job ever starts.
        ("starts_max: 0", "policy starts_max is 0; choose 1 to 1000000"),
        ("reclaims_max: 0", "policy reclaims_max is 0; choose 1 to 1000000"),
        ("min_run_s: -1", "policy min_run_s is -1; choose 0 to"),
        ("- 1", "the policy must be a mapping"),
        ("organization: [1]", "organization is a list; write its name"),
        ("starts_max: &a [1, 2]\nmin_run_s: *a", "starts_max cannot be a list: write"),
        (f"{'x' * 90}: 1", "the policy has no 'x{39}...; it has "),
        # Planted: what Python says of these, without the file.
        ("min_run_s: 2020-13-45", ": a number or a date in it is none; mend it"),
        (f"min_run_s: {'9' * 5_000}", ": a number or a date in it is none; mend it"),
        ("[" * 3_000, ": it is nested too deep"),
    ],
)
def test_a_bad_policy_file_says_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read_policy(written(tmp_path, text))


@pytest.mark.parametrize("name", ["quotas.csv", "quotas.yaml", "policy.yaml"])
def test_a_file_that_is_no_text_is_refused_with_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xff\xfe")
    read = read_policy if name == "policy.yaml" else read_quotas
    with pytest.raises(TraceError, match=f"{name}: it is no text in UTF-8$"):
        read(path)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="cycle_s is 0; choose 1 to 86400"):
        Settings(cycle_s=0)
