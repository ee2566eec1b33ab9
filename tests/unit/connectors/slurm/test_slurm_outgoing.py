"""What may go out to a cluster, and in which words of each version."""

from typing import Any

import pytest

from builders.slurm_rest_builders import a_submission
from connectors.errors import NotOffered, WorkloadRejected
from connectors.slurm import outgoing
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Account, Association, Qos, User

NEW = [version for version in DIALECTS if version != "v0.0.38"]
FULL = {
    "cpus_per_task": 8,
    "memory_mb_per_node": 64_000,
    "time_limit_minutes": 30,
    "constraint": "ib&h100",
    "excluded_nodes": ("n1", "n2"),
}


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def test_the_versions_are_tried_newest_first() -> None:
    assert list(DIALECTS) == [
        *("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40", "v0.0.38")
    ]


def test_a_submission_in_v38() -> None:
    """`no_requeue` and a plain number of nodes: `requeue: false` is taken for true, and the
    documented [3, 3] for one node."""
    assert DIALECTS["v0.0.38"].submission(a_submission(**FULL)) == {
        "job": {
            "name": "tg-1-0123456789ab",
            "comment": "tidegate",
            "account": "science",
            "partition": "h100",
            "qos": "g-science",
            "gres": "gpu:h100:2",
            "nodes": 3,
            "tasks": 3,
            "tasks_per_node": 1,
            "current_working_directory": "/home/ana",
            "standard_output": "/out/1.stdout",
            "standard_error": "/out/1.stderr",
            "environment": {"PATH": "/usr/bin:/bin", "A": "b"},
            "hold": True,
            "no_requeue": True,
            "cpus_per_task": 8,
            "memory_per_node": 64_000,
            "time_limit": 30,
            "constraints": "ib&h100",
            "exclude_nodes": "n1,n2",
        },
        "script": "#!/bin/bash\ntrue\n",
    }


@pytest.mark.parametrize("version", NEW)
def test_a_submission_in_the_newer_versions(version: str) -> None:
    assert DIALECTS[version].submission(a_submission(**FULL)) == {
        "job": {
            "name": "tg-1-0123456789ab",
            "comment": "tidegate",
            "account": "science",
            "partition": "h100",
            "qos": "g-science",
            "tres_per_node": "gres/gpu:h100:2",
            "nodes": "3",
            "tasks": 3,
            "tasks_per_node": 1,
            "current_working_directory": "/home/ana",
            "standard_output": "/out/1.stdout",
            "standard_error": "/out/1.stderr",
            "environment": ["PATH=/usr/bin:/bin", "A=b"],
            "hold": True,
            "requeue": False,
            "script": "#!/bin/bash\ntrue\n",
            "cpus_per_task": 8,
            "memory_per_node": number(64_000),
            "time_limit": number(30),
            "constraints": "ib&h100",
            "excluded_nodes": ["n1", "n2"],
        }
    }


@pytest.mark.parametrize("version", DIALECTS)
def test_what_a_submission_leaves_open_is_left_out(version: str) -> None:
    job = DIALECTS[version].submission(a_submission(hold=False))["job"]
    assert job["hold"] is False
    optional = {"cpus_per_task", "memory_per_node", "time_limit", "constraints"}
    assert not {*optional, "excluded_nodes", "exclude_nodes"} & set(job)


def test_nodes_are_drained_and_resumed_where_the_version_can() -> None:
    for version in NEW:
        dialect = DIALECTS[version]
        assert dialect.node_update(drain=True, reason="disk") == {
            "state": ["DRAIN"],
            "reason": "disk",
        }
        assert dialect.node_update(drain=False, reason="") == {"state": ["RESUME"]}
    with pytest.raises(NotOffered, match=r"v0\.0\.38 can not drain"):
        DIALECTS["v0.0.38"].node_update(drain=True, reason="disk")


@pytest.mark.parametrize("version", DIALECTS)
def test_an_accounts_association_has_no_user(version: str) -> None:
    """Mutant: "" for null, which stores the account without a parent and without its limits."""
    written = Association("nlp", "tide", parent_account="science", group_tres={"gres/gpu": 16})
    assert DIALECTS[version].association(written) == {
        "account": "nlp",
        "cluster": "tide",
        "user": None,
        "parent_account": "science",
        "max": {"tres": {"total": [{"type": "gres", "name": "gpu", "count": 16}]}},
    }


@pytest.mark.parametrize("version", DIALECTS)
def test_a_users_association(version: str) -> None:
    written = Association(
        "nlp",
        "tide",
        user="ana",
        qos=("g-nlp", "tg-borrow"),
        default_qos="g-nlp",
        is_default=True,
        shares=3,
        group_tres={"gres/gpu:h100": None, "cpu": 64},
    )
    default = {"flags": ["DEFAULT"]} if version == "v0.0.38" else {"is_default": True}
    assert DIALECTS[version].association(written) == {
        "account": "nlp",
        "cluster": "tide",
        "user": "ana",
        "qos": ["g-nlp", "tg-borrow"],
        "default": {"qos": "g-nlp"},
        "shares_raw": 3,
        "max": {
            "tres": {
                "total": [
                    {"type": "cpu", "name": "", "count": 64},
                    {"type": "gres", "name": "gpu:h100", "count": -1},
                ]
            }
        },
        **default,
    }


@pytest.mark.parametrize("version", DIALECTS)
def test_an_association_without_limits_carries_no_empty_list(version: str) -> None:
    """An empty one kills slurmrestd of v0.0.38."""
    assert "max" not in DIALECTS[version].association(Association("nlp", "tide", user="ana"))


