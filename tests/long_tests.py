"""Which files of tests take long: workers that share the tests start with them."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Files that take minutes, the longest first (`pytest --durations=60` says which).
LONG_FILES = tuple(
    HERE / file
    for file in (
        "e2e/test_three_clusters_story.py",
        "integration/test_nasty_requests.py",
        "integration/test_accounts_machine.py",
        "e2e/test_accessibility.py",
        "slurm/test_slurm_unanswering.py",
        "e2e/test_faults.py",
        "e2e/test_month_story.py",
        "conformance/test_connector_conformance.py",
        "kube/test_kube_unlabelled.py",
        "integration/test_embedded_servers.py",
        "e2e/test_slurm_story.py",
        "slurm/test_slurm_connector.py",
        "e2e/test_page_widths.py",
        "slurm/test_quota_push.py",
        "e2e/test_story.py",
        "slurm/test_slurm_away.py",
        "e2e/test_browser.py",
        "kube/test_kube_starts_while_away.py",
        "kube/test_kube_natives.py",
    )
)
#: Folders whose other files take up to a minute or two, as they wait for real servers.
LONG_FOLDERS = tuple(
    HERE / folder
    for folder in ("concurrency", "conformance", "e2e", "integration", "kube", "security", "slurm")
)


def by_length(file: Path) -> int:
    """A number to sort `file` by: long ones come first."""
    if file in LONG_FILES:
        return LONG_FILES.index(file)
    is_long = any(file.is_relative_to(folder) for folder in LONG_FOLDERS)
    return len(LONG_FILES) + (0 if is_long else 1)
