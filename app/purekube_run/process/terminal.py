"""The only way to print: text that would control a terminal is shown, not obeyed (RUN-12).

Messages come from charts, engines and tenants. Of control sequences, only the ones that we draw with pass, and only to
a terminal; all others of C0 and C1, and characters that change the direction of text, are escaped as in JSON, so that
JSON stays JSON.
"""

import re
from typing import Any, Final

from purekube.apimachinery.secret_material import visible

_OURS: Final = re.compile(r"(\x1b\[(?:[0-9;]{0,12}m|[0-9]{0,3}[ABCDGHJK]|\?25[lh])|\r)")
"""The sequences for colours, and for redrawing a line or the screen."""


class VisibleStream:
    """A text stream on which only our own sequences control a terminal, and only if it is one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, with control characters escaped."""
        if self._stream.isatty():
            parts = _OURS.split(text)
            text = "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))
        else:
            text = visible(text)
        self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
