"""RUN-12: no text of a tenant or a chart steers a terminal, whichever command prints it."""

import io
import json
import re
import subprocess
import sys

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.secret_material import safe, shown, visible
from purekube_run.process.terminal import VisibleStream
from purekube_run.process.yaml_documents import Format, dump

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07\r\u202e\u2066[]0;52cHJm")), max_size=60)
HOSTILE = "\x1b]52;c;aGFjaw==\x07 \x1b[8mhidden \x9b2J \u202edetrevni"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(TEXT)
@example(HOSTILE)
def test_nothing_that_is_printed_for_a_tenant_steers_what_is_no_terminal_RUN_12(text: str) -> None:
    stream = io.StringIO()
    print(text, file=VisibleStream(stream))
    assert not STEERING.search(stream.getvalue())
    assert visible(visible(text)) == visible(text)


@given(TEXT)
@example(HOSTILE)
def test_on_a_terminal_our_own_sequences_pass_alone_RUN_12(text: str) -> None:
    stream = Terminal()
    VisibleStream(stream).write(f"\x1b[1;31mred\x1b[0m {text}")
    written = stream.getvalue()
    assert written.startswith("\x1b[1;31mred\x1b[0m ")
    rest = re.sub(r"\x1b\[(?:[0-9;]{0,12}m|[0-9]{0,3}[ABCDGHJK]|\?25[lh])|\r", "", written)
    assert not STEERING.search(rest)


@given(TEXT)
@example(HOSTILE)
def test_a_message_of_a_tenant_is_visible_in_conditions_and_tables_RUN_12(text: str) -> None:
    assert not STEERING.search(shown(text))
    assert not STEERING.search(safe(text))


@given(TEXT)
@example(HOSTILE)
@example("\u202eplain")
def test_yaml_and_json_say_the_same_when_they_are_printed_RUN_12(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    for form, read in ((Format.YAML, yaml.safe_load), (Format.JSON, json.loads)):
        stream = io.StringIO()
        print(dump([{"a": text}], form), end="", file=VisibleStream(stream))
        assert not STEERING.search(stream.getvalue())
        assert read(stream.getvalue()) == {"a": text}


@pytest.mark.slow
def test_the_commands_print_through_that_stream_RUN_12() -> None:
    command = [sys.executable, "-m", "vworkspace_app", f"no-{HOSTILE}".replace("\x00", "")]
    told = subprocess.run(command, capture_output=True, check=False)
    assert not STEERING.search((told.stdout + told.stderr).decode())
