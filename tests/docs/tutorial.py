"""A page that a newcomer follows: its blocks by name, its servers at work, its commands in a shell."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import attrs

from tests.support.commands import clean_environment
from tests.support.patience import PATIENCE

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
        words = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        environment = clean_environment(self.folder, {})
        process = subprocess.Popen(words, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            yield process
            assert process.poll() is None, "it goes on"
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)

    def shell(self, commands: str) -> str:
        """What commands print, on either output, once all have succeeded."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-ec", commands],
            cwd=self.folder,
            env=clean_environment(self.folder, {"PATH": path}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout
