"""Secrets in JSON and text: the check that refuses them in a spec's inline values, and their redaction in all output
(RES-7).

Both use one set of words, such as `password`. The check judges an inline value by its whole key, which is exact. The
redaction hides the text after any word that ends like one of them (`redaction`), which may hide too much but never too
little.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice, repeat
from typing import Any, Final

from purekube.apimachinery.problems import MOST_PROBLEMS, path_of
from purekube.apimachinery.redaction import LOUD_KEY, PLACEHOLDER, RULES, SIGNS

REDACTED: Final = "***"

_TOKENS: Final = tuple(
    f"{word}token"
    for word in ("access", "api", "auth", "bearer", "bot", "deploy", "refresh", "security", "service", "session")
)
"""Tokens that are credentials; others, such as a page token, are not."""
_ENDINGS: Final = ("password", "secret", "passwd", "passphrase", "secretaccesskey", *_TOKENS)
_WHOLE: Final = frozenset({"accesskey", "secretkey", "apikey", "accountkey", "privatekey", "token"})
_LAST: Final = frozenset("dteynDTEYN_-")
"""The last letters of the words in `_ENDINGS` and `_WHOLE`: nearly every key is judged by its last letter alone."""

_NAMES_A_SECRET: Final = "existingsecret"
_HARMLESS: Final = frozenset({int, float, bool, type(None)})
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")

_DEEPEST: Final = 64
"""The nesting beyond which a value is hidden as a whole instead of being searched."""

_LONGEST_KEY: Final = 512
"""The number of characters at the end of a key that are searched for a secret's word."""

LONGEST_SHOWN: Final = 4096
"""The longest text to show, in bytes, unless another limit applies."""

_SHOWN_STEPS: Final = 16
"""The number of steps that a shortened path shows at each end."""


class _Letters(dict[int, int | str]):
    """A table for `str.translate` from each letter to the ASCII letter that it resembles, such as `é` to `e`."""

    def __missing__(self, code: int) -> int | str:
        first = unicodedata.normalize("NFKD", chr(code))[0]
        return first if first.isascii() else code


# Letters of Cyrillic and Greek that look like Latin ones; accents and full width are decomposed.
_LIKE: Final = "аьсԁеһіјкӏмтпорԛѕυνѵԝхуАВСЕНІЈКМОРЅТХУαεικορτχΑΒΕΗΙΚΜΝΟΡΤΥΧıɡ"
_MEANT: Final = "abcdehijklmtnopqsuvvwxyABCEHIJKMOPSTXYaeikoptxABEHIKMNOPTYXig"
_LOOKALIKES: Final = _Letters({**{code: code for code in range(128)}, **str.maketrans(_LIKE, _MEANT)})

_Child = tuple[str | int, Any, bool]
"""A member of a container: its key or index, its value, and whether a string there is a secret."""

_Steps = tuple[Any, str | int] | None
"""A path to a value, as nested pairs of the path to its container and the last step; None for the root. Messages show
it as text.
"""

LONGEST_MESSAGE = 1024
"""The largest part of a message from another controller that is kept, in bytes.

Row 4 of the decision table for HelmReleases (REC-5) repeats such messages.
"""


def is_secret_key(key: str) -> bool:
    """Report whether `key` names secret material, such as `DB_PASSWORD`.

    Case, hyphens, underscores and lookalike letters of other alphabets make no difference. A key that holds the name
    of a Secret (`existingSecret…`) is not secret, whatever its ending.
    """
    if key[-1:].isascii() and key[-1:] not in _LAST:
        return False
    folded = _plain(key[-_LONGEST_KEY:]).lower().replace("_", "").replace("-", "")
    return _NAMES_A_SECRET not in folded and (folded.endswith(_ENDINGS) or folded in _WHOLE)


def _plain(text: str) -> str:
    """Return `text` with each letter that resembles an ASCII letter replaced by that letter; the length is the same."""
    return text if text.isascii() else text.translate(_LOOKALIKES)


