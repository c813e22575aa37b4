"""`conformance control-plane`: run the suite against a control plane."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from purekube_run.process.errors import FAILURE, USAGE, CommandError
from purekube_run.process.files import read_text
from vworkspace_app.conformance.over_http import ControlPlaneAt

_CHECKS = Path(__file__).parent.parent / "conformance" / "checks"


def _plugin(examined: ControlPlaneAt) -> Any:
    """Return the plugin that gives the suite its subject. pytest is imported here, since only this command needs it."""
    import pytest

    class Plugin:
        @pytest.fixture
        def subject(self) -> ControlPlaneAt:
            return examined

        def pytest_configure(self, config: pytest.Config) -> None:
            config.addinivalue_line("markers", "needs(*offers): what a check asks for beside the agent API")

        def pytest_report_header(self) -> str:
            return f"control plane: {examined.url}"

    return Plugin()


def examine_control_plane(
    *,
    url: str,
    cluster_id: str,
    token_file: Path | None,
    admin_token_file: Path | None,
    enqueue_command: str,
    ca_file: Path | None,
    only: str,
) -> int:
    """Run the suite; return 0 if nothing failed. Raises CommandError for contradictory options, or without pytest."""
    if find_spec("pytest") is None:
        raise CommandError("the suite runs with pytest: pip install 'vworkspace-operator[operator,conformance]'")
    if admin_token_file is None and not (cluster_id and token_file):
        raise CommandError("give --cluster-id and --token-file, or --admin-token-file", status=USAGE)
    subject = ControlPlaneAt(
        url,
        cluster_id,
        _text("--token-file", token_file),
        _text("--admin-token-file", admin_token_file),
        enqueue_command,
        _text("--ca-file", ca_file),
    )
    return _run(subject, only)


def _run(subject: ControlPlaneAt, only: str) -> int:
    import pytest

    from vworkspace_app.conformance import examined

    # Ignore any pytest configuration in the current directory, and any installed plugin: they belong to other projects.
    arguments = ["-c", os.devnull, f"--rootdir={_CHECKS}", "--import-mode=importlib", "-p", "no:cacheprovider"]
    arguments += ["--disable-plugin-autoload"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # this process imported the suite's helpers
    chosen = ["-k", only] if only else []
    arguments += [*chosen, "-v", "-rs", "--tb=short", *map(str, sorted(_CHECKS.glob("[a-z]*.py")))]
    status = pytest.main(arguments, plugins=[examined, _plugin(subject)])
    return 0 if status == pytest.ExitCode.OK else FAILURE


def _text(option: str, file: Path | None) -> str:
    return read_text(option, file) if file else ""
