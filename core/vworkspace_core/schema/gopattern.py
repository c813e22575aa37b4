"""Regular expressions as a Go server reads them, on Python's engine.

RE2 and Python agree on nearly everything that CRDs use. What differs is translated (`$` and `\\z` mean the
very end of the text, POSIX classes) or refused (`\\p{…}`), never approximated in silence.
"""

import re
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:ascii:]": "\\x00-\\x7f",
    "[:blank:]": "\\t ",
    "[:cntrl:]": "\\x00-\\x1f\\x7f",
    "[:digit:]": "0-9",
    "[:graph:]": "!-~",
    "[:lower:]": "a-z",
    "[:print:]": " -~",
    "[:punct:]": "!-/:-@\\[-`{-~",
    "[:space:]": "\\t\\n\\v\\f\\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}
_OUTSIDE: Final = re.compile(r"\\.|\[\^?\]?|\$", re.DOTALL)
_INSIDE: Final = re.compile(r"\\.|\[:[a-z]+:\]|\[|\]", re.DOTALL)
_REFUSED: Final = {"\\p": "unicode classes", "\\P": "unicode classes", "\\Z": "\\Z", "\\C": "\\C", "\\Q": "\\Q"}


@lru_cache(maxsize=4096)
def go_pattern(text: str) -> re.Pattern[str]:
    """Compile a Go (RE2) pattern. Raises `re.error` for a pattern that Python cannot express."""
    multiline = re.match(r"\(\?[a-zU]*m", text) is not None
    return re.compile(_translate(text, "$" if multiline else "\\Z"), re.ASCII)


def _translate(text: str, end: str) -> str:
    out: list[str] = []
    position, inside = 0, False
    while True:
        match = (_INSIDE if inside else _OUTSIDE).search(text, position)
        if match is None:
            return "".join(out) + text[position:]
        token = match.group()
        out.append(text[position : match.start()])
        position = match.end()
        if token in _REFUSED:
            raise re.error(f"{_REFUSED[token]} not supported", text, match.start())
        if token == "\\z":
            out.append("\\Z")
        elif token == "$":
            out.append(end)
        elif inside:
            out.append(_POSIX.get(token) or ("\\[" if token == "[" else token))
            inside = token != "]"
        else:
            out.append(token)
            inside = token.startswith("[")
