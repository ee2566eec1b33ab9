"""A Pod's volumes as folders: configMap, secret, downwardAPI, projected and emptyDir.

Files appear all at once: they lie in a folder of their own, `..data` is a link to it, and each name
a link through `..data`, as a kubelet makes them.
"""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubebed.runner.environment import CannotConfigure, field, resource

Document = Mapping[str, Any]
#: (kind, name) -> the object, or None if there is none.
FetchObject = Callable[[str, str], Document | None]
#: (audience, seconds) -> a token of the Pod's service account.
FetchToken = Callable[[str, int], str]

_MODE = 0o644
_DATA = "..data"
_KINDS = ("configMap", "secret", "downwardAPI", "projected")


class CannotMount(Exception):
    """A volume cannot be made yet; a kubelet says FailedMount and tries again."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a volume."""

    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the content of volumes comes from."""

    fetch: FetchObject
    token: FetchToken


def is_supported(volume: Document) -> bool:
    """Whether the bed can make this volume."""
    return "emptyDir" in volume or any(kind in volume for kind in _KINDS)


def is_read_only(volume: Document) -> bool:
    """Whether a kubelet mounts it so that nothing in it can be written."""
    return "emptyDir" not in volume


def follows_pod(volume: Document) -> bool:
    """Whether its content changes with the Pod's labels and annotations."""
    return "downwardAPI" in volume or any(
        "downwardAPI" in source for source in volume.get("projected", {}).get("sources") or ()
    )


def make(volume: Document, pod: Document, folder: Path, sources: Sources) -> None:
    """Make the volume in `folder`, or bring it up to date. Raises CannotMount."""
    if "emptyDir" in volume:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        return
    folder.mkdir(parents=True, exist_ok=True)
    publish(folder, files(volume, pod, sources))


def files(volume: Document, pod: Document, sources: Sources) -> dict[str, File]:
    """The files of a volume by path. Raises CannotMount."""
    try:
        if "projected" in volume:
            projected = volume["projected"]
            mode = projected.get("defaultMode", _MODE)
            found: dict[str, File] = {}
            for source in projected.get("sources") or ():
                found |= _of_source(source, mode, pod, sources)
            return found
        kind = next(one for one in _KINDS if one in volume)
        source = volume[kind]
        return _of_source({kind: source}, source.get("defaultMode", _MODE), pod, sources)
    except CannotConfigure as error:
        raise CannotMount(str(error)) from error


def publish(folder: Path, wanted: Mapping[str, File]) -> None:
    """Put the files into the folder, all at once; what was there before goes."""
    data = folder / _DATA
    before = os.readlink(data) if data.is_symlink() else None
    fresh = folder / f"..{time.time_ns()}"
    for name, file in wanted.items():
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    fresh.mkdir(exist_ok=True)
    link = folder / "..data_tmp"
    link.symlink_to(fresh.name)
    link.replace(data)
    for top in {name.split("/")[0] for name in wanted}:
        if not (folder / top).is_symlink():
            (folder / top).symlink_to(f"{_DATA}/{top}")
    if before:
        shutil.rmtree(folder / before, ignore_errors=True)


def _of_source(source: Document, mode: int, pod: Document, sources: Sources) -> dict[str, File]:
    if "configMap" in source:
        return _of_object(source["configMap"], "configmaps", mode, sources.fetch)
    if "secret" in source:
        return _of_object(source["secret"], "secrets", mode, sources.fetch)
    if "downwardAPI" in source:
        return {
            item["path"]: File(_downward(item, pod).encode(), item.get("mode", mode))
            for item in source["downwardAPI"].get("items") or ()
        }
    if "serviceAccountToken" in source:
        wanted = source["serviceAccountToken"]
        token = sources.token(wanted.get("audience", ""), wanted.get("expirationSeconds", 3600))
        return {wanted["path"]: File(token.encode(), mode)}
    raise CannotMount(f"the bed has no volumes of kind {', '.join(source)}")


def _of_object(reference: Document, kind: str, mode: int, fetch: FetchObject) -> dict[str, File]:
    name = reference.get("name") or reference.get("secretName") or ""
    found = fetch(kind, name)
    if found is None:
        if reference.get("optional"):
            return {}
        raise CannotMount(f'{kind.removesuffix("s")} "{name}" not found')
    content = object_content(kind, found)
    if not reference.get("items"):
        return {key: File(data, mode) for key, data in content.items()}
    files: dict[str, File] = {}
    for item in reference["items"]:
        if item["key"] in content:
            files[item["path"]] = File(content[item["key"]], item.get("mode", mode))
        elif not reference.get("optional"):
            what = "configmap" if kind == "configmaps" else "secret"
            raise CannotMount(f"{what} references non-existent config key: {item['key']}")
    return files


def object_content(kind: str, found: Document) -> dict[str, bytes]:
    """What a ConfigMap or Secret holds."""
    encoded = found.get("binaryData" if kind == "configmaps" else "data") or {}
    content = {key: base64.b64decode(data) for key, data in encoded.items()}
    if kind == "configmaps":
        content |= {key: data.encode() for key, data in (found.get("data") or {}).items()}
    return content


def _downward(item: Document, pod: Document) -> str:
    if "fieldRef" in item:
        return field(pod, item["fieldRef"]["fieldPath"])
    reference = item["resourceFieldRef"]
    for container in pod["spec"]["containers"]:
        if container["name"] == reference.get("containerName"):
            return resource(container, reference)
    raise CannotMount(f"no container {reference.get('containerName')}")
