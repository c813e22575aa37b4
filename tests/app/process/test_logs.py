"""RUN-5, RES-7: lines of ours and of libraries have one form, say what they are about, and show no secret."""

import contextlib
import io
import json
import logging
import os
import pty
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import anyio
import attrs
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.reconcile import ReconcileResult
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.process import logs
from purekube_run.process.machine import SystemClock
from purekube_run.process.terminal import SecretMask
from tests.support.effort import effort
from tests.support.patience import PATIENCE
from vworkspace_app.manager import startup as starting
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

SECRET = "plain-s3cr3t-0123"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep what a test logs out of the test run's own output."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def lines(act: Callable[[logs.Logs], None], form: str = "json", level: str = "info") -> list[str]:
    """What is written while `act` acts."""
    with contextlib.redirect_stderr(io.StringIO()) as out:
        act(logs.configure(level=level, form=form, operator_version="1.2.3"))
    return out.getvalue().splitlines()


def said(act: Callable[[logs.Logs], None], level: str = "info") -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(act, level=level)]


def test_every_line_is_one_json_object_with_what_all_of_them_say() -> None:
    def act(log: logs.Logs) -> None:
        log.always(cluster_id="prod-1")
        structlog.get_logger("a").info("ours", path=PurePosixPath("/x"), names={"b"}, at=None)
        logging.getLogger("some.library").warning("theirs %d\nof two lines", 5)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old", stacklevel=1)

    found = said(act)

    assert all(list(one)[:3] == ["ts", "level", "msg"] for one in found)
    assert [one["msg"] for one in found][:2] == ["ours", "theirs 5\nof two lines"]
    assert "UserWarning: old" in found[2]["msg"]
    for one in found:
        assert (one["cluster_id"], one["operator_version"]) == ("prod-1", "1.2.3")
        assert one["level"] in ("info", "warning")
        assert one["ts"].endswith("Z")
    assert (found[0]["path"], found[0]["names"], found[0]["at"]) == ("/x", ["b"], None)
    assert found[1]["logger"] == "some.library"


def test_lines_of_a_reconcile_say_what_it_is_about_and_others_do_not() -> None:
    async def main() -> None:
        async def reconcile(key: ObjectRef) -> ReconcileResult:
            structlog.get_logger("any").info("inside")
            if key.name == "b":
                raise ZeroDivisionError
            return ReconcileResult()

        driver = WorkerPool(reconcile, clock=SystemClock(), name="applicationinstance", run_id="cafe")
        for name in ("a", "b"):
            driver.enqueue(ObjectRef(APPLICATION_INSTANCE, "org-a", name))
        driver.shutdown(drain=True)
        await driver.run()
        structlog.get_logger("any").info("outside")

    found = said(lambda log: anyio.run(main))

    about = [{key: one.get(key) for key in ("controller", "namespace", "name")} for one in found]
    assert about[:2] == [
        {"controller": "applicationinstance", "namespace": "org-a", "name": name} for name in ("a", "b")
    ]
    assert [one["reconcile_id"] for one in found if one["msg"] == "inside"] == ["cafe-1", "cafe-2"]
    (crash,) = [one for one in found if one["msg"] == "reconcile crashed"]
    assert (crash["name"], crash["reconcile_id"]) == ("b", "cafe-2")
    assert "ZeroDivisionError" in crash["exception"]
    assert "reconcile_id" not in found[-1]


def test_the_level_holds_for_libraries_too_and_the_transport_never_chatters() -> None:
    def act(log: logs.Logs) -> None:
        structlog.get_logger("a").debug("ours")
        for library in ("httpx2", "uvicorn.error", "httpcore2.http11", "some.library"):
            logging.getLogger(library).debug("theirs")
            logging.getLogger(library).info("theirs too")

    assert [(one["msg"], one["logger"]) for one in said(act)] == [("theirs too", "some.library")]
    assert [(one["msg"], one.get("logger")) for one in said(act, level="debug")] == [
        ("ours", None),
        ("theirs", "some.library"),
        ("theirs too", "some.library"),
    ]


@attrs.frozen
class Chatty:
    """An object that shows its secret when it is printed."""

    password: str = SECRET

    def __str__(self) -> str:
        return f"Chatty(password={self.password})"


