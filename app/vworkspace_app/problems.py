"""The one kind of error that ends a command: a line for standard error that says what to do, and an exit status."""

__all__ = ["FAILURE", "USAGE", "CommandError"]

FAILURE = 1
USAGE = 2


class CommandError(Exception):
    """Ends the command. `message` is one line, free of secrets; `status` is the exit status."""

    def __init__(self, message: str, *, status: int = FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
