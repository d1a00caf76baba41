"""The entry point for pytest: loads `plugin` in runs that verify, and in no others.

pytest imports this module in every run of an environment that has Sparkwright, so it offers neither
options nor fixtures. A conftest.py would not do: pytest imports that of a package named with
`--pyargs` after it has read its command line.
"""

import pytest


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the options and fixtures for `pytest --pyargs sparkwright.verify`."""
    known = early_config.known_args_namespace
    if known.pyargs and any(name.partition(".")[0] == "sparkwright" for name in known.file_or_dir):
        early_config.pluginmanager.import_plugin("sparkwright.verify.plugin")
