"""`python -m tools.cluster up | test | build`: a cluster of real controllers on this machine."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

from tools.cluster import strays
from tools.cluster.build import WITHOUT_GO, CannotBuild, build, has_go, is_built
from tools.cluster.components import CHOICE, TESTED, USUAL
from tools.cluster.processes import CannotStart
from tools.cluster.testing import run_tests
from tools.cluster.up import VARIABLE, pins_of, running

_BUILT: Final = "flux, and the engines that are built already"


def main(arguments: Sequence[str]) -> int:
    """Execute the command in the arguments; return the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    strays.adopt()
    if not has_go():
        print(WITHOUT_GO, flush=True)
        return 0 if options.command == "test" else 1
    try:
        return int(options.run(options))
    except (CannotBuild, CannotStart) as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        strays.end(strays.descendants(os.getpid()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run, desired, told in (
        ("build", _build, ",".join(USUAL), "build what the cache lacks, and print the folder of the programs"),
        ("up", _up, ",".join(USUAL), "bring a cluster up, print its kubeconfig, wait for Ctrl-C"),
        ("test", _test, "", "run the tests that want real servers and controllers, on such a cluster"),
    ):
        command = commands.add_parser(name, help=told)
        command.set_defaults(run=run)
        command.add_argument(
            "--with", dest="wanted", default=desired, help=f"of {','.join(CHOICE)} (default: {desired or _BUILT})"
        )
        command.add_argument("--oldest", action="store_true", help="the oldest promised versions (Kubernetes, Flux)")
        if run is _up:
            command.add_argument("--embedded", action="store_true", help="the embedded API server, not kube-apiserver")
        command.add_argument("--keep", action="store_true", help="leave the folder with data and logs")
        command.add_argument("rest", nargs="*", help="for test: arguments for pytest instead of all its tests")
    return parser


def _wanted(options: argparse.Namespace) -> list[str]:
    desired = [name for name in options.wanted.split(",") if name]
    unknown = sorted(set(desired) - set(CHOICE))
    if unknown:
        raise CannotStart(f"--with {','.join(unknown)}: there is {', '.join(CHOICE)}")
    return desired


def _build(options: argparse.Namespace) -> int:
    print(build(pins_of(_wanted(options), oldest=options.oldest).values(), _say))
    return 0


def _up(options: argparse.Namespace) -> int:
    how = {"keep": options.keep, "oldest": options.oldest, "embedded": options.embedded}
    with running(_wanted(options), _say, **how) as cluster:
        _say(f"export KUBECONFIG={cluster.kubeconfig}")
        _say(f"export {VARIABLE}={cluster.folder}")
        if cluster.registries is not None:
            _say(f"registries: https://{cluster.registries.trusted} (trusted), cluster.json of the folder has all")
        _say("Ctrl-C ends it")
        while True:
            time.sleep(3600)


def _test(options: argparse.Namespace) -> int:
    components = _wanted(options) or _tested(oldest=options.oldest)
    return run_tests(components, options.rest, _say, keep=options.keep, oldest=options.oldest)


def _tested(*, oldest: bool) -> list[str]:
    """Return Flux and the engines that are built, and say which are not: to build all takes longer than CI has."""
    first, *engines = TESTED
    missing = [name for name in engines if not is_built(pins_of([name], oldest=oldest).values())]
    if missing:
        names = ",".join(missing)
        _say(f"not built, so not tested: {names} (python -m tools.cluster build --with {names})")
    return [first, *(name for name in engines if name not in missing)]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
