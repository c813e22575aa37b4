"""The one kind of error that ends a command: a line for standard error that says what to do, and an exit status."""

FAILURE = 1
USAGE = 2
INTERRUPTED = 130


class CommandError(Exception):
    """Ends the command. `message` is one line, free of secrets; `status` is the exit status."""

    def __init__(self, message: str, *, status: int = FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def unwrap_group(error: BaseException) -> BaseException:
    """Return the error without the task groups around it; still a group if it holds more than one error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