def find_secret_material(values: Any, path: str = "") -> tuple[str, ...]:
    """Return the paths of the secrets in `values` (JSON) in document order, each prefixed with `path`.

    A value is a secret if its key names a secret, such as `password`. Objects and lists are searched at any depth until
    `MOST_PROBLEMS` secrets are found (RUN-11). Strings and numbers in a list are judged by the key of the list, and the
    value in `{name: DB_PASSWORD, value: …}` by that name. Empty strings and the text that replaces redacted secrets are
    not secrets. A PEM private key is a secret under any key.
    """
    return tuple(islice(_find(values, path), MOST_PROBLEMS))


def _find(values: Any, path: str) -> Iterator[str]:
    # A stack instead of recursion: values may be nested as deep as the API server permits.
    stack: list[tuple[Iterator[_Child], _Steps]] = [(iter([("", values, False)]), None)]
    while stack:
        children, way = stack[-1]
        for step, value, secret in children:
            if value.__class__ in _HARMLESS and not secret:
                continue
            steps = (way, step) if len(stack) > 1 else None
            if isinstance(value, Mapping):
                stack.append((_members(value), steps))
                break
            if isinstance(value, list | tuple):
                stack.append((zip(range(len(value)), value, repeat(secret), strict=False), steps))
                break
            if _is_material(value, secret):
                yield _letter_forms(path, steps)
        else:
            stack.pop()


def _members(value: Mapping[Any, Any]) -> Iterator[_Child]:
    """Yield each key of the mapping as text, with its value, and whether that is a secret.

    A value is a secret if its key names a secret. In `{name: DB_PASSWORD, value: …}` the value under `value` is one
    too.
    """
    named = _names_secret(value)
    for key, item in value.items():
        yield str(key), item, is_secret_key(str(key)) or (named and key == "value")


def _names_secret(value: Mapping[Any, Any]) -> bool:
    name = value.get("name")
    return isinstance(name, str) and is_secret_key(name)


def _is_material(value: Any, secret: bool) -> bool:
    if isinstance(value, str):
        is_key = "PRIVATE KEY" in value and _PEM.search(value) is not None
        return is_key or (secret and value not in ("", PLACEHOLDER))
    return secret and _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _letter_forms(path: str, steps: _Steps) -> str:
    way: list[str | int] = []
    while steps is not None:
        steps, step = steps
        way.append(step)
    way.reverse()
    if len(way) > 2 * _SHOWN_STEPS:
        way[_SHOWN_STEPS:-_SHOWN_STEPS] = ["…"]
    return path_of(way, path)


_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


def without_user(url: str) -> str:
    """Return `url` without user and password; text that is not a URL stays unchanged."""
    return _USER.sub("", url)


