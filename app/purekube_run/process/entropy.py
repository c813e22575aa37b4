"""Random text of the machine, good enough for passwords."""

import secrets


class SystemEntropy:
    """`Entropy` of the machine it runs on."""

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` random characters of `alphabet`."""
        return "".join(secrets.choice(alphabet) for _ in range(length))
