"""Texts that lie in a file which an option names: tokens, authorities."""

from pathlib import Path

from vworkspace_app.process.errors import CommandError


def read_text(option: str, file: Path) -> str:
    """What `file` holds, without surrounding white space. Raises CommandError, which shows nothing of it."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise CommandError(f"{option} {file}: cannot be read: it is not UTF-8 text") from None
    except OSError as error:
        raise CommandError(f"{option} {file}: cannot be read: {error.strerror or 'it is no file'}") from error
    if not text:
        raise CommandError(f"{option} {file}: is empty")
    return text
