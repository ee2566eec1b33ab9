"""YAML and JSON as Kubernetes reads them, within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import documents
from manifests.documents import (
    DEPTH_MAX,
    DOCUMENTS_MAX,
    TEXT_BYTES_MAX,
    VALUES_MAX,
    Document,
    Unreadable,
    read_documents,
)
from manifests.reading import read_manifest


def values(text: str) -> list[Any]:
    return [document.value for document in read_documents(text)]


def test_documents_have_numbers_and_lines() -> None:
    first, second = read_documents("a: 1\n---\n---\nb:\n  c: [x, y]\n")
    assert (first.number, first.value) == (1, {"a": 1})
    assert (second.number, second.value) == (3, {"b": {"c": ["x", "y"]}})
    assert second.line_of(("b", "c")) == 5
    assert second.line_of(("b", "missing")) == 4


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2024-01-31", "2024-01-31"),
        ("1:30", "1:30"),
        ("0x10", 16),
        ("0755", 493),
        ("089", "089"),
        ("1e3", 1000.0),
        ("yes", True),
        ("~", None),
        ("'yes'", "yes"),
        ("!!str 5", "5"),
    ],
)
def test_scalars_are_those_of_kubernetes(written: str, value: Any) -> None:
    """Against: dates and sexagesimal numbers of YAML 1.1, which Kubernetes does not know."""
    assert values(f"a: {written}") == [{"a": value}]


def test_anchors_and_merges() -> None:
    text = "base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\n"
    assert values(text) == [{"base": {"x": 1, "y": 2}, "use": {"x": 1, "y": 3}}]


def test_a_list_has_its_items() -> None:
    text = "kind: List\nitems:\n- kind: Job\n- kind: Pod\n"
    found = read_documents(text)
    assert [one.value for one in found] == [{"kind": "Job"}, {"kind": "Pod"}]
    assert found[1].line_of(("kind",)) == 4


class CountedLines(dict[Any, int]):
    """Lines of fields that count how often all of them are read."""

    reads = 0

    def items(self) -> Any:
        CountedLines.reads += 1
        return super().items()


@pytest.mark.parametrize(("items", "made", "reads"), [(DOCUMENTS_MAX, 51, 1), (5_000, 1, 0)])
def test_the_items_of_a_list_take_one_pass(
    items: int, made: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: all lines read for each item, and the limit checked after all items were made."""
    documents_made = []

    def a_document(number: int, value: Any, lines: Any) -> Document:
        documents_made.append(number)
        return Document(number, value, CountedLines(lines))

    monkeypatch.setattr(documents, "Document", a_document)
    monkeypatch.setattr(CountedLines, "reads", 0)
    text = "kind: List\nitems:\n" + "- 1\n" * items
    if items > DOCUMENTS_MAX:
        with pytest.raises(Unreadable, match=f"has more than {DOCUMENTS_MAX} documents"):
            read_documents(text)
    else:
        assert [one.line_of(()) for one in read_documents(text)] == list(range(3, items + 3))
    assert (len(documents_made), CountedLines.reads) == (made, reads)


def test_json_with_tabs() -> None:
    assert values('{\n\t"kind": "Job"\n}') == [{"kind": "Job"}]


_BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "detail"),
    [
        (_BOMB, 5, f"has more than {VALUES_MAX:,} values, aliases counted"),
        ("[" * 200, 1, f"is nested more than {DEPTH_MAX} levels deep"),
        ('{"a":' + "[" * 100 + "]" * 100 + "}", 0, f"is nested more than {DEPTH_MAX} levels deep"),
        ('{"a":' + "[" * 100_000, 0, "is no JSON that can be read"),
        ("a: &a\n  b: *a\n", 2, "the alias *a has no value before it"),
        ("a: 1\nb: 2\na: 3\n", 3, "gives the field 'a' twice"),
        ('{"a": 1, "a": 2}', 0, "gives a field twice"),
        ("a: !!python/name:os.system\n", 1, "has the tag 'tag:yaml.org,2002:python/name:os.sys"),
        ("a: [1, 2\nb: 3\n", 2, "is no YAML: "),
        ('{"a": NaN}', 0, "has the value NaN, which is no JSON"),
        ('{"a": "\\ud800"}', 0, "is no JSON that can be read"),
        ("a: 1\n---\n" * (DOCUMENTS_MAX + 1), 0, f"has more than {DOCUMENTS_MAX} documents"),
        ("#" * (TEXT_BYTES_MAX + 1), 0, f"has {TEXT_BYTES_MAX + 1:,} bytes"),
        ("? [a]\n: 1\n", 1, "has a field whose name is no text"),
    ],
)
def test_what_is_beyond_the_bounds_is_refused(text: str, line: int, detail: str) -> None:
    """Planted: aliases that count as one value each; the bomb has 9 ** 9."""
    with pytest.raises(Unreadable) as refused:
        read_documents(text)
    assert refused.value.detail.startswith(detail)
    assert refused.value.line == line


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["8", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("spec", "template", "containers", "metadata", "labels", "parallelism"),
                    *("replicatedJobs", "resources", "limits", "nvidia.com/gpu", "replicas"),
                    *("initContainers", "resourceClaims", "securityContext", "volumes"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    _VALUES,
    st.sampled_from(
        [
            ("batch/v1", "Job"),
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            ("v1", "Pod"),
            ("ray.io/v1", "RayJob"),
            ("kubeflow.org/v1", "PyTorchJob"),
            ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
            ("resource.k8s.io/v1", "ResourceClaimTemplate"),
        ]
    ),
)
def test_nothing_raises_whatever_the_fields_are(spec: Any, kind: tuple[str, str]) -> None:
    """Planted: a container whose `resources` is a text."""
    text = json.dumps({"apiVersion": kind[0], "kind": kind[1], "metadata": {}, "spec": spec})
    found = read_manifest(text)
    assert found.refusals or found.is_accepted


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert read_manifest(text).refusals
