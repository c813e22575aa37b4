"""The only way to print: terminal control sequences are escaped, and this process's secrets are masked (RUN-12)."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from purekube.apimachinery.secret_material import REDACTED, texts_of, visible

_SHORTEST: Final = 6
"""The minimum length of a masked secret: masking shorter strings would damage ordinary words."""


class SecretMask:
    """A set of secrets that are masked in all output.

    Secrets are never removed, since an expired token may still appear.
    """

    def __init__(self) -> None:
        self._texts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SecretMask({len(self._texts)} texts)"

    def add(self, *secrets: str | bytes | None) -> None:
        """Mask these secrets from now on; None values are skipped.

        Each secret is masked as it is, line by line, and in base64, as Secrets and basic authentication contain it.
        """
        texts = set(self._texts)
        for secret in secrets:
            raw = secret.encode() if isinstance(secret, str) else secret or b""
            texts |= {raw.decode("utf-8", "ignore").strip(), base64.b64encode(raw).decode().rstrip("=")}
            texts |= {line.strip() for line in raw.decode("utf-8", "ignore").splitlines()}
        # The longest first: masking a part of a secret must not leave the rest of it visible.
        self._texts = tuple(sorted((text for text in texts if len(text) >= _SHORTEST), key=len, reverse=True))

    def mask(self, value: Any) -> Any:
        """Return `value` (text or JSON) with secrets masked."""
        if isinstance(value, str):
            for text in self._texts:
                if text in value:
                    value = value.replace(text, REDACTED)
            return value
        if isinstance(value, Mapping):
            if (texts := texts_of(value)) is not None and self._is_clean("\n".join(texts)):
                return value
            return {key: self.mask(item) for key, item in value.items()}
        return [self.mask(item) for item in value] if isinstance(value, list) else value

    def _is_clean(self, text: str) -> bool:
        for secret in self._texts:  # noqa: SIM110 (twice as fast as `any`, and asked of every line of the log)
            if secret in text:
                return False
        return True


_OURS: Final = re.compile(r"(\x1b\[(?:[0-9;]{0,12}m|[0-9]{0,3}[ABCDGHJK]|\?25[lh])|\r)")
"""The control sequences that are not escaped: those for colours, and for redrawing a line or the screen."""


class VisibleStream:
    """A text stream that escapes control characters, except this program's own colour sequences on a terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text with control characters escaped; return the number of characters written."""
        if self._stream.isatty():
            parts = _OURS.split(text)
            text = "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))
        else:
            text = visible(text)
        self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several strings, each with control characters escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def shows_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Report whether to write colours to the stream: it is a terminal, and the environment does not refuse them.

    A variable NO_COLOR that is not empty refuses them, and so does TERM=dumb.
    """
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def aligned(rows: Sequence[Sequence[str]], widest: int | None = None) -> list[str]:
    """Return the lines of a table, with two spaces between its columns, which are as wide as their widest cell.

    If `widest` is given, no column is wider than that; longer cells are shown whole.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = widths if widest is None else [min(widest, width) for width in widths]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
