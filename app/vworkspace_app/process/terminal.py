"""The one place through which everything is printed: what would steer a terminal is shown, not obeyed (RUN-12).

Messages come from charts, engines and tenants. Of what a terminal obeys, only the sequences that we draw with pass, and
only where a terminal reads; everything else of C0 and C1, and what changes the direction of text, is written as JSON
escapes it, so that JSON stays JSON.
"""

import re
from typing import Any, Final

from vworkspace_core.apimachinery.secret_material import visible

_OURS: Final = re.compile(r"(\x1b\[(?:[0-9;]{0,12}m|[0-9]{0,3}[ABCDGHJK]|\?25[lh])|\r)")
"""Colours, and what redraws a line or the screen."""


class VisibleStream:
    """A text stream on which nothing but our own sequences steers a terminal, and these only on one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, as it may be seen."""
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
