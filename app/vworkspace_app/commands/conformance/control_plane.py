"""The command `conformance control-plane`, which runs the conformance checks against a control plane."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from purekube_run.process.command_line import FAILURE, USAGE, CommandError, read_text
from vworkspace_app.arguments import Parameter
from vworkspace_app.conformance.over_http import ControlPlaneAt

_CHECKS = Path(__file__).parents[2] / "conformance" / "checks"


def _plugin(examined: ControlPlaneAt) -> Any:
    """Return the pytest plugin with the fixture `subject`, the examined control plane.

    pytest is imported here, since only this command needs it.
    """
    import pytest

    class Plugin:
        @pytest.fixture
        def subject(self) -> ControlPlaneAt:
            return examined

        def pytest_report_header(self) -> str:
            return f"control plane: {examined.url}"

    return Plugin()


def _run(subject: ControlPlaneAt, only: str) -> int:
    import pytest

    # Ignore any pytest configuration in the current directory, and any installed plugin: they belong to other projects.
    arguments = ["-c", os.devnull, f"--rootdir={_CHECKS}", "--import-mode=importlib", "-p", "no:cacheprovider"]
    arguments += ["--disable-plugin-autoload"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # this process imported the suite's helpers
    chosen = ["-k", only] if only else []
    arguments += [*chosen, "-v", "-rs", "--tb=short", *map(str, sorted(_CHECKS.glob("[a-z]*.py")))]
    status = pytest.main(arguments, plugins=[_plugin(subject)])
    return 0 if status == pytest.ExitCode.OK else FAILURE


def _text(option: str, file: Path | None) -> str:
    return read_text(option, file) if file else ""


def examine_control_plane(
    *,
    url: Annotated[str, Parameter(help="Base URL of the control plane.")],
    cluster_id: Annotated[
        str, Parameter(help="A cluster it knows, for checks only: events and jobs are made up.")
    ] = "",
    token_file: Annotated[Path | None, Parameter(help="File with that cluster's token.")] = None,
    admin_token_file: Annotated[
        Path | None, Parameter(help="File with the token of the admin API; each check gets a cluster of its own.")
    ] = None,
    enqueue_command: Annotated[
        str, Parameter(help="Shell command that reads a job (JSON) from standard input, offers it and prints its id.")
    ] = "",
    ca_file: Annotated[Path | None, Parameter(help="PEM file of the authority that signed its certificate.")] = None,
    only: Annotated[str, Parameter(help="Run the checks whose names match, as pytest's -k.")] = "",
) -> int:
    """Check that a control plane does for the agent what the protocol promises (docs/protocol.md).

    A check that needs more than was given is skipped, and says what it would have needed. Exit status 0 says that
    none failed. Examples:

        vworkspace-operator conformance control-plane --url https://odoo.example.com --cluster-id try --token-file t
        vworkspace-operator conformance control-plane --url http://127.0.0.1:8069 --admin-token-file admin
    """
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
