"""The escaping of field names in CEL: names that are no identifiers, or reserved words."""

import re
from functools import lru_cache
from typing import Final

from purekube.cel.syntax import RESERVED

_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_TEXT: Final = {text: plain for plain, text in _ESCAPES.items()}
_ANY: Final = re.compile("|".join(map(re.escape, _TEXT)))
_SPECIAL: Final = re.compile(r"__|\.|-|/")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Return the identifier under which a rule reads the field `name`; None for a name that no rule can read."""
    if name in _WORDS:
        return f"__{name}__"
    text = _SPECIAL.sub(lambda match: _ESCAPES[match.group()], name)
    return text if _NAME.fullmatch(text) else None


@lru_cache(maxsize=4096)
def unescape(name: str) -> str:
    """Return the field that the identifier `name` means: `x__dash__y` is `x-y`, `__namespace__` is `namespace`."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _WORDS:
        return name[2:-2]
    return _ANY.sub(lambda match: _TEXT[match.group()], name)
