"""References of container images: their grammar, and which registries may be drawn from.

The grammar is the one of the distribution project (`reference/regexp.go` of
github.com/distribution/reference), with its rule for names without a registry: the first part of a
name is a registry when it holds a "." or a ":", or is "localhost"; otherwise the image is of
docker.io, where a name without "/" stands for "library/NAME".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NAME_CHARACTERS_MAX = 255
DEFAULT_REGISTRY = "docker.io"
#: A name of one part on the default registry is below this path there.
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
#: Digests that container runtimes take; of one algorithm only this length is right.
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image: `registry` is a host with its port, `path` has all of the repository's name."""

    registry: str
    path: str
    tag: str | None
    digest: str | None

    @property
    def repository(self) -> str:
        """The full name without tag and digest, like "docker.io/library/busybox"."""
        return f"{self.registry}/{self.path}"


def parse_image(text: str) -> ImageReference:
    """The image that `text` names. Raises ValueError, saying what is wrong, for what names none."""
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise ValueError(
            f"{text[:200]!r} has no proper digest: after '@' goes sha256: with 64 hexadecimal "
            "digits in lower case"
        )
    # A ":" behind the last "/" is the tag's; one before it is of the registry's port.
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
    """What a job names as other clusters' runtimes want it, as Kubernetes wants it:
    "docker://nvcr.io#nvidia/pytorch:24.05-py3" is "nvcr.io/nvidia/pytorch:24.05-py3"."""
    name = text.removeprefix("docker://")
    registry, mark, rest = name.partition("#")
    return f"{registry}/{rest}" if mark and _is_registry(registry) else name


def parse_allowed(text: str) -> str:
    """The canonical form of an entry of a list of allowed registries: a registry, like
    "registry.example.com:5000", or a registry and the beginning of a path, like
    "docker.io/pytorch". Raises ValueError for what is neither."""
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
    """Whether `image` is of a registry, or below a path, that `allowed` has (`parse_allowed`)."""
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
