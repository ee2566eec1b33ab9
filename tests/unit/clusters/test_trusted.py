"""Tokens go only where the settings say.

Planted and seen to die: a host compared by its beginning; ports not compared; a folder without its
end; ".." below a folder; no check when saved; no check when opened; any kubeconfig; the Pod's own
account without leave.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from builders.portal_builders import NOW, a_company
from clusters.models import Cluster
from clusters.registration import Administrator, add_cluster, change_cluster
from clusters.trusted import check_trusted
from connectors.errors import ClusterUnavailable
from jobs.execution.connecting import connector_of
from primitives.errors import InvalidRequest

ADMIN = Administrator(uuid7(), "admin")
GOOD: dict[str, Any] = {
    "url": "https://slurm-head:6820",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter.sock",
    "tag_secret": "0123456789abcdef0123456789abcdef",
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
}


@pytest.fixture(autouse=True)
def _listed(settings: Any) -> None:
    settings.SLURM_ORIGINS = frozenset(
        {"https://slurm-head:6820", "http://127.0.0.1:*", "http://[::1]:7", "https://proxy:443"}
    )
    settings.SLURM_MINTERS = frozenset({"/run/tidegate/minter.sock", "/srv/minters/"})


@pytest.mark.parametrize(
    "url",
    [
        "https://slurm-head:6820",
        "https://SLURM-head:6820/prefix",
        "http://127.0.0.1:6820",
        "http://127.0.0.1",
        "http://[::1]:7",
        "https://proxy",
    ],
)
def test_what_is_listed_is_trusted(url: str) -> None:
    check_trusted("slurm", {**GOOD, "url": url})


@pytest.mark.parametrize(
    "url",
    [
        "http://slurm-head:6820",
        "https://slurm-head:6821",
        "https://slurm-head",
        "https://slurm-head.evil.example:6820",
        "https://evil.example:6820/slurm-head:6820",
        "https://slurm-head:6820@evil.example:6820",
        "http://127.0.0.1.evil.example:6820",
        "https://127.0.0.1:6820",
        "http://[::1]:8",
        "http://[::1",
        "http://*:*",
        "",
    ],
)
def test_any_other_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="TIDEGATE_SLURM_ORIGINS"):
        check_trusted("slurm", {**GOOD, "url": url})


@pytest.mark.parametrize(
    ("path", "is_listed"),
    [
        ("/run/tidegate/minter.sock", True),
        ("/srv/minters/hpc", True),
        ("/run/tidegate/minter.sock2", False),
        ("/run/tidegate/other", False),
        ("/srv/minters2/hpc", False),
        ("/srv/minters/../evil", False),
        ("minter.sock", False),
    ],
)
def test_only_listed_minters_are_asked(path: str, is_listed: bool) -> None:
    if is_listed:
        check_trusted("slurm", {**GOOD, "token_socket": path})
        return
    with pytest.raises(ValueError, match="TIDEGATE_SLURM_MINTERS"):
        check_trusted("slurm", {**GOOD, "token_socket": path})


def test_without_the_settings_nothing_is_trusted(settings: Any) -> None:
    settings.SLURM_ORIGINS = settings.SLURM_MINTERS = frozenset()
    with pytest.raises(ValueError, match="none of the slurmrestd that may be given tokens"):
        check_trusted("slurm", GOOD)


@pytest.mark.parametrize(
    ("path", "is_listed"),
    [
        ("/etc/tidegate/gpu-1.kubeconfig", True),
        ("/srv/kubeconfigs/gpu-2", True),
        ("/srv/kubeconfigs/", True),
        ("/etc/tidegate/gpu-1.kubeconfig2", False),
        ("/srv/kubeconfigs2/gpu-2", False),
        ("/srv/kubeconfigs/../evil", False),
        ("/root/.kube/config", False),
        ("in-cluster", False),
    ],
)
def test_only_listed_kubeconfigs_are_used(settings: Any, path: str, is_listed: bool) -> None:
    settings.KUBECONFIGS = frozenset(
        {"/etc/tidegate/gpu-1.kubeconfig", "/srv/kubeconfigs/", "in-cluster"}
    )
    if is_listed:
        check_trusted("kubernetes", {"kubeconfig": path})
        return
    with pytest.raises(ValueError, match="TIDEGATE_KUBECONFIGS"):
        check_trusted("kubernetes", {"kubeconfig": path})


def test_the_pods_own_account_is_used_where_it_is_listed(settings: Any) -> None:
    settings.KUBECONFIGS = frozenset({"/srv/kubeconfigs/"})
    with pytest.raises(ValueError, match="can add in-cluster to TIDEGATE_KUBECONFIGS"):
        check_trusted("kubernetes", {"in_cluster": True})
    settings.KUBECONFIGS = frozenset({"in-cluster"})
    check_trusted("kubernetes", {"in_cluster": True})


@pytest.fixture
def roots(settings: Any, tmp_path: Path) -> Path:
    """Lists FOLDER/own, all below FOLDER/all and below FOLDER/link, which leads to FOLDER/all."""
    for name in ("own", "all", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "all")
    (tmp_path / "all" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "all" / "in").symlink_to(tmp_path / "own")
    (tmp_path / "own-too").symlink_to(tmp_path / "own")
    settings.LOCAL_ROOTS = frozenset({f"{tmp_path}/own", f"{tmp_path}/all/", f"{tmp_path}/link/"})
    return tmp_path


@pytest.mark.parametrize("root", ["own", "all/lab", "all/a/b", "all/in", "link/lab"])
def test_a_listed_folder_is_a_local_clusters(roots: Path, root: str) -> None:
    check_trusted("local", {"root": f"{roots}/{root}"})


@pytest.mark.parametrize(
    "root",
    ["own2", "own/lab", "own/../outside", "all/../outside", "all/out", "all/out/lab", "own-too"],
)
def test_a_local_cluster_keeps_no_other_folder(roots: Path, root: str) -> None:
    with pytest.raises(ValueError, match=r"none of the folders .* TIDEGATE_LOCAL_ROOTS"):
        check_trusted("local", {"root": f"{roots}/{root}"})


def test_where_no_folder_is_listed_there_are_no_local_clusters(settings: Any) -> None:
    settings.LOCAL_ROOTS = frozenset()
    with pytest.raises(ValueError, match="kind local are turned off here"):
        check_trusted("local", {"root": "/var/lib/tidegate/local"})


@pytest.mark.django_db
def test_a_local_cluster_outside_the_roots_is_neither_added_nor_opened(
    settings: Any, roots: Path
) -> None:
    bad = {"root": f"{roots}/all/out"}
    with pytest.raises(InvalidRequest, match="none of the folders that a local cluster may keep"):
        add_cluster("lab", "local", bad, by=ADMIN, now=NOW)
    lab = add_cluster("lab", "local", {"root": f"{roots}/all/lab"}, by=ADMIN, now=NOW)
    with pytest.raises(InvalidRequest, match="none of the folders that a local cluster may keep"):
        change_cluster(lab, options=bad, by=ADMIN, now=NOW)
    connector_of(lab)
    # What was added before, or by a restore, is not opened: its page shows these words.
    settings.LOCAL_ROOTS = frozenset({f"{roots}/own"})
    with pytest.raises(ClusterUnavailable, match="can add it to TIDEGATE_LOCAL_ROOTS"):
        connector_of(lab)


@pytest.mark.django_db
def test_it_is_refused_when_saved_and_when_opened() -> None:
    bad = {**GOOD, "url": "https://evil.example:6820"}
    with pytest.raises(InvalidRequest, match=r"leads to https://evil\.example:6820"):
        add_cluster("hpc", "slurm", bad, by=ADMIN, now=NOW)
    good = add_cluster("hpc", "slurm", GOOD, by=ADMIN, now=NOW)
    with pytest.raises(InvalidRequest, match=r"leads to https://evil\.example:6820"):
        change_cluster(good, options=bad, by=ADMIN, now=NOW)
    connector_of(good)
    company = a_company()
    Cluster.objects.filter(pk=company.cluster.pk).update(kind="slurm", options=bad)
    company.cluster.refresh_from_db()
    with pytest.raises(ClusterUnavailable, match=r"leads to https://evil\.example:6820"):
        connector_of(company.cluster)