def shown(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return `text` redacted, with control characters escaped, and cut to at most `longest` bytes of UTF-8 (RUN-11).

    The text is cut before and after redaction. If the first cut splits a word that may be the start of a secret, that
    word is hidden. Results for short strings are cached, because Flux repeats its messages and redaction takes most of
    the time of a reconcile that changes nothing.
    """
    return _remembered(text, longest) if len(text) <= _LONGEST_REMEMBERED else _cleaned(text, longest)


def _cleaned(text: str, longest: int) -> str:
    if len(text) > 4 * longest:
        text = _cut(text, 4 * longest)
    clean = visible(_redact_text(text, secret=False))
    return clean if len(clean) * 4 <= longest else clean.encode(errors="replace")[:longest].decode(errors="ignore")


def _cut(text: str, longest: int) -> str:
    text = text[:longest]
    last = text[max(text.rfind(space) for space in " \t\n\r") + 1 :]
    return text[: -len(last)] + REDACTED if _may_show(_plain(last)) else text


_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""The control characters except tab and line feed, and characters that change the direction of text or break a line.

They include halves of surrogate pairs, which JSON can hold but UTF-8 output cannot.
"""


def visible(text: str) -> str:
    """Return `text` with JSON escapes in place of control characters that affect a terminal."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def redact(value: Any) -> Any:
    """Return `value` (text or JSON) with `***` in place of every secret in it. Never raises.

    Secrets in a string are private keys, passwords in URLs, bearer and basic credentials, JWTs, approval claims (signed
    strings `vws1.…` that approve an Operation), well-known forms of tokens, and anything after a secret key and `=` or
    `:`. In JSON, values under secret keys are secrets too. A second call changes nothing more.
    """
    if type(value) is dict and _is_harmless(value):
        return value
    return _redact(value, secret=False, depth=0)


def _is_harmless(members: dict[Any, Any]) -> bool:
    """Report whether a quick look shows that the JSON object `members` has no secret, as is true of nearly every log
    line.

    The result is False for an object with nested objects.
    """
    texts = texts_of(members)
    if texts is None or _names_secret(members) or any(map(_hides, map(str, members))):
        return False
    return not _may_show(_plain("\n".join(texts)))  # no sign of a secret has a line break in it


def texts_of(members: Mapping[Any, Any]) -> list[str] | None:
    """Return the strings among the values of a flat JSON object, and those in lists of strings. Return None if a value
    is not a string, a list of strings, a number, a boolean or null.
    """
    texts: list[str] = []
    for item in members.values():
        if type(item) is str:
            texts.append(item)
        elif type(item) is list and all(type(each) is str for each in item):
            texts += item
        elif item.__class__ not in _HARMLESS:
            return None
    return texts


def _redact(value: Any, *, secret: bool, depth: int) -> Any:
    if isinstance(value, str):
        return _redact_text(value, secret)
    if depth > _DEEPEST:
        return REDACTED
    if isinstance(value, Mapping):
        named = _names_secret(value)
        hidden = {key for key in value if _hides(str(key)) or (named and key == "value")}
        return {key: _redact(item, secret=key in hidden, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, secret=secret, depth=depth + 1) for item in value]
    return REDACTED if secret and _is_number(value) else value


def _hides(key: str) -> bool:
    return _remembered_key(key) if len(key) <= _LONGEST_REMEMBERED_KEY else _is_loud(key)


def _is_loud(key: str) -> bool:
    return is_secret_key(key) or LOUD_KEY.search(_plain(key[-_LONGEST_KEY:])) is not None


_LONGEST_REMEMBERED_KEY: Final = 64
_remembered_key = lru_cache(maxsize=1024)(_is_loud)
"""The function `_is_loud`, which reports whether a key's value must be hidden, with a cache of its results.

Log lines have the same few keys, and matching these took most of the time.
"""


def _redact_text(text: str, secret: bool) -> str:
    if secret:
        return text if text in ("", PLACEHOLDER) else REDACTED
    plain = _plain(text)
    if _may_show(plain):
        for rule in RULES:
            text, plain = _hidden(rule, text, plain)
    return text


def _may_show(plain: str) -> bool:
    lowered = plain.lower()
    for sign in SIGNS:  # noqa: SIM110 (twice as fast as `any`, and asked of every text in every line of the log)
        if sign in lowered:
            return True
    return False


def _hidden(rule: re.Pattern[str], text: str, plain: str) -> tuple[str, str]:
    """Return `text` and its ASCII form `plain`, both with `***` in place of the parts that match the pattern `rule`."""
    spans = [_span(match) for match in rule.finditer(plain)]
    if not spans:
        return text, plain
    shown_text = _without(spans, text)
    return shown_text, shown_text if plain is text else _without(spans, plain)


def _span(match: re.Match[str]) -> tuple[int, int]:
    groups = match.re.groupindex
    start = max([match.start(), *(match.end(name) for name in ("head", "open") if name in groups)])
    closed = match.start("close") if "close" in groups else -1
    return start, match.end() if closed < 0 else closed


def _without(spans: list[tuple[int, int]], text: str) -> str:
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], REDACTED]
        at = end
    return "".join([*pieces, text[at:]])


_LONGEST_REMEMBERED = 512
"""The longest message in characters whose result is cached: thousands of Flux's longest would fill the memory."""


def safe(message: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return a message that is safe to show: redacted, and cut at `longest` bytes of UTF-8."""
    return shown(message, longest)


_remembered = lru_cache(maxsize=2048)(_cleaned)
