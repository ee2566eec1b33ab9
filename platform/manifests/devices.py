"""Which resources and device classes are GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Extended resources and device classes of GPUs, by the words in their names.
_GPU = re.compile(r"(?:gpu|mig-|gaudi|i915|/xe$|neuron|/tpu$|^mig\.|npu)", re.IGNORECASE)
#: Parts of a GPU that other resources of the same Pod count beside it.
_PART = re.compile(r"gpu-?(?:mem|memory|cores?|percentage|monitoring)", re.IGNORECASE)

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of one Pod: `units` of the extended resource `name`.

    With `is_claim` the name is a device class, and the Pod claims them as devices.
    """

    name: str
    units: int
    is_claim: bool = False


def is_gpu(name: str) -> bool:
    """Return whether a resource or device class of this name stands for GPUs."""
    return _GPU.search(name) is not None and _PART.search(name) is None


def is_of_gpus(name: str) -> bool:
    """Return whether the name is that of GPUs, or of a part of them such as their memory."""
    return _GPU.search(name) is not None


def is_native(name: str) -> bool:
    """Return whether it is a resource of every node. All others belong to devices.

    A device class also stands behind `deviceclass.resource.kubernetes.io/CLASS`.
    """
    return name in _NATIVE or name.startswith("hugepages-")
