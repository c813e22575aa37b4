"""Where the agent's credential comes from: options, or the Secret in the operator's namespace (PULL-8)."""

import base64
import binascii
from pathlib import Path
from typing import Final, Protocol

import attrs

from vworkspace_app.problems import CommandError
from vworkspace_core.errors import KindMissing, NotFound, OperatorError, Unavailable
from vworkspace_core.known import SECRET
from vworkspace_core.manifest import ObjectRef, dig
from vworkspace_core.ports import KubeApi

__all__ = ["CREDENTIALS_SECRET", "Credentials", "CredentialsSource", "FileCredentials", "SecretCredentials"]

CREDENTIALS_SECRET: Final = "vworkspace-agent-credentials"


@attrs.frozen
class Credentials:
    """Who we are to the control plane. The token shows in no `repr`."""

    url: str
    cluster_id: str
    token: str = attrs.field(repr=False)


class CredentialsSource(Protocol):
    """Reads the credential, as often as it may have changed."""

    async def read(self) -> Credentials:
        """The credential as it is now. Raises CommandError for one that is missing or incomplete, Unavailable."""
        ...


@attrs.frozen
class FileCredentials:
    """From `--control-plane-url`, `--cluster-id` and `--token-file`; the file is read anew each time."""

    url: str
    cluster_id: str
    token_file: Path

    async def read(self) -> Credentials:
        """The token without surrounding white space."""
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"--token-file {self.token_file}: cannot be read: {_why(error)}") from error
        if not token:
            raise CommandError(f"--token-file {self.token_file}: is empty")
        return Credentials(self.url, self.cluster_id, token)


@attrs.frozen
class SecretCredentials:
    """From the Secret `vworkspace-agent-credentials`; options given beside it win."""

    api: KubeApi
    namespace: str
    url: str = ""
    cluster_id: str = ""

    async def read(self) -> Credentials:
        """Every key it needs, or an error that names the ones missing."""
        ref = ObjectRef(SECRET, self.namespace, CREDENTIALS_SECRET)
        try:
            secret = await self.api.get(ref)
        except (NotFound, KindMissing) as error:
            raise CommandError(
                f"{ref} does not exist: create it, or give --control-plane-url, --cluster-id and --token-file"
            ) from error
        except Unavailable:
            raise
        except OperatorError as error:
            raise CommandError(f"{ref} cannot be read: {error.message}") from error
        found = {key: _decoded(dig(secret, "data", key)) for key in ("control-plane-base-url", "cluster-id", "token")}
        found |= {key: given for key, given in self._given().items() if given}
        if absent := [key for key, value in found.items() if not value]:
            raise CommandError(f"{ref} lacks {', '.join(absent)}")
        return Credentials(found["control-plane-base-url"], found["cluster-id"], found["token"])

    def _given(self) -> dict[str, str]:
        return {"control-plane-base-url": self.url, "cluster-id": self.cluster_id}


def _why(error: OSError | UnicodeDecodeError) -> str:
    """The problem without the file's content, which is a token."""
    return (error.strerror or "it is no file") if isinstance(error, OSError) else "it is not UTF-8 text"


def _decoded(value: object) -> str:
    if not isinstance(value, str):
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return ""
