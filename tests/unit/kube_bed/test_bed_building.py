"""The build of the bed's servers, with a `go` that only writes files."""

import os
import stat
from pathlib import Path

import pytest

from kubebed import building
from kubebed.settings import BedError

_GO = """#!/bin/sh
case "$1" in
  version) echo go version go1.26.8 linux/amd64;;
  mod) cat "$FAKE_GO/modules.json";;
  build)
    for package; do :; done
    while [ "$1" != -o ]; do shift; done
    echo "$package" >> "$FAKE_GO/built"
    echo compiled/one >&2
    case "$package" in *"$(cat "$FAKE_GO/fails")") echo no space left >&2; exit 1;; esac
    mkdir -p "$2"; name=${package##*/}; [ "$name" = v3 ] && name=server
    echo "$package" > "$2$name";;
esac
"""


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a `go` that notes in `built` what it builds and fails at what `fails` says."""
    folder = tmp_path / "fake"
    folder.mkdir()
    go = folder / "go"
    go.write_text(_GO)
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    module = tmp_path / "module"
    for _, path in building._WEBHOOKS.values():
        (module / path).parent.mkdir(parents=True, exist_ok=True)
        (module / path).write_text("")
    (module / "crd.yaml").write_text("")
    names = [*building._CRDS, "k8s.io/kubernetes"]
    rest = f'"Version": "v1.36.2", "Dir": "{module}"'
    (folder / "modules.json").write_text(
        "".join(f'{{"Path": "{name}", {rest}}}\n' for name in names)
    )
    (folder / "fails").write_text("nothing")
    monkeypatch.setenv("FAKE_GO", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(building, "_CRDS", dict.fromkeys(building._CRDS, ("crd.yaml",)))
    monkeypatch.setattr(building, "_DISK_NEEDED_BYTES", 0)
    return folder


def test_an_interrupted_build_continues_with_what_is_missing(fake_go: Path, tmp_path: Path) -> None:
    """Given a build that failed at its fourth server, the next builds five of eight. Planted:
    the workspace removed when a build ends badly, so that the second start began anew."""
    binaries = tmp_path / "bin"
    lines: list[str] = []
    (fake_go / "fails").write_text("cmd/kube-scheduler")

    with pytest.raises(BedError, match="no space left"):
        building.build(binaries, lines.append, 60)
    assert not building.is_complete(binaries)
    (fake_go / "fails").write_text("nothing")
    (fake_go / "built").unlink()
    building.build(binaries, lines.append, 60)

    assert (fake_go / "built").read_text().split() == list(building.PACKAGES[3:])
    assert building.is_complete(binaries)
    assert sorted(path.name for path in binaries.iterdir() if path.name[0] != ".") == sorted(
        [*building._PROGRAMS, "manifests"]
    )
    assert [line.partition(" built in ")[0] for line in lines if " of 8: " in line] == [
        "1 of 8: etcd",
        "2 of 8: kube-apiserver",
        "3 of 8: kube-controller-manager",
        "1 of 8: etcd is built already",
        "2 of 8: kube-apiserver is built already",
        "3 of 8: kube-controller-manager is built already",
        "4 of 8: kube-scheduler",
        "5 of 8: kueue",
        "6 of 8: jobset",
        "7 of 8: kwok",
        "8 of 8: operators",
    ]
    assert not list(binaries.glob(".building-*"))


def test_what_another_version_left_unfinished_is_not_used(fake_go: Path, tmp_path: Path) -> None:
    """Given parts of a build with another go.mod, all servers are built, and the parts are gone."""
    binaries = tmp_path / "bin"
    old = binaries / ".building-0123456789abcdef"
    old.mkdir(parents=True)
    (old / "etcd").write_text("of another version")

    building.build(binaries, lambda text: None, 60)

    assert (binaries / "etcd").read_text() == "go.etcd.io/etcd/server/v3\n"
    assert not old.exists()


def test_a_server_that_takes_too_long_is_ended_with_what_it_started(
    fake_go: Path, tmp_path: Path
) -> None:
    """Given a build over its time, the sentence says that the next start continues."""
    (fake_go / "go").write_text(_GO.replace("mkdir -p", "sleep 60; mkdir -p"))

    with pytest.raises(BedError, match="Start it again: it continues with what is missing"):
        building.build(tmp_path / "bin", lambda text: None, 1)
