"""The commands that examine another party's server."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

conformance = App(name="conformance", help="Examine a server that somebody else runs; needs pytest.")


@conformance.command(name="control-plane")
def conformance_control_plane(
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
    from vworkspace_app.commands.conformance import examine_control_plane

    return examine_control_plane(
        url=url,
        cluster_id=cluster_id,
        token_file=token_file,
        admin_token_file=admin_token_file,
        enqueue_command=enqueue_command,
        ca_file=ca_file,
        only=only,
    )
