"""The words of a command become the arguments of its function; a wrong one is one line (SEE-5)."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import pytest

from vworkspace_app.arguments import Parameter, UsageError, call, command_help


class Colour(Enum):
    DARK_RED = "dark-red"


@attrs.frozen
class Choice:
    size: int = attrs.field(default=1, metadata={"help": "How large."})
    label: Annotated[str, Parameter(name="--tag")] = ""
    hidden: Annotated[str, Parameter(parse=False)] = "kept"


def paint(
    wall: Annotated[str, Parameter(help="What to paint.")],
    *files: Annotated[Path, Parameter(name="FILE")],
    colour: Colour = Colour.DARK_RED,
    dry: Annotated[bool, Parameter(name=("--dry", "-d"), negative="")] = False,
    loud: bool | None = None,
    tool: list[str] | None = None,
    between: tuple[str, str] | None = None,
    form: Annotated[Literal["", "yaml"], Parameter(name=("--output", "-o"))] = "",
    token: Annotated[str, Parameter(env_var="PAINT_TOKEN")] = "",
    choice: Annotated[Choice, Parameter(name="*")] = Choice(size=3),
) -> dict[str, Any]:
    """Paint a wall.

    Examples:

        paint north   --dry
    """
    return {name: value for name, value in locals().items() if value not in (None, "", (), False)}


PLAIN = {"wall": "north", "colour": Colour.DARK_RED, "choice": Choice(size=3)}


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("north", {}),
        ("north a b", {"files": (Path("a"), Path("b"))}),
        ("north -d a --loud b", {"files": (Path("a"), Path("b")), "dry": True, "loud": True}),
        ("--tool x north --tool=y a", {"files": (Path("a"),), "tool": ["x", "y"]}),
        ("north --between 1 2 a", {"files": (Path("a"),), "between": ("1", "2")}),
        ("--colour dark-red -oyaml north", {"form": "yaml"}),
        ("--size -5 --tag=-t north", {"choice": Choice(size=-5, label="-t")}),
        ("-- north -d", {"files": (Path("-d"),)}),
    ],
)
def test_words_in_any_order_become_arguments(words: str, more: dict[str, Any]) -> None:
    assert call(paint, words.split()) == {**PLAIN, **more}


def test_a_flag_can_be_taken_back_and_a_variable_is_read_where_the_option_is_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PAINT_TOKEN", "t")
    assert call(paint, ["north"])["token"] == "t"
    assert call(paint, ["north", "--token", "u"])["token"] == "u"

    def shown(*, loud: bool | None = None) -> Any:
        return loud

    assert [call(shown, words) for words in ([], ["--loud"], ["--loud", "--no-loud"])] == [None, True, False]


def lengths(texts: list[str]) -> tuple[int, ...]:
    return tuple(map(len, texts))


@attrs.frozen
class Bundle:
    sizes: Annotated[tuple[int, ...], Parameter(name="--word", read=lengths)] = ()
    warm: bool = True


def test_a_field_may_be_read_from_its_option_and_a_flag_that_is_set_is_unset_by_its_own_name() -> None:
    def pack(*, bundle: Annotated[Bundle, Parameter(name="*")] = Bundle()) -> Bundle:
        return bundle

    assert call(pack, []) == Bundle()
    assert call(pack, ["--word", "a", "--word", "bcd", "--no-warm"]) == Bundle((1, 3), warm=False)
    with pytest.raises(UsageError, match="unknown option: --warm"):
        call(pack, ["--warm"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "WALL is missing"),
        ("north --dri", "unknown option: --dri; did you mean --dry?"),
        ("north --no-dry", "unknown option: --no-dry; did you mean --dry?"),
        ("north --hidden x", "unknown option: --hidden"),
        ("north --colou dark-red", "unknown option: --colou; did you mean --colour?"),
        ("north --colour blue", "--colour blue: give one of dark-red"),
        ("north --size x", "--size x: not a number"),
        ("north -o", "--output/-o: a value is missing"),
        ("north -o --dry", "--output/-o: a value is missing"),
        ("north --between 1", "--between: expected 2 arguments"),
    ],
)
def test_a_wrong_word_is_said_in_one_line(words: str, problem: str) -> None:
    with pytest.raises(UsageError) as error:
        call(paint, words.split())
    assert error.value.message == problem


def test_a_word_too_many_is_named() -> None:
    def single(name: str = "") -> None: ...

    for words, problem in ((["a", "b"], "unexpected argument: b"), (["a", "b", "c"], "unexpected arguments: b c")):
        with pytest.raises(UsageError, match=problem):
            call(single, words)


def test_help_has_every_argument_and_leaves_examples_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = command_help("paint", paint).splitlines()

    assert lines[0] == "Usage: paint [OPTIONS] WALL [FILE...]"
    assert "    paint north   --dry" in lines
    assert "  WALL  What to paint. [required]" in lines
    assert [line.split("  ")[1] for line in lines[lines.index("Options:") + 1 :]] == [
        "--colour {dark-red}",
        "--dry, -d",
        "--loud, --no-loud",
        "--tool TEXT",
        "--between TEXT TEXT",
        "--output, -o {yaml}",
        "--token TEXT",
        "--size NUMBER",
        "--tag TEXT",
        "--help, -h",
    ]