@pytest.mark.parametrize("version", DIALECTS)
def test_a_qos_is_written_whole_and_its_old_limits_are_cleared(version: str) -> None:
    known = Qos("lent", group_tres={"gres/gpu": 8}, user_tres={"cpu": 4}, flags=("NO_DECAY",))
    wanted = Qos(
        "lent",
        priority=50,
        flags=("DENY_LIMIT",),
        preempts=("low",),
        preempt_mode=("CANCEL",),
        grace_s=30,
        user_tres={"gres/gpu": 2},
    )
    assert DIALECTS[version].qos(wanted, known=known) == {
        "name": "lent",
        "description": "lent",
        "priority": 50 if version == "v0.0.38" else number(50),
        "flags": ["DENY_LIMIT"],
        "limits": {
            "grace_time": 30,
            "max": {
                "tres": {
                    "total": [{"type": "gres", "name": "gpu", "count": -1}],
                    "per": {
                        "user": [
                            {"type": "cpu", "name": "", "count": -1},
                            {"type": "gres", "name": "gpu", "count": 2},
                        ]
                    },
                }
            },
        },
        "preempt": {"list": ["low"], "mode": ["CANCEL"]},
    }
    assert DIALECTS[version].qos(Qos("new"), known=None)["limits"] == {"grace_time": 0}


def test_what_a_qos_no_longer_preempts_is_taken_out() -> None:
    """v0.0.38 takes an empty list for no change."""
    known = Qos("high", preempts=("low",))
    for version, dialect in DIALECTS.items():
        none = [""] if version == "v0.0.38" else []
        assert dialect.qos(Qos("high"), known=known)["preempt"]["list"] == none
        assert dialect.qos(Qos("high"), known=Qos("high"))["preempt"]["list"] == []


def test_users_and_accounts_are_written_in_the_words_of_the_version() -> None:
    ana = User("ana", "nlp", "Operator")
    assert DIALECTS["v0.0.38"].user(ana)["administrator_level"] == "Operator"
    for version in NEW:
        assert DIALECTS[version].user(ana)["administrator_level"] == ["Operator"]
    for dialect in DIALECTS.values():
        assert dialect.user(User("ana")) == {"name": "ana"}
        assert dialect.account(Account("nlp", "NLP", "research")) == {
            "name": "nlp",
            "description": "NLP",
            "organization": "research",
        }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a\nb"}, "the name must be one line"),
        ({"name": "a\0b"}, "the name must be one line"),
        ({"comment": "a\rb"}, "the comment must be one line"),
        ({"account": "a b"}, "is no name for Slurm"),
        ({"account": "-a"}, "is no name for Slurm"),
        ({"partition": ""}, "is no name for Slurm"),
        ({"qos": "q\n"}, "is no name for Slurm"),
        ({"gres_type": "h100:8"}, "is no name for Slurm"),
        ({"gres_type": "h100,license:1"}, "is no name for Slurm"),
        ({"working_directory": "home"}, "absolute path"),
        ({"standard_output": "/o\n"}, "the standard_output must be one line"),
        ({"standard_error": "/" + "o" * 5_000}, "at most 4096 characters"),
        ({"constraint": "a\tb"}, "the constraint must be one line"),
        ({"gpus_per_node": 0}, "gpus_per_node must be at least 1"),
        ({"node_count": 0}, "node_count must be at least 1"),
        ({"tasks_per_node": 0}, "tasks_per_node must be at least 1"),
        ({"cpus_per_task": 0}, "cpus_per_task must be at least 1"),
        ({"memory_mb_per_node": 0}, "memory_mb_per_node must be at least 1"),
        ({"time_limit_minutes": 0}, "time_limit_minutes must be at least 1"),
        ({"script": "echo"}, 'start with "#!"'),
        ({"script": "#!/bin/sh\n\0"}, "the script must not hold a NUL"),
        ({"script": "#!" + "é" * 2_000_000}, "at most 3900000 bytes"),
        ({"script": "#!/bin/sh\n\ud800"}, "the script is no valid text"),
        ({"environment": {}}, "must not be empty"),
        ({"environment": {"A B": "c"}}, "no name for an environment variable"),
        ({"environment": {"A=": "c"}}, "no name for an environment variable"),
        ({"environment": {"A": "c\0"}}, "the variable A must not hold a NUL"),
        ({"environment": {"A": "c" * 1_000_001}}, "the environment must be at most"),
    ],
)
def test_what_slurm_can_not_carry_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WorkloadRejected, match=sentence):
        outgoing.check_submission(a_submission(**change))


def test_ordinary_text_goes_out() -> None:
    outgoing.check_submission(a_submission(comment="für Ana ✓", environment={"A": "two\nlines"}))


def test_only_signals_that_every_slurm_knows_go_out() -> None:
    """A name that it does not know cancels the job on v0.0.41 and later."""
    outgoing.check_signal("USR1")
    for signal in ("", "FOO", "SIGUSR1", "usr1", "10", "KILL\n", "9"):
        with pytest.raises(WorkloadRejected, match="none of the signals"):
            outgoing.check_signal(signal)


def test_names_in_associations_and_qos_are_checked() -> None:
    for association in (
        Association("a/b", "tide"),
        Association("a", ""),
        Association("a", "tide", user="x y"),
        Association("a", "tide", qos=("q,r",)),
    ):
        with pytest.raises(WorkloadRejected, match="no name for Slurm"):
            outgoing.check_association(association)
    for qos in (Qos("a/b"), Qos("q", preempts=("x y",))):
        with pytest.raises(WorkloadRejected, match="no name for Slurm"):
            outgoing.check_qos(qos)
