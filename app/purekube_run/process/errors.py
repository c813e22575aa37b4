"""The one kind of error that ends a command: a line for standard error that says what to do, and an exit status."""

FAILURE = 1
USAGE = 2
INTERRUPTED = 130


class CommandError(Exception):
    """The error that ends a command. `message` is one line, free of secrets; `status` is the exit status."""

    def __init__(self, message: str, *, status: int = FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
