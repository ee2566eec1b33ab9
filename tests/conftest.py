"""What every run needs: Hypothesis's profiles, and the portal unless only pure tests are asked for.

Pure tests need neither Django nor a server. A run of them alone loads neither, so that one file is
done in a moment.
"""

import sys

import pytest

from long_tests import by_length
from pure_folders import PURE

# The conftest of a folder that is asked for alone imports them before they are plugins.
pytest.register_assert_rewrite("kube_bed", "slurm_bed")

_PROFILE_OPTION = "--hypothesis-profile"
_HAS_PROFILE = pytest.StashKey[bool]()


def _is_pure(config: pytest.Config) -> bool:
    """Whether every path that this run was given is one of pure tests."""
    named = [
        (config.invocation_params.dir / str(word).partition("::")[0]).resolve()
        for word in config.args
    ]
    return all(any(path.is_relative_to(folder) for folder in PURE) for path in named)


def _load_profile(config: pytest.Config) -> None:
    """Everybody tries the same examples, here and where changes are accepted: new ones are looked
    for by `make laws`, so that what is found stops nobody whose change has nothing to do with it.
    A busy machine is no fault of the code, and how long it takes is told by benchmarks."""
    import hypothesis

    config.stash[_HAS_PROFILE] = True
    for name, derandomize in (("tidegate", True), ("new-examples", False)):
        hypothesis.settings.register_profile(
            name,
            derandomize=derandomize,
            deadline=None,
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
        )
    hypothesis.settings.load_profile(config.getoption(_PROFILE_OPTION) or "tidegate")


def pytest_configure(config: pytest.Config) -> None:
    """Load the portal's fixtures, and Hypothesis, where they are needed."""
    if not _is_pure(config):
        config.pluginmanager.import_plugin("portal_fixtures")
    if config.getoption(_PROFILE_OPTION):
        _load_profile(config)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Load the profile before the first law is read; most unit tests have none."""
    # What a test imports may have imported Hypothesis already.
    if (
        isinstance(collector, pytest.Module)
        and not collector.config.stash.get(_HAS_PROFILE, False)
        and "hypothesis" in collector.path.read_text()
    ):
        _load_profile(collector.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start what takes longest first where workers share the tests; else the last worker is alone
    with it. Among files of one kind the order stays the random one."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: by_length(item.path))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hypothesis's plugin imports all of Hypothesis for the summary, even where no law was run."""
    config = session.config
    if "hypothesis" not in sys.modules and not config.getoption("numprocesses", None):
        config.pluginmanager.unregister(name="hypothesispytest")
