"""Files that people give to `simulate`: a problem is said in one line, with the path inside of the file (SIM-3)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube_run.process.command_line import CommandError
from purekube_run.simulation.input_file import BadFile
from purekube_run.simulation.script_file import script_text
from vworkspace_app.commands.simulate.cluster_recording import acts_of
from vworkspace_app.commands.simulate.replay import ReplayRequest, replay
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.recording import (
    END,
    FORMAT,
    RecordedChange,
    RecordingHead,
    is_recording,
    line_of,
    read_recording,
)
from vworkspace_app.simulation.recording_replay import replayed
from vworkspace_app.simulation.run import draw, read_script, script_in
from vworkspace_app.simulation.workload import instance
from vworkspace_core.instances.context import Settings

SCRIPT = script_text(draw(5, seconds=900.0, instances=2, replicas=2, faults=tuple(FAULTS)))
RECORDING = b"".join(
    (
        line_of(RecordingHead(FORMAT, "2026-01-01T00:00:00Z", "simulated-1", "1")),
        line_of(RecordedChange(0.5, "listed", instance("app-0", "1.0.0"))),
        line_of(RecordedChange(1.5, "updated", instance("app-0", "1.1.0"))),
        line_of(RecordedChange(20.0, END, {})),
    )
)


def refusal(tmp_path: Path, content: str | bytes, name: str = "run.json") -> str:
    """The message about a file; nothing is run."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CommandError) as caught:
        replay(ReplayRequest(path))
    assert caught.value.status == 2
    assert one_line(caught.value.message)
    return caught.value.message.removeprefix(f"{tmp_path}/")


def one_line(message: str) -> bool:
    return len(message) < 700 and not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in message)


def with_field(*path: str | int, value: Any) -> str:
    """The script with another value at a path."""
    data: Any = json.loads(SCRIPT)
    *way, last = path
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "run.json: is no JSON"),
        ("[]", "run.json: $: is no saved run"),
        ("{}", "run.json: $.format: 'None' is not vworkspace.io/simulation/v1: another version saved it"),
        (
            with_field("format", value="vworkspace.io/simulation/v9"),
            "run.json: $.format: 'vworkspace.io/simulation/v9'",
        ),
        (with_field("seconds", value=1e300), "run.json: $.seconds: 1e+300 is not between 0 and 86,400"),
        (with_field("replicas", value=10**6), "run.json: $.replicas: 1000000 is not between 1 and 20"),
        (with_field("seed", value=10**40), "run.json: $.seed: "),
        (with_field("oops", value=1), "run.json: $.oops: is unknown"),
        (with_field("acts", value={}), "run.json: $.acts: is no list"),
        (with_field("acts", 1, "at", value="soon"), "run.json: $.acts[1].at: Expected `float`, got `str`"),
        (with_field("acts", 1, "at", value=-1.0), "run.json: $.acts[1].at: -1 is not between"),
        (with_field("acts", 1, "do", value="run a shell"), "run.json: $.acts[1].do: there is no act 'run a shell'"),
        (with_field("acts", 1, "name", value="../../etc/x-1"), "run.json: $.acts[1].name: '../../etc/x-1' is no name"),
        (with_field("acts", 1, "name", value="a\n\x1b[2J-1"), r"run.json: $.acts[1].name: 'a\n\x1b[2J-1' is no name"),
        (with_field("acts", 1, "more", value=1), "run.json: $.acts[1].more: is unknown"),
        (with_field("incidents", 0, "fault", value="rm"), "run.json: $.incidents[0].fault: there is no fault 'rm'"),
        (with_field("incidents", 0, "choice", value=7), "run.json: $.incidents[0].choice: 7 is not between 0 and 1"),
        (b"[" * 100_000, "run.json: is nested deeper than 100 levels"),
        (b'{"a":' * 100_000, "run.json: is nested deeper than 100 levels"),
        (b"\xff\xfe\x00", "run.json: is no JSON"),
        (b'{"seed": 1e999999}', "run.json: is no JSON"),
        (b" " * (33 * 1024 * 1024), "run.json: is larger than 33,554,432 bytes"),
    ],
)
def test_a_bad_run_is_refused_with_the_path_in_it(content: str | bytes, told: str, tmp_path: Path) -> None:
    """SIM-3, RUN-11."""
    assert refusal(tmp_path, content).startswith(told)


def test_a_file_alone_imports_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3: a run of a user's controllers names their module; it is imported if the command line names it too."""
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = refusal(tmp_path, with_field("controllers", value=["hostile_module"]))
    assert told == "run.json: $.controllers: it runs code of yours: allow it with --controllers hostile_module"


