"""CronJobs: the Job of each run, as a text that is read back as the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.cron_jobs import read_cron_job
from manifests.documents import Document, Unreadable, read_documents
from manifests.findings import Verdict
from manifests.reading import read_manifest
from manifests.writing import written

RECORDINGS = Path(__file__).parents[2] / "recordings" / "manifests"
#: Texts that YAML takes for something else where they have no quotes.
ODD = ["yes", "1e3", "0o17", "0x1F", "null", "~", "", "2026-11-29", "<<", "=", "a: b", "- x", "# x"]
#: White space at the ends, several lines, and characters that YAML escapes.
MORE = [" x ", "a\nb\n", "a\n\n  b", "\n", "tab\there", "é \u2028 \x85 😀", "a" * 300, "x: |\n  y"]

texts = st.one_of(st.sampled_from([*ODD, *MORE]), st.text(max_size=20))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), texts)
names = st.text("abcdefghij.-/", min_size=1, max_size=10)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner))
)


@given(value=st.dictionaries(names, values, min_size=1, max_size=4))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    """Planted: quotes only where YAML 1.1 needs them, which leaves 1e3 without."""
    (found,) = read_documents(written([Document(1, value, {})]))
    assert found.value == value


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_recorded_manifests_are_read_back(path: Path) -> None:
    documents = read_documents(path.read_text())
    again = read_documents(written(documents))
    assert [one.value for one in again] == [one.value for one in documents]


def test_aliases_are_counted_before_they_are_written() -> None:
    """Against: only the written text was counted, which took minutes."""
    large = "x" * 200_000
    (document,) = read_documents(f"a: &a {large}\nb: [{', '.join(['*a'] * 500)}]\n")
    with pytest.raises(Unreadable) as refusal:
        written([document])
    assert refusal.value.detail == (
        "has more than 262,144 bytes with its aliases; give one job a file"
    )


def test_the_run_of_a_cron_job_is_its_template() -> None:
    found = read_cron_job((RECORDINGS / "cronjob.yaml").read_text())
    assert found is not None
    assert (found.schedule, found.time_zone, found.concurrency_policy) == ("0 2 * * *", None, None)
    assert (found.starting_deadline_s, found.is_suspended, found.refusals) == (None, False, ())
    run = read_manifest(found.text)
    assert run.is_accepted
    assert run.job is not None
    assert run.job.label == "Job nightly"
    (note,) = found.findings
    assert (note.line, note.verdict) == (10, Verdict.IGNORED)


def test_objects_beside_a_cron_job_stay() -> None:
    """Against: the CronJob's document alone."""
    beside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n"
    text = f"{beside}---\n{(RECORDINGS / 'cronjob.yaml').read_text()}"
    found = read_cron_job(text)
    assert found is not None
    run = read_manifest(found.text)
    assert run.is_accepted
    assert [one.value["metadata"]["name"] for one in run.other_objects] == ["settings"]


def test_two_cron_jobs_are_refused() -> None:
    text = (RECORDINGS / "cronjob.yaml").read_text()
    found = read_cron_job(f"{text}---\n{text}")
    assert found is not None
    assert any("has 2 jobs" in one.detail for one in found.refusals)


@pytest.mark.parametrize("name", ["job", "pod", "deployment"])
def test_other_texts_are_no_cron_job(name: str) -> None:
    assert read_cron_job((RECORDINGS / f"{name}.yaml").read_text()) is None
    assert read_cron_job("a: [") is None
