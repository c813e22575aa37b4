"""Secret material in an Operation's command: refused in its environment and arguments (RES-7, OPS-8).

An Operation has many readers, and its job is stored. A secret reaches a command by reference, as
`env[].valueFrom.secretKeyRef` or `envFrom`; a variable of the shell (`$NAME`) is a reference too.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from purekube.apimachinery.problems import Problem, index, join
from purekube.apimachinery.redaction import PLACEHOLDER
from purekube.apimachinery.secret_material import find_secret_material

_MOST: Final = 32
_MOST_MEMBERS: Final = 1024
"""The most variables and words that are checked; the schema refuses a longer list anyway (RUN-11)."""

_CURE: Final = (
    "holds secret material: put it into a Secret and name that, by env[].valueFrom.secretKeyRef {name, key} or by"
    " envFrom[].secretRef {name}"
)
_WORDS: Final = r"(?:password|passwd|passphrase|secret|token|(?:api|access|secret|private)[-_]?key)"
_NAME: Final = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
_NAMES_A_SECRET: Final = re.compile(r"\Aexisting", re.IGNORECASE)
_FLAG: Final = re.compile(rf"\A--?[\w.-]*{_WORDS}\Z", re.IGNORECASE)
# Words are searched only at their beginning: a search from every letter would take quadratic time.
_ASSIGNED: Final = re.compile(rf"(?<![\w.-])[\w.-]*{_WORDS}=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|]*)", re.IGNORECASE)


def command_problems(parameters: Mapping[str, Any], path: str) -> tuple[Problem, ...]:
    """Return the places in `env`, `command` and `args` of a Job's parameters that contain a secret; at most 32."""
    return tuple(islice(_problems(parameters, path), _MOST))


def _problems(parameters: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for where, name, value in islice(_environment(parameters.get("env"), join(path, "env")), _MOST_MEMBERS):
        if _is_secret(name, value):
            yield Problem(where, _CURE)
    for field in ("command", "args"):
        parameter = parameters.get(field)
        yield from _word_problems(
            parameter[:_MOST_MEMBERS] if isinstance(parameter, list | tuple) else (), join(path, field)
        )


def _environment(env: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    if isinstance(env, Mapping):
        yield from ((join(path, str(name)), str(name), value) for name, value in env.items())
    elif isinstance(env, list | tuple):
        for number, variable in enumerate(env):
            if isinstance(variable, Mapping):
                yield join(index(path, number), "value"), str(variable.get("name", "")), variable.get("value")


def _is_secret(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    named = _NAME.search(name) is not None and not _NAMES_A_SECRET.match(name)
    return (named and _is_literal(value)) or bool(find_secret_material(value))


def _is_literal(value: str) -> bool:
    """Report whether the value is the secret itself, not a reference to it."""
    bare = value.strip().strip("\"'")
    return bare not in ("", PLACEHOLDER) and not bare.startswith("$")


def _word_problems(words: list[Any] | tuple[Any, ...], path: str) -> Iterator[Problem]:
    texts = [word if isinstance(word, str) else "" for word in words]
    for number, text in enumerate(texts):
        follows = number > 0 and _FLAG.match(texts[number - 1]) is not None and not text.startswith("-")
        assigned = any(_is_literal(match["value"]) for match in _ASSIGNED.finditer(text))
        if assigned or (follows and _is_literal(text)) or find_secret_material(text):
            yield Problem(index(path, number), _CURE)
