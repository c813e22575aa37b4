"""Files of a new project: never overwritten, with names that are valid in a cluster and in Python."""

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from purekube_run.process.errors import USAGE, CommandError

KIND: Final = (re.compile(r"[A-Z][A-Za-z0-9]{0,39}"), "WebApp")
GROUP: Final = (re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+"), "example.com")
PLURAL: Final = (re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"), "webapps")
PROJECT: Final = (re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"), "shops")


def check_name(given: str, form: tuple[re.Pattern[str], str]) -> None:
    """Raise CommandError for a name without this form."""
    if form[0].fullmatch(given) is None:
        raise CommandError(f"{given}: not a name such as {form[1]}", status=USAGE)


def module_of(project: str) -> str:
    """Return the module of a project. Raises CommandError for a keyword of Python."""
    name = project.replace("-", "_")
    if keyword.iskeyword(name):
        raise CommandError(f"{project}: a word of Python cannot be the name of a module", status=USAGE)
    return name


def write_new(files: Mapping[Path, str]) -> None:
    """Write all files and print their paths. Raises CommandError, before writing anything, if one exists."""
    if found := [path for path in files if path.exists()]:
        raise CommandError(f"{found[0]} exists: give --directory for another folder")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path}: cannot be written: {error.strerror}") from error
        print(f"wrote {path}")
