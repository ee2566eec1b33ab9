"""References of container images: their grammar, and the allowed registries.

The grammar is that of the distribution project (`reference/regexp.go` of
github.com/distribution/reference). So is its rule for names without a registry: the first part of a
name is a registry if it contains a "." or a ":", or is "localhost". Otherwise the image is on
docker.io, where a name without "/" stands for "library/NAME".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NAME_CHARACTERS_MAX = 255
DEFAULT_REGISTRY = "docker.io"
#: The path on the default registry for names of one part.
_OFFICIAL = "library"
#: Another name of the same registry.
_LEGACY_DEFAULT = "index.docker.io"

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_REGISTRY = re.compile(_HOST, re.ASCII)
_REPOSITORY = re.compile(_PATH, re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
#: Digests that container runtimes accept, with the length of each algorithm.
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image: `registry` is a host with its port, `path` the complete name of the repository."""

    registry: str
    path: str
    tag: str | None
    digest: str | None

    @property
    def repository(self) -> str:
        """The full name without tag and digest, like "docker.io/library/busybox"."""
        return f"{self.registry}/{self.path}"


def parse_image(text: str) -> ImageReference:
    """Return the image that `text` names. Raises ValueError, saying what is wrong."""
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError(
            f"{text[:200]!r} has no proper digest: after '@' goes sha256: with 64 hexadecimal "
            "digits in lower case"
        )
    # A ":" after the last "/" begins the tag; one before it begins the registry's port.
    tag: str | None = None
    slash, colon = rest.rfind("/"), rest.rfind(":")
    if colon > slash:
        rest, tag = rest[:colon], rest[colon + 1 :]
        if not _TAG.fullmatch(tag):
            raise ValueError(
                f"{text[:200]!r} has no proper tag: use at most 128 letters, digits, '_', '.', '-'"
            )
    registry, path = _split(rest)
    if not _REGISTRY.fullmatch(registry) or not _REPOSITORY.fullmatch(path):
        raise ValueError(
            f"{text[:200]!r} is no container image: write registry/path:tag or "
            "registry/path@sha256:digest, like docker.io/pytorch/pytorch:2.4.0; the path is in "
            "lower case"
        )
    if len(registry) + 1 + len(path) > NAME_CHARACTERS_MAX:
        raise ValueError(f"the name of an image has at most {NAME_CHARACTERS_MAX} characters")
    return ImageReference(registry, path, tag, digest if at else None)


def plain_image(text: str) -> str:
    """Return an image name in Kubernetes' form, from the form of other runtimes.

    "docker://nvcr.io#nvidia/pytorch:24.05-py3" becomes "nvcr.io/nvidia/pytorch:24.05-py3".
    """
    name = text.removeprefix("docker://")
    registry, mark, rest = name.partition("#")
    return f"{registry}/{rest}" if mark and _is_registry(registry) else name


def parse_allowed(text: str) -> str:
    """Return the canonical form of an entry in a list of allowed registries.

    An entry is a registry, like "registry.example.com:5000", or a registry with the beginning of a
    path, like "docker.io/pytorch". Raises ValueError for other texts.
    """
    registry, _, path = text.partition("/")
    if not _REGISTRY.fullmatch(registry) or (path and not _REPOSITORY.fullmatch(path)):
        raise ValueError(
            f"{text[:200]!r} is no registry: write its host, like registry.example.com:5000, or "
            "host/path, without a tag"
        )
    if not _is_registry(registry):
        raise ValueError(
            f"{text[:200]!r} does not begin with the host of a registry: write docker.io/"
            f"{text[:200]} for that name on Docker Hub"
        )
    if text.endswith("/"):
        raise ValueError(f"{text[:200]!r} ends with '/'; leave that out")
    registry = _canonical(registry)
    return f"{registry}/{path}" if path else registry


def is_allowed(image: ImageReference, allowed: Sequence[str]) -> bool:
    """Return whether `allowed` (see `parse_allowed`) has the registry or a path of `image`."""
    name = image.repository
    return any(name == entry or name.startswith(f"{entry}/") for entry in allowed)


def _split(name: str) -> tuple[str, str]:
    registry, slash, path = name.partition("/")
    if not slash or not _is_registry(registry):
        registry, path = DEFAULT_REGISTRY, name
    registry = _canonical(registry)
    if registry == DEFAULT_REGISTRY and path and "/" not in path:
        path = f"{_OFFICIAL}/{path}"
    return registry, path


def _is_registry(part: str) -> bool:
    return "." in part or ":" in part or part == "localhost" or part != part.lower()


def _canonical(registry: str) -> str:
    registry = registry.lower()
    return DEFAULT_REGISTRY if registry == _LEGACY_DEFAULT else registry
