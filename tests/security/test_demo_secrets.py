"""Passwords and tokens of the demo stand in no log file of a running installation."""

from __future__ import annotations

import json
from pathlib import Path

from embedded import startup
from embedded.layout import Layout
from embedded.personas import introduction

SECRETS = ("abcde-fghjk-mnpqr-stuvw", "tdg_" + "a" * 36)


def test_a_supervisor_in_the_background_introduces_nobody(tmp_path: Path) -> None:
    """Its output is `var/log/supervisor.log`. Planted bug: with the table of people printed where
    standard output is no terminal, both secrets are found."""
    layout = Layout(tmp_path)
    layout.prepare()
    person = dict(zip(("persona", "login", "password", "token"), ("a", "b", *SECRETS), strict=True))
    layout.demo_file.write_text(json.dumps({"personas": [person]}))

    assert not startup.is_terminal()
    shown = "\n".join(introduction(layout, port=8000, with_secrets=startup.is_terminal()))

    assert str(layout.demo_file) in shown
    assert not any(secret in shown for secret in SECRETS)