def lines(edit: Callable[[list[bytes]], None]) -> bytes:
    changed = RECORDING.split(b"\n")
    edit(changed)
    return b"\n".join(changed)


def swapped(number: int, old: bytes, new: bytes) -> bytes:
    def edit(changed: list[bytes]) -> None:
        assert old in changed[number]
        changed[number] = changed[number].replace(old, new)

    return lines(edit)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (swapped(0, b"/v1", b"/v9"), "line 1: $.format: 'vworkspace.io/recording/v9' is not"),
        (swapped(0, b"2026-01", b"2026-99"), "line 1: $.started: must be an RFC 3339 time"),
        (swapped(1, b'"at":0.5', b'"at":"x"'), "line 2: $.at: Expected `float`"),
        (swapped(2, b'"at":1.5', b'"at":0.1'), "line 3: $.at: 0.1 is not between 0.5 and"),
        (swapped(1, b'"listed"', b'"begun"'), "line 2: $.type: 'begun' is none of"),
        (swapped(1, b'"ApplicationInstance"', b'"Secret"'), "line 2: $.object.kind: 'Secret' is of no recorded kind"),
        (swapped(1, b'"app-0"', b'"../app"'), "line 2: $.object.metadata.name: '../app' is no name"),
        (swapped(1, b'{"at"', b'{{"at"'), "line 2: is no JSON"),
        (lines(lambda changed: changed.insert(1, b"[" * 500)), "line 2: is nested deeper than 100 levels"),
    ],
)
def test_a_bad_recording_is_refused_with_line_and_path(content: bytes, told: str, tmp_path: Path) -> None:
    """SIM-3, RUN-11."""
    assert refusal(tmp_path, content, "day.jsonl").startswith(f"day.jsonl: {told}")


def test_a_recording_that_was_cut_off_is_read_to_its_last_line(tmp_path: Path) -> None:
    """SIM-3."""
    path = tmp_path / "day.jsonl"
    path.write_bytes(RECORDING[: RECORDING.index(b"1.1.0")])
    assert [change.at for change in read_recording(path).changes] == [0.5]


@pytest.mark.parametrize("name", ["absent.json", "a\x1b[2J\nb.json", "a\0b"])
def test_a_path_that_cannot_be_read_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    """SIM-3."""
    for use in (lambda path: replay(ReplayRequest(path)), lambda path: acts_of(path, 60.0)):
        with pytest.raises(CommandError, match="cannot be read") as caught:
            use(tmp_path / name)
        assert caught.value.status == 2
        assert one_line(caught.value.message)


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(("replace", "insert", "delete", "repeat")),
        st.integers(0, 2**31),
        st.integers(0, 40),
        st.sampled_from((b"", b"-", b"9" * 30, b"1e400", b"null", b'"', b"\\u0000", b"\x1b[2J", b"[[[[", b"{", b"\n")),
    ),
    min_size=1,
    max_size=4,
)


def mutated(content: bytes, mutations: list[tuple[str, int, int, bytes]]) -> bytes:
    for how, place, length, text in mutations:
        at = place % (len(content) + 1)
        match how:
            case "replace":
                content = content[:at] + text + content[at + length :]
            case "insert":
                content = content[:at] + text + content[at:]
            case "delete":
                content = content[:at] + content[at + length :]
            case _:
                content = content[: at + length] + content[at:]
    return content


@given(MUTATIONS)
@example([("replace", SCRIPT.index("seconds") + 10, 5, b"1e400")])
def test_a_mutated_run_is_read_or_refused_in_one_line(mutations: list[tuple[str, int, int, bytes]]) -> None:
    """SIM-3, RUN-11: whatever a file holds, no other error leaves the reader, and what it reads can be written."""
    read = problem(lambda: script_in(Path("run.json"), mutated(SCRIPT.encode(), mutations)))
    if isinstance(read, str):
        assert one_line(read)
        assert read.startswith("run.json: ")
    else:
        assert script_in(Path("run.json"), script_text(read).encode()) == read


def problem(read: Callable[[], Any]) -> Any:
    """What was read, or the message about it."""
    try:
        return read()
    except BadFile as error:
        return str(error)


@given(mutations=MUTATIONS)
def test_a_mutated_recording_is_decided_or_refused_in_one_line(
    mutations: list[tuple[str, int, int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SIM-3, RUN-11: objects of any shape are decided, or the row says why not."""
    path = tmp_path_factory.mktemp("mutated") / "day.jsonl"
    path.write_bytes(mutated(RECORDING, mutations))
    read = problem(
        lambda: replayed(read_recording(path), Settings("simulated-1")) if is_recording(path) else read_script(path)
    )
    told = [read] if isinstance(read, str) else read.verdict()
    assert all(map(one_line, told))
