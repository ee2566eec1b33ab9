"""A policy that the portal prints is a policy file of the simulator."""

from __future__ import annotations

from pathlib import Path

import yaml

from arbiter.api.policy import Policy, SpareOrder
from quotas.models import InstallationPolicy, OrganizationPolicy
from simulator.policy_file import read_policy


def test_everything_that_the_portal_prints_counts(tmp_path: Path) -> None:
    """Planted: `costly_loss_s` is no name of a policy file; it is read over."""
    printed = {
        name: field.get_default()
        for model in (InstallationPolicy, OrganizationPolicy)
        for field in model._meta.concrete_fields
        if (name := field.name) not in ("id", "organization", "rank", "time_zone", "version")
    }
    others = {name: value + 1 for name, value in printed.items() if type(value) is int}
    others |= {"skips_blocked_within_team": False, "spare_order": "fair_share"}
    assert others.keys() == printed.keys()
    expected = {name: value for name, value in others.items() if not name.startswith("grace_")}
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(others))
    assert read_policy(file).policy == Policy(
        **expected | {"spare_order": SpareOrder.FAIR_SHARE, "grace_period_s_default": 301}
    )
