"""The parser of Go templates (`{{ … }}`), for the part of the language that values of a Katalog need.

This part is text, pipelines of paths, calls and constants, and `if … else … end`. Other features (ranges, variables,
named templates) are refused by name, because no expression has the same meaning.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs
import msgspec

_LONGEST: Final = 8_192
_DEEPEST: Final = 32
_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<raw>`[^`]*`)
  | (?P<number>-?\d+(?:\.\d+)?(?![\w.]))
  | (?P<path>\.(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>[()|])
    """,
    re.VERBOSE | re.ASCII,
)
_REFUSED: Final = frozenset(("range", "with", "define", "template", "block", "break", "continue"))
_CONSTANTS: Final = {"true": True, "false": False, "nil": None}


class TemplateError(ValueError):
    """The error of a template that cannot be parsed, or that uses a feature without counterpart in CEL."""


@attrs.frozen
class GoConstant:
    """A constant in a Go template: a string, a number, true, false or nil."""

    value: str | int | float | bool | None


@attrs.frozen
class Path:
    """A path such as `.spec.image` in a Go template.

    `of` is the value in which a path such as `(index …).status` begins; it is None for other paths.
    """

    steps: tuple[str, ...]
    of: "Node | None" = None


@attrs.frozen
class GoCall:
    """A function call with its arguments; a value that is piped into the call is the last argument."""

    name: str
    arguments: tuple["Node", ...]


Node: TypeAlias = GoConstant | Path | GoCall


@attrs.frozen
class If:
    """A block `{{ if … }} … {{ else }} … {{ end }}` of a Go template.

    `positive` has the parts before `else`, `negative` those after it.
    """

    condition: Node
    positive: tuple["Part", ...]
    negative: tuple["Part", ...]


Part: TypeAlias = str | GoConstant | Path | GoCall | If


def parse_template(text: str) -> tuple[Part, ...]:
    """Return the parts of a Go template: literal texts, which are never empty, and parsed actions.

    Raises TemplateError.
    """
    if len(text) > _LONGEST:
        raise TemplateError(f"a template has at most {_LONGEST} characters, this one has {len(text)}")
    pieces = _Pieces(tuple(_pieces(text)))
    parts = _parts(pieces, 0)
    if pieces.peek() is not None:
        raise TemplateError(f"{{{{ {pieces.keyword()} }}}} stands without its {{{{ if }}}}")
    return parts


@attrs.frozen
class _Action:
    text: str


def _pieces(text: str) -> Iterator[str | _Action]:
    """Yield the literal texts and the `{{ … }}` actions in order. `{{-` and `-}}` remove the adjacent blanks."""
    at = 0
    trimmed = False
    while at < len(text):
        begin = text.find("{{", at)
        literal = text[at:] if begin < 0 else text[at:begin]
        if trimmed:
            literal = literal.lstrip()
        if begin < 0:
            if literal:
                yield literal
            return
        # A dash trims only before a blank: `{{-3}}` is a number (text/template/parse: lex.go, hasLeftTrimMarker).
        if text.startswith("{{- ", begin):
            literal = literal.rstrip()
        end = _end_of_action(text, begin + 2)
        if literal:
            yield literal
        inner = text[begin + 2 : end]
        trimmed = inner.endswith(" -")
        inner = inner.removeprefix("-").removesuffix(" -").strip()
        if not inner.startswith("/*"):
            yield _Action(inner)
        at = end + 2


def _end_of_action(text: str, at: int) -> int:
    quote = ""
    while at < len(text):
        sign = text[at]
        if quote:
            at += sign == "\\" and quote == '"'
            quote = "" if sign == quote else quote
        elif sign in '"`':
            quote = sign
        elif text.startswith("}}", at):
            return at
        at += 1
    raise TemplateError("a {{ has no }}")


@attrs.define
class _Pieces:
    _all: tuple[str | _Action, ...]
    _at: int = 0

    def peek(self) -> str | _Action | None:
        return self._all[self._at] if self._at < len(self._all) else None

    def next(self) -> str | _Action:
        self._at += 1
        return self._all[self._at - 1]

    def keyword(self) -> str:
        """Return `else` or `end` if the next piece of the template is this keyword, and otherwise an empty string."""
        piece = self.peek()
        word = piece.text.split(maxsplit=1)[0] if isinstance(piece, _Action) and piece.text else ""
        return word if word in ("else", "end") else ""


