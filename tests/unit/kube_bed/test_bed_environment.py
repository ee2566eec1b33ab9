"""Variables, arguments and quantities are what Kubernetes makes of them."""

from typing import Any

import pytest

from kubebed.runner.environment import (
    CannotConfigure,
    command,
    environment,
    expand,
    field,
    quantity,
    quoted,
    resource,
)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        # The table of expand_test.go in k8s.io/kubernetes.
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_C)", "C"),
        ("$(VAR_A)-$(VAR_A)", "A-A"),
        ("$(VAR_A)-1", "A-1"),
        ("$(VAR_A)_$(VAR_B)_$(VAR_C)", "A_B_C"),
        ("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"),
        ("$$(VAR_A)_$$(VAR_B)", "$(VAR_A)_$(VAR_B)"),
        ("f000-$$VAR_A", "f000-$VAR_A"),
        ("foo\\$(VAR_C)bar", "foo\\Cbar"),
        ("foo\\\\$(VAR_C)bar", "foo\\\\Cbar"),
        ("foo$(VAR_UNDEF)bar", "foo$(VAR_UNDEF)bar"),
        ("$(VAR_REF)", "$(VAR_A)"),
        ("$?-$(VAR_A$(DOLLAR)", "$?-$(VAR_A$(DOLLAR)"),
        ("$VAR_A)", "$VAR_A)"),
        ("${VAR_A}", "${VAR_A}"),
        ("$$$$$$$(VAR_A)", "$$$A"),
        ("$$$$$$(VAR_A)", "$$$(VAR_A)"),
        ("foo$", "foo$"),
        ("$(VAR_A", "$(VAR_A"),
        ("$(VAR_EMPTY)", ""),
        ("$()", "$()"),
        ("", ""),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    """Given a text with references, the known become values, `$$` becomes `$`, all else stays."""
    values = {
        "VAR_A": "A",
        "VAR_B": "B",
        "VAR_C": "C",
        "VAR_REF": "$(VAR_A)",
        "VAR_EMPTY": "",
    }
    assert expand(text, values) == expanded


def a_pod() -> dict[str, Any]:
    """A Pod with all that a fieldRef may name."""
    return {
        "metadata": {
            "name": "n",
            "namespace": "s",
            "uid": "u",
            "labels": {"b/c": "2", "a": '1"\n'},
            "annotations": {"it's": "x"},
        },
        "spec": {"nodeName": "h100-001", "serviceAccountName": "sa"},
        "status": {"podIP": "127.64.0.1", "hostIP": "127.0.0.1"},
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "n"),
        ("metadata.namespace", "s"),
        ("metadata.uid", "u"),
        ("metadata.labels['b/c']", "2"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['it's']", "x"),
        ("metadata.labels", 'a="1\\"\\n"\nb/c="2"'),
        ("spec.nodeName", "h100-001"),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "127.64.0.1"),
        ("status.hostIPs", "127.0.0.1"),
    ],
)
def test_a_field_reference_names_what_it_may(path: str, value: str) -> None:
    """Given each field that a Pod may be asked for, its value is the Pod's."""
    assert field(a_pod(), path) == value


def test_a_field_reference_may_not_name_anything_else() -> None:
    """Given another field, the container cannot be made."""
    with pytest.raises(CannotConfigure, match=r"unsupported fieldPath: spec\.containers"):
        field(a_pod(), "spec.containers")


def test_later_variables_see_earlier_ones() -> None:
    """Given sources of every kind, the order is envFrom, then env; references look back only."""
    objects = {("configmaps", "c"): {"A": "1", "B": "2"}, ("secrets", "s"): {"key": "hush"}}
    container = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
        "env": [
            {"name": "FORWARD", "value": "$(LATER)"},
            {"name": "LATER", "value": "$(P_A)$(BASE)"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
            {
                "name": "OPTIONAL",
                "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k", "optional": True}},
            },
        ],
        "command": ["run", "$(LATER)"],
        "args": ["$(SECRET)", "$(OPTIONAL)"],
    }
    values = environment(
        a_pod(), container, {"BASE": "b"}, lambda kind, name: objects.get((kind, name))
    )

    assert values == {
        "BASE": "b",
        "P_A": "1",
        "P_B": "2",
        "FORWARD": "$(LATER)",
        "LATER": "1b",
        "SECRET": "hush",
    }
    assert command(container, values) == ("run", "1b", "hush", "$(OPTIONAL)")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"configMapKeyRef": {"name": "x", "key": "k"}}, 'configmap "x" not found'),
        ({"secretKeyRef": {"name": "x", "key": "k"}}, 'secret "x" not found'),
        (
            {"configMapKeyRef": {"name": "c", "key": "k"}},
            "couldn't find key k in ConfigMap s/c",
        ),
    ],
)
def test_what_is_missing_is_said(source: dict[str, Any], said: str) -> None:
    """Given a reference to nothing, the text is a kubelet's."""
    container = {"env": [{"name": "A", "valueFrom": source}]}
    with pytest.raises(CannotConfigure) as refusal:
        environment(a_pod(), container, {}, lambda kind, name: {} if name == "c" else None)
    assert str(refusal.value) == said


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.memory", "divisor": "1Mi"}, "1431"),
        ({"resource": "requests.cpu"}, "0"),
    ],
)
def test_a_resource_reference_is_rounded_up(reference: dict[str, str], value: str) -> None:
    """Given a divisor, the value is the number of whole units that hold it."""
    amounts = {"limits": {"cpu": "1500m"}, "requests": {"memory": "1500M"}}
    assert resource({"resources": amounts}, reference) == value


def test_a_quantity_without_sense_is_refused() -> None:
    """Given an unknown unit, there is no number."""
    with pytest.raises(CannotConfigure, match="not a quantity: 3 apples"):
        quantity("3 apples")


@pytest.mark.parametrize(
    ("text", "written"),
    [("a b", '"a b"'), ('"\\', '"\\"\\\\"'), ("\x01\t", '"\\x01\\t"'), ("é\u2028", '"é\\u2028"')],
)
def test_values_are_quoted_as_go_does(text: str, written: str) -> None:
    """Given text, it is as %q writes it."""
    assert quoted(text) == written
