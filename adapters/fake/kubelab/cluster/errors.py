"""The error of a laboratory that cannot be started as requested."""


class KubelabError(Exception):
    """The error that the laboratory cannot start, with what to do.

    `option` is the option to blame, such as `simulate`; `is_misuse`: the options themselves are wrong.
    """

    def __init__(self, text: str, *, option: str = "", is_misuse: bool = False) -> None:
        super().__init__(f"{option} {text}" if option else text)
        self.text = text
        self.option = option
        self.is_misuse = is_misuse

    @property
    def as_flag(self) -> str:
        """The message for the command line."""
        return f"--{self.option.replace('_', '-')} {self.text}" if self.option else self.text
