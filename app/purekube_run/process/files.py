"""Files named by options, with a text in each: tokens, authorities."""

from pathlib import Path

from purekube_run.process.errors import CommandError


def read_text(option: str, file: Path) -> str:
    """Return the text of `file` without surrounding white space. Raises CommandError, whose message contains none of
    it.
    """
    try:
        text = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise CommandError(f"{option} {file}: cannot be read: it is not UTF-8 text") from None
    except OSError as error:
        raise CommandError(f"{option} {file}: cannot be read: {error.strerror or 'it is no file'}") from error
    if not text:
        raise CommandError(f"{option} {file}: is empty")
    return text