def _parts(pieces: _Pieces, depth: int) -> tuple[Part, ...]:
    if depth > _DEEPEST:
        raise TemplateError(f"{{{{ if }}}} is nested more than {_DEEPEST} levels deep")
    out: list[Part] = []
    while pieces.peek() is not None and not pieces.keyword():
        piece = pieces.next()
        if isinstance(piece, str):
            out.append(piece)
        elif piece.text.split(maxsplit=1)[:1] == ["if"]:
            out.append(_if(piece.text[2:], pieces, depth))
        else:
            out.append(_pipeline(piece.text))
    return tuple(out)


def _if(condition: str, pieces: _Pieces, depth: int) -> If:
    positive = _parts(pieces, depth + 1)
    negative: tuple[Part, ...] = ()
    if pieces.keyword() == "else":
        rest = _word_after(pieces.next(), "else")
        if rest.split(maxsplit=1)[:1] == ["if"]:
            return If(_pipeline(condition), positive, (_if(rest[2:], pieces, depth + 1),))
        if rest:
            raise TemplateError(f"{{{{ else {rest[:40]} }}}} has no meaning here")
        negative = _parts(pieces, depth + 1)
    if pieces.keyword() != "end":
        raise TemplateError("an {{ if }} has no {{ end }}")
    pieces.next()
    return If(_pipeline(condition), positive, negative)


def _word_after(piece: str | _Action, word: str) -> str:
    assert isinstance(piece, _Action)
    return piece.text[len(word) :].strip()


def _pipeline(text: str) -> Node:
    parser = _Parser(text)
    node = parser.pipeline(0)
    parser.expect_end()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def pipeline(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise TemplateError(f"parentheses are nested more than {_DEEPEST} levels deep")
        node = self._command(depth, None)
        while self._take("|"):
            node = self._command(depth, node)
        return node

    def expect_end(self) -> None:
        if (token := self._peek()) is not None:
            raise TemplateError(f"cannot read {self._text[:80]!r} beyond {token[1][:40]!r}")

    def _command(self, depth: int, piped: Node | None) -> Node:
        kind, text = self._peek() or ("", "")
        if kind == "name" and text not in _CONSTANTS:
            self._at += 1
            if text in _REFUSED:
                raise TemplateError(f"{{{{ {text} }}}} has no counterpart in an expression")
            arguments: list[Node] = []
            while (operand := self._operand(depth)) is not None:
                arguments.append(operand)
            return GoCall(text, (*arguments, *(() if piped is None else (piped,))))
        operand = self._operand(depth)
        if operand is None:
            raise TemplateError(f"expected a path, a function or a constant in {self._text[:80]!r}")
        if piped is not None:
            raise TemplateError("only a function can stand behind a |")
        return operand

    def _operand(self, depth: int) -> Node | None:
        kind, text = self._peek() or ("", "")
        match kind:
            case "sign" if text == "(":
                self._at += 1
                node = self.pipeline(depth + 1)
                if not self._take(")"):
                    raise TemplateError("a ( has no )")
                return self._field_of(node)
            case "sign" | "":
                return None
        self._at += 1
        match kind:
            case "path":
                return Path(tuple(text.split(".")[1:]) if text != "." else ())
            case "text":
                return GoConstant(_unquoted(text))
            case "raw":
                return GoConstant(text[1:-1])
            case "number":
                return GoConstant(float(text) if "." in text else int(text))
        if text in _CONSTANTS:
            return GoConstant(_CONSTANTS[text])
        return GoCall(text, ())

    def _field_of(self, node: Node) -> Node:
        kind, text = self._peek() or ("", "")
        if kind != "path" or text == ".":
            return node
        self._at += 1
        return Path(tuple(text.split(".")[1:]), node)

    def _peek(self) -> tuple[str, str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, sign: str) -> bool:
        found = self._peek() == ("sign", sign)
        self._at += found
        return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            what = "variables ($x)" if text[at] == "$" else repr(text[at : at + 20])
            raise TemplateError(f"{what} has no counterpart in an expression")
        at = match.end()
        if match.lastgroup != "space":
            assert match.lastgroup is not None
            yield match.lastgroup, match.group()


def _unquoted(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.MsgspecError as error:
        raise TemplateError(f"the text {text[:40]} has an escape that is not known") from error
