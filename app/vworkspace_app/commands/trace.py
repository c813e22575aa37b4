"""The command `trace`, which serves a web page that shows a recorded run moment by moment."""

import webbrowser
from pathlib import Path
from typing import Annotated, Final

import anyio
from starlette.applications import Starlette

from purekube_run.process.command_line import CommandError
from purekube_run.process.http import ConnectionLimits
from purekube_run.process.signals import run_until_signal
from vworkspace_app.arguments import Parameter
from vworkspace_app.observability import serving_in_thread
from vworkspace_app.page.drawing import TracePage
from vworkspace_app.page.screens import STREAMS
from vworkspace_app.page.site import Site
from vworkspace_core.overview.trace import Trace, read

_LARGEST: Final = 256 * 1024 * 1024
"""The maximum size of a trace file in bytes."""


def trace_in(file: Path) -> Trace:
    """Return the recorded run in a trace file.

    Raises CommandError if the file is too large, cannot be read, or is not a trace.
    """
    try:
        if file.stat().st_size > _LARGEST:
            raise CommandError(f"{file}: is larger than {_LARGEST // 1024 // 1024} MiB")
        with file.open("rb") as lines:
            return read(lines)
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{file}: is no trace: {error}") from error


def trace(
    file: Annotated[Path, Parameter(name="FILE", help="A recorded run: `box test --trace FILE` writes one.")],
    /,
    *,
    listen: Annotated[str, Parameter(help="HOST:PORT of the page; port 0 takes a free one.")] = "127.0.0.1:0",
    show: Annotated[bool, Parameter(name="--open", help="Open the page in a browser.", negative="")] = False,
) -> None:
    """Show a recorded run in a browser, with a slider for its time: the state of all objects, and what was done.

    The command serves the page until it is interrupted. Example:

        vworkspace-operator box test webapp.yaml --trace run.trace
        vworkspace-operator trace run.trace --open
    """
    serve(trace_in(file), "vworkspace-operator trace", listen, show=show)


def serve(recording: Trace, name: str, listen: str, *, show: bool) -> None:
    """Serve the page that shows the recorded run `recording` at the address `listen` (HOST:PORT) until the process is
    interrupted.

    `name` is the title of the page. If `show` is True, the page is opened in a browser.
    """
    app = Starlette(routes=Site(TracePage(recording), name).routes())
    with serving_in_thread(app, listen, limits=ConnectionLimits(streams=STREAMS)) as url:
        print(f"{len(recording.moments)} moments at {url}/ (Ctrl-C ends it)", flush=True)
        if show and not webbrowser.open(f"{url}/"):
            print("no browser could be opened: open that address yourself", flush=True)
        run_until_signal(anyio.sleep_forever)
