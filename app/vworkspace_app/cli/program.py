"""The command line: every command by its name.

`run` with its many flags is imported only when called, since `manifests` must not wait for a web server to load. For
the same reason a command imports its work when it is called.
"""

from typing import Literal

from cyclopts import App

from vworkspace_app import VERSION
from vworkspace_app.cli.boxes import box
from vworkspace_app.cli.conformance import conformance
from vworkspace_app.cli.controllers import controllers
from vworkspace_app.cli.handling import approve, cancel, logs, resume, retry, suspend
from vworkspace_app.cli.init import init
from vworkspace_app.cli.installing import manifests, register, uninstall
from vworkspace_app.cli.seeing import check, diff, status, trace, version
from vworkspace_app.cli.servers import cluster, control_plane
from vworkspace_app.cli.simulating import simulate
from vworkspace_app.cli.trying import demo, plan
from vworkspace_app.cli.versions import versions
from vworkspace_app.missing_packages import ABOUT

RUN = """Run the operator: reconcile this cluster and pull jobs from the control plane.

Each flag can be given as a variable (`--log-level`: `VWORKSPACE_LOG_LEVEL`) or in the settings file
(`logLevel`) too. Example, outside a cluster; inside one, `vworkspace-operator run` alone takes the service
account and the Secret `vworkspace-agent-credentials`:

    vworkspace-operator run --kubeconfig kc --cluster-id prod-1 \\
        --control-plane-url https://odoo.example.com --token-file token
"""

app = App(
    name="vworkspace-operator",
    help=ABOUT,
    version=VERSION,
    help_format="markdown",
)
"""The parser of the whole command line."""

app.command("vworkspace_app.cli.run:run", name="run", help=RUN)
for command in (
    check,
    diff,
    status,
    trace,
    version,
    retry,
    suspend,
    resume,
    cancel,
    approve,
    logs,
    register,
    demo,
    plan,
    cluster,
    control_plane,
    manifests,
    uninstall,
    conformance,
):
    app.command(command)
app.command(box)
app.command(versions)
app.command(controllers)
app.command(init)
app.command(simulate)


@app.command
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what a shell needs to complete commands and options.

    Examples:

        source <(vworkspace-operator completion bash)
        vworkspace-operator completion zsh > completion.zsh
    """
    print(app.generate_completion(shell=shell))
