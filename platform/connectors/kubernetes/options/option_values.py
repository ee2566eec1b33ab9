"""Checks of option values.

Every function raises ValueError with a sentence that names the option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from connectors.options import checked, constants

GPU_RESOURCE = "nvidia.com/gpu"
LIST_MAX = 100

_TOLERATION_KNOWN = frozenset({"key", "operator", "value", "effect"})
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_LABEL_TEXT = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DNS_LABEL_TEXT = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN_TEXT = rf"{_DNS_LABEL_TEXT}(?:\.{_DNS_LABEL_TEXT})*"
_LABEL_KEY = re.compile(rf"(?:{_DOMAIN_TEXT}/)?{_LABEL_TEXT}", re.ASCII)
LABEL_VALUE = re.compile(rf"(?:{_LABEL_TEXT})?", re.ASCII)
LABEL_NAME = re.compile(_LABEL_TEXT, re.ASCII)
_RESOURCE = re.compile(rf"{_DOMAIN_TEXT}/{_LABEL_TEXT}", re.ASCII)
#: The name of most kinds of object (a DNS subdomain).
_NAME = re.compile(_DOMAIN_TEXT, re.ASCII)
_NAME_MAX = 253
_PREFIX_MAX = 253
_QUEUE = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?", re.ASCII)
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9A-Za-z]{1,16}){1,3}", re.ASCII)
_ACCOUNT = re.compile(rf"system:serviceaccount:{_DNS_LABEL_TEXT}:{_DOMAIN_TEXT}", re.ASCII)
_ADDRESS = re.compile(r"https?://(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?", re.ASCII)
_PATH_TEXT = re.compile(r"/[A-Za-z0-9._/@+-]{0,500}", re.ASCII)


def address(option: str, value: object) -> str:
    """Return the checked address of a server, without a path."""
    if not isinstance(value, str) or not matches(_ADDRESS, value):
        raise ValueError(f"option {option} must look like https://host or http://host:8000")
    return value


def node_selector(option: str, value: object) -> Mapping[str, str]:
    """Return checked labels of nodes."""
    if not isinstance(value, Mapping) or len(value) > 16:
        raise ValueError(f"option {option} must be like {{label: value}}, of at most 16 labels")
    for key, label in value.items():
        if not is_label_key(key) or not matches(LABEL_VALUE, label):
            raise ValueError(f"option {option} has {key!r}: {label!r}, which is no label of nodes")
    return dict(value)


def toleration(option: str, value: object) -> Mapping[str, str]:
    """Return a checked toleration of Pods."""
    if not isinstance(value, Mapping) or not value or set(value) - _TOLERATION_KNOWN:
        raise ValueError(f"option {option} is a list of {{key, operator, value, effect}}")
    key, operator = value.get("key"), value.get("operator", "Equal")
    if operator not in ("Equal", "Exists") or (operator == "Exists" and "value" in value):
        raise ValueError(f'the operator in option {option} is "Equal", or "Exists" without a value')
    if not is_label_key(key):
        raise ValueError(f"option {option} has {key!r}, which is no key of a taint")
    if not matches(LABEL_VALUE, value.get("value", "")):
        raise ValueError(f"option {option} has {value['value']!r}, which is no value of a taint")
    if "effect" in value and value["effect"] not in _EFFECTS:
        raise ValueError(f"the effect in option {option} is one of {', '.join(sorted(_EFFECTS))}")
    return dict(value)


def resource(option: str, value: object) -> str:
    """Return the checked name of an extended resource."""
    if value == "cpu":
        raise ValueError(
            f'option {option} is of GPUs; a pool of CPU cores has "device": "cpu" in its place'
        )
    if not isinstance(value, str) or not matches(_RESOURCE, value):
        raise ValueError(f'option {option} must be an extended resource, like "{GPU_RESOURCE}"')
    domain = value.partition("/")[0]
    if (
        domain == "kubernetes.io"
        or domain.endswith(".kubernetes.io")
        or value.startswith("requests.")
    ):
        raise ValueError(f"option {option} must not be of kubernetes.io: those are no GPUs")
    return value


def object_name(option: str, value: object) -> str:
    """Return the checked name of an object of most kinds."""
    if not isinstance(value, str) or len(value) > _NAME_MAX or not matches(_NAME, value):
        raise ValueError(f"option {option} must be lower case letters, digits, '-' and '.'")
    return value


def account(option: str, value: object) -> str:
    """Return a checked service account, in Kubernetes' form."""
    if not isinstance(value, str) or not matches(_ACCOUNT, value):
        raise ValueError(
            f"option {option} must be a list of accounts, like "
            '"system:serviceaccount:NAMESPACE:NAME"'
        )
    return value


def queue(option: str, value: object) -> str:
    """Return the checked name of a queue of any scheduler."""
    if not isinstance(value, str) or not matches(_QUEUE, value):
        raise ValueError(f"option {option} must be lower case letters, digits, '-', '_' and '.'")
    return value


def version(option: str, value: object) -> str:
    """Return a checked version."""
    if not isinstance(value, str) or not matches(_VERSION, value):
        raise ValueError(f'option {option} must be a version, like "2.40.0"')
    return value


def label_key(option: str, value: object) -> str:
    """Return the checked key of a label."""
    if not isinstance(value, str) or not is_label_key(value):
        raise ValueError(f"option {option} must be the key of a label of nodes")
    return value


def is_label_key(value: object) -> bool:
    """Return whether it can be the key of a label."""
    return (
        isinstance(value, str)
        and matches(_LABEL_KEY, value)
        and len(value.rpartition("/")[0]) <= _PREFIX_MAX
    )


def path(option: str, value: object) -> str:
    """Return a checked absolute path."""
    if not isinstance(value, str) or not matches(_PATH_TEXT, value) or ".." in value.split("/"):
        raise ValueError(f"option {option} must be an absolute path without spaces and '..'")
    return os.path.normpath(value)


def matches(pattern: re.Pattern[str], value: object) -> bool:
    """Return whether it is a text that `pattern` matches completely."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


#: The type of a toleration, as forms show it.
TOLERATION = checked(
    toleration,
    {
        "title": "Toleration",
        "type": "object",
        "required": ["key"],
        "properties": {
            "key": {"title": "Key", "type": "string", "examples": ["nvidia.com/gpu"]},
            "operator": {
                "title": "Operator",
                "oneOf": constants((one, one) for one in ("Equal", "Exists")),
                "default": "Equal",
            },
            "value": {"title": "Value", "type": "string", "x-when": {"operator": ["Equal"]}},
            "effect": {
                "title": "Effect",
                "oneOf": constants(((None, "Any"), *((one, one) for one in _EFFECTS))),
                "default": None,
            },
        },
        "additionalProperties": False,
    },
)
