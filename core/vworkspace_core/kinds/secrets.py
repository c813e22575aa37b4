"""Secret material: what inline values must not hold, and what no output may show (RES-7).

One set of words serves both. Values are refused by whole keys, which is exact; text is redacted by anything
that ends like one of them, which may hide too much and never too little.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vworkspace_core.kinds.problems import index, join

__all__ = ["PLACEHOLDER", "REDACTED", "find_secret_material", "is_secret_key", "redact", "without_user"]

PLACEHOLDER: Final = "<set via externalSecret>"
"""The value that stands where External Secrets will put the real one."""

REDACTED: Final = "***"

_ENDINGS: Final = ("password", "secret")
_WHOLE: Final = ("accesskey", "secretkey", "apikey", "token")
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")

_DEEPEST: Final = 64
"""Nesting beyond which a value is hidden as a whole instead of being looked into."""


def is_secret_key(key: str) -> bool:
    """Whether a value under `key` is secret material, whatever the key's case."""
    lowered = key.lower()
    return lowered.endswith(_ENDINGS) or lowered in _WHOLE


def find_secret_material(values: Any, path: str = "") -> tuple[str, ...]:
    """Paths of every leaf of `values` (JSON) that is secret material, in document order, `path` in front.

    Looks into objects and lists at any depth. Strings in a list count under the key of the list. Empty
    strings and the placeholder are no material; a PEM private key is, under any key.
    """
    return tuple(_find(values, path))


def _find(values: Any, path: str) -> Iterator[str]:
    # A stack instead of recursion: values may be nested as deep as the API server lets them be.
    stack: list[tuple[Any, str, bool]] = [(values, path, False)]
    while stack:
        value, where, secret = stack.pop()
        if isinstance(value, str):
            if _is_material(value, secret):
                yield where
        elif isinstance(value, Mapping):
            children = [(item, join(where, str(key)), is_secret_key(str(key))) for key, item in value.items()]
            stack.extend(reversed(children))
        elif isinstance(value, list | tuple):
            stack.extend([(item, index(where, i), secret) for i, item in enumerate(value)][::-1])


def _is_material(value: str, secret: bool) -> bool:
    return (secret and value not in ("", PLACEHOLDER)) or _PEM.search(value) is not None


_WORDS: Final = r"(?:password|passwd|secret|token|(?:access|secret|api)[-_]?key)"
_QUOTED_END: Final = r".*?(?:(?<!\\)(?P=item)|\Z)"
_PAIR: Final = (
    # Keys are looked for where a word begins only: a search from every letter would take quadratic time.
    rf"(?<![\w.-])(?P<key>[\w.-]*{_WORDS}\\*[\"']?[ \t]*(?:=>|:=|[:=])[ \t]*)"
    rf"(?!\\*[\"']?{re.escape(PLACEHOLDER)})(?:"
    r"[|>][-+]?[ \t]*(?:\n[ \t]+[^\n]*)+"  # a YAML block
    r"|(?P<open>\\*[\"']).*?(?P<close>(?<!\\)(?P=open)|\Z)"  # quoted, also inside JSON inside JSON
    rf"|\[(?:[\s,]*(?P<item>\\*[\"']){_QUOTED_END})+"  # a list of quoted texts
    r"|(?!\\*[\"']|[\[{]+\s*\\*[\"'\[{\]}])\S+?(?=[,;)\]}]*(?:\s|\Z))"  # one word, but not an object
    r")"
)
_PEM_BLOCK: Final = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"
# A password may hold a slash that somebody forgot to escape; a digest behind an image is no host.
_USER_INFO: Final = r"(?<=://)(?:[^\s/\"'<>]+|[^\s/:@\"'<>]*:[^\s\"'<>]{0,256})@(?!sha\d+:)"
_RULES: Final = (
    (_PEM_BLOCK, REDACTED),
    (_USER_INFO, f"{REDACTED}@"),
    (r"(?P<head>authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?:\w+[ \t]+)?)[^\s\"',]+", rf"\g<head>{REDACTED}"),
    (r"\b(?P<scheme>bearer[ \t]+)[^\s\"',;]{3,}", rf"\g<scheme>{REDACTED}"),
    (r"\bvws1\.[-\w]+\.[-\w]+", REDACTED),  # an approval claim (OPS-4)
    (r"\beyJ[-\w]{8,}\.[-\w]+(?:\.[-\w]*){1,3}", REDACTED),  # a JWT, JWS or JWE
    (_PAIR, rf"\g<key>\g<open>{REDACTED}\g<close>"),
    (rf"(?<!\S)(?P<flag>--?[\w-]*{_WORDS}[ \t]+)(?!-)\S+", rf"\g<flag>{REDACTED}"),
)
_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")
_TEXT_RULES: Final = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), text) for pattern, text in _RULES)
# Nearly all text shows no secret: a look for the words that every rule needs is cheaper than the rules.
_SIGNS: Final = ("passw", "secret", "token", "key", "://", "authorization", "bearer", "vws1.", "eyj")
_LOUD_KEY: Final = re.compile(rf"(?:{_WORDS}|authorization|cookie)\Z", re.IGNORECASE)


def redact(value: Any) -> Any:
    """`value` (text or JSON) with `***` in place of every secret it shows. Idempotent, never raises.

    Text: private keys, passwords in URLs, bearer and basic credentials, JWTs, approval claims, and whatever
    follows a secret key and `=` or `:`. JSON: values under secret keys, and every text as above. The
    placeholder stays.
    """
    return _redact(value, secret=False, depth=0)


def without_user(url: str) -> str:
    """`url` without a user and password. Total: what is no URL stays as it is."""
    return _USER.sub("", url)


def _redact(value: Any, *, secret: bool, depth: int) -> Any:
    if isinstance(value, str):
        return _redact_text(value, secret)
    if depth > _DEEPEST:
        return REDACTED
    if isinstance(value, Mapping):
        return {
            key: _redact(item, secret=_LOUD_KEY.search(str(key)) is not None, depth=depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact(item, secret=secret, depth=depth + 1) for item in value]
    return REDACTED if secret and isinstance(value, int | float) and not isinstance(value, bool) else value


def _redact_text(text: str, secret: bool) -> str:
    if secret:
        return text if text in ("", PLACEHOLDER) else REDACTED
    folded = text.casefold()
    if any(sign in folded for sign in _SIGNS):
        for pattern, replacement in _TEXT_RULES:
            text = pattern.sub(replacement, text)
    return text