def _raise(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    "fields",
    [
        {"token": SECRET},
        {"nested": {"deep": [{"apiKey": SECRET}]}},
        {"error": f"refused: password={SECRET}"},
        {"headers": {"Authorization": f"Basic {SECRET}"}},
        {"object": Chatty()},
        {"objects": (Chatty(), {"password": SECRET})},
        {"exc_info": ValueError(f"token: {SECRET}")},
        {"url": f"https://u:{SECRET}@odoo.example.com"},
        {"raw": SECRET.encode()},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_looks_like_a_secret_is_redacted_wherever_it_stands(fields: dict[str, Any], form: str) -> None:
    def act(log: logs.Logs) -> None:
        structlog.get_logger("a").error("it happened", **fields)

    text = "\n".join(lines(act, form))

    assert "it happened" in text
    assert SECRET not in text


@pytest.mark.parametrize("form", ["json", "text"])
def test_what_we_hold_is_masked_whatever_it_looks_like(form: str) -> None:
    def act(log: logs.Logs) -> None:
        log.secrets.add(SECRET, b"line one of a key\nline two of a key")
        structlog.get_logger("a").error(
            f"event {SECRET}", field=f"x{SECRET}y", listed=[SECRET, "bGluZSBvbmUgb2YgYSBrZXk"]
        )
        logging.getLogger("library").error("theirs %s, line two of a key", SECRET)
        try:
            _raise(f"odd {SECRET}")
        except ValueError:
            structlog.get_logger("a").exception("failed")
            logging.getLogger("library").exception("failed")
        sys.excepthook(ValueError, ValueError(SECRET), None)
        thread = threading.Thread(target=_raise, args=(SECRET,))
        thread.start()
        thread.join()

    text = "\n".join(lines(act, form))

    assert SECRET not in text
    assert "line two" not in text
    assert text.count("ValueError: odd ***") == 2
    assert text.count("a defect end") == 2


@pytest.mark.slow
@given(st.lists(st.text(min_size=6, max_size=12), min_size=1, max_size=4), st.text(max_size=40), st.data())
@settings(max_examples=effort(1.5))
def test_no_hidden_text_survives_a_mask(secrets: list[str], around: str, data: st.DataObject) -> None:
    mask = SecretMask()
    mask.add(*secrets)
    kept = [secret.strip() for secret in secrets if len(secret.strip()) >= 6 and "***" not in secret]
    shown = mask.mask({"a": [around + data.draw(st.sampled_from(secrets)) + around]})["a"][0]

    assert [secret for secret in kept if secret in shown.replace("***", "\0")] == []


def test_short_and_empty_texts_are_no_secrets() -> None:
    secrets = SecretMask()
    secrets.add("", None, b"", "abc", " \n ")

    assert secrets.mask("abc and the rest") == "abc and the rest"


@pytest.mark.slow
def test_a_terminal_gets_text_and_anything_else_json() -> None:
    script = (
        "from purekube_run.process import logs; import structlog; logs.configure();"
        " structlog.get_logger().info('hello', n=1)"
    )
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE)
    main, side = pty.openpty()
    subprocess.run([sys.executable, "-c", script], stderr=side, check=True, timeout=PATIENCE)
    os.close(side)
    shown = os.read(main, 4096).decode()
    os.close(main)

    assert json.loads(piped.stderr)["msg"] == "hello"
    assert "hello" in shown
    assert "{" not in shown


@pytest.mark.parametrize(("options", "problem"), [({"level": "loud"}, "log level"), ({"form": "xml"}, "log format")])
def test_a_level_or_format_that_is_none_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        logs.configure(**options)


# -- what a log is read for ------------------------------------------------------------------------------------------


@given(st.text(max_size=40), st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=30), max_size=3))
@settings(max_examples=effort(1.5))
def test_a_text_line_is_one_line_and_nothing_that_a_terminal_obeys(event: str, fields: dict[str, str]) -> None:
    """ESC sequences in fields and newlines in the event were printed raw."""
    kept = {name: value for name, value in fields.items() if name.isidentifier() and name not in ("event", "level")}

    def act(_: logs.Logs) -> None:
        structlog.get_logger("a").info("\x1b[2J" + event + "\nforged", nested=[{event: event}], **kept)

    with contextlib.redirect_stderr(io.StringIO()) as out:
        act(logs.configure(form="text"))
    text = out.getvalue()
    assert text.endswith("\n")
    assert text[:-1].isprintable()


def test_a_traceback_in_text_marks_its_lines_and_obeys_nothing() -> None:
    def act(_: logs.Logs) -> None:
        try:
            raise ValueError("first\x1b[31m\n2026-01-01 [info] forged")
        except ValueError:
            structlog.get_logger("a").exception("failed")

    shown = lines(act, "text")
    assert not any(line.startswith("2026-01-01") for line in shown)
    assert not any("\x1b" in line for line in shown)


def test_what_every_line_would_say_is_said_once_to_people() -> None:
    def act(log: logs.Logs) -> None:
        log.always(cluster_id="prod-1")
        for _ in range(3):
            structlog.get_logger("a").info("ours")

    shown = lines(act, "text")
    assert sum("prod-1" in line for line in shown) == sum("1.2.3" in line for line in shown) == 1
    assert all("prod-1" in line for line in lines(act)[1:]), "and in each line for machines"


def test_a_library_that_repeats_itself_is_heard_once_in_ten_seconds() -> None:
    """asyncio wrote 110,470 lines in a minute: a traceback for each connection that it could not accept."""

    def act(_log: logs.Logs) -> None:
        for _ in range(1000):
            logging.getLogger("asyncio").error("socket.accept() out of system resource")
        logging.getLogger("asyncio").error("another trouble")

    assert [one["msg"] for one in said(act)] == ["socket.accept() out of system resource", "another trouble"]


def test_the_hint_for_a_missing_credential_can_be_copied_from_the_log() -> None:
    """What `run` says while the Secret is not there: the file of the command is no secret."""

    async def main() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await starting._Waiting(SystemClock()).once("vworkspace-system", "it does not exist")

    (line,) = [one for one in said(lambda _: anyio.run(main)) if "create" in one]

    assert (
        " --from-literal=cluster-id=ID --from-file=token=./token (or: vworkspace-operator register;" in line["create"]
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_that_cannot_be_written_is_lost_and_ends_nothing(form: str) -> None:
    with (
        open("/dev/full", "wb", buffering=0) as full,
        contextlib.redirect_stderr(io.TextIOWrapper(full, write_through=True)),
    ):
        logs.configure(form=form)
        structlog.get_logger("a").warning("ours")
        logging.getLogger("some.library").warning("theirs")
