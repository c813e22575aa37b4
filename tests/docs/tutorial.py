"""A page that a newcomer follows: its blocks by name, its servers at work, its commands in a shell."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import attrs

from tests.docs import newcomer

_BLOCK = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@attrs.define(slots=False)
class Tutorial:
    """One page, followed in `folder`."""

    page: Path
    folder: Path

    @cached_property
    def blocks(self) -> list[tuple[str, str, str]]:
        """Language, name and text of each."""
        return _BLOCK.findall(self.page.read_text(encoding="utf-8"))

    def block(self, language: str, name: str) -> str:
        """The text of one."""
        (text,) = (text for *what, text in self.blocks if what == [language, name])
        return text

    @contextmanager
    def started(self, name: str, instead: Mapping[str, str] = {}) -> Iterator["subprocess.Popen[str]"]:
        """The one command of a block, at work in the folder, with other words `instead` of some."""
        command = [instead.get(word, word) for word in shlex.split(self.block("sh", name))]
        with newcomer.started(self.folder, shlex.join(command)) as process:
            yield process

    def shell(self, commands: str) -> str:
        """What commands print, on either output, once all have succeeded."""
        return newcomer.shell(self.folder, commands)
