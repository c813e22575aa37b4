"""`trace`: serve the page of a recorded run."""

import webbrowser
from pathlib import Path
from typing import Final

import anyio
from starlette.applications import Starlette

from purekube_run.process.errors import CommandError
from purekube_run.process.http import ConnectionLimits
from purekube_run.process.signals import run_until_signal
from vworkspace_app.observability import serving_in_thread
from vworkspace_app.page.links import STREAMS
from vworkspace_app.page.site import Site
from vworkspace_app.page.trace import TracePage
from vworkspace_core.overview.trace import Trace, read

_LARGEST: Final = 256 * 1024 * 1024
"""The maximum size of a trace file in bytes."""


def run_trace(file: Path, *, listen: str, show: bool) -> None:
    """Serve until a signal. Raises CommandError for a file that is no trace, and an address that cannot be bound."""
    trace = trace_in(file)
    site = Site(TracePage(trace), "vworkspace-operator trace")
    app = Starlette(routes=site.routes())
    with serving_in_thread(app, listen, limits=ConnectionLimits(streams=STREAMS)) as url:
        print(f"{len(trace.moments)} moments at {url}/ (Ctrl-C ends it)", flush=True)
        if show and not webbrowser.open(f"{url}/"):
            print("no browser could be opened: open that address yourself", flush=True)
        run_until_signal(anyio.sleep_forever)


def trace_in(file: Path) -> Trace:
    """Return the trace in a file. Raises CommandError."""
    try:
        if file.stat().st_size > _LARGEST:
            raise CommandError(f"{file}: is larger than {_LARGEST // 1024 // 1024} MiB")
        with file.open("rb") as lines:
            return read(lines)
    except OSError as error:
        raise CommandError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{file}: is no trace: {error}") from error
