"""The sources of the agent's credential: options, a token file, and the Secret in the operator's namespace (PULL-8).

Options have precedence over the Secret. With a token file the Secret may be missing; if it exists, its other keys are
used.
"""

from datetime import UTC, datetime
from pathlib import Path

import attrs

from purekube.apimachinery.errors import Forbidden, NotFound, OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube.ports import KubeApi
from purekube_run.process.command_line import CommandError, read_text
from vworkspace_core.credentials.secret import (
    CredentialKey,
    Credentials,
    StoredCredential,
    credentials_of,
    secret_ref,
)


@attrs.frozen
class CredentialsSource:
    """The options, token file and Secret from which the agent's credential is read.

    If `agent` is False, no key of the Secret is required, and only the approval secret is read, the key with which
    approvals of Operations are verified (SEE-4). With `allow_http` the token may be sent to another machine over plain
    http:// (PULL-9).
    """

    api: KubeApi
    namespace: str
    url: str = ""
    cluster_id: str = ""
    token_file: Path | None = None
    agent: bool = True
    allow_http: bool = False

    async def read(self) -> Credentials:
        """Return the present credential from the options, the token file and the Secret.

        Raises CommandError if it is missing or incomplete, and Unavailable or Unauthorized if the Secret cannot be
        read.
        """
        credentials = await self.look()
        if not self.agent:
            secret = None if credentials is None else credentials.approval_secret
            return Credentials(cluster_id=self.cluster_id, approval_secret=secret)
        ref = secret_ref(self.namespace)
        if credentials is None:
            raise CommandError(f"{ref} does not exist")
        if absent := [key for key, value in _needed(credentials).items() if not value]:
            raise CommandError(f"{ref} lacks {', '.join(absent)}")
        return credentials

    async def look(self) -> Credentials | None:
        """Return the present credential, even if it is incomplete.

        Return None if there is neither a Secret nor a token file. Raises CommandError if the credential cannot be read
        or its cluster id is no valid label value. Raises Unavailable and Unauthorized if the API server does not return
        the Secret.
        """
        token = None if self.token_file is None else read_text("--token-file", self.token_file)
        stored = await self._stored()
        if token is None:
            return None if stored is None else self._with_options(stored)
        # The Secret's notes about tokens concern its own token, not the file's.
        since = _since(self.token_file) if self.token_file else None
        return self._with_options(
            attrs.evolve(stored or Credentials(), token=token, since=since, stored=StoredCredential())
        )

    def _with_options(self, stored: Credentials) -> Credentials:
        cluster_id = self.cluster_id or stored.cluster_id
        if cluster_id and not is_label_value(cluster_id):
            key, ref = CredentialKey.CLUSTER_ID.value, secret_ref(self.namespace)
            raise CommandError(f"{ref}: {key} has to be the value of a label: {LABEL_RULE}")
        return attrs.evolve(stored, url=self.url or stored.url, cluster_id=cluster_id)

    async def _stored(self) -> Credentials | None:
        """Return the content of the Secret.

        Return None if it does not exist, or if the operator may not read it and does not need it. Raises CommandError
        if the Secret cannot be read, and Unavailable and Unauthorized from the API server.
        """
        ref = secret_ref(self.namespace)
        try:
            return credentials_of(await self.api.get(ref))
        except NotFound:
            return None
        except (Unavailable, Unauthorized):
            raise
        except OperatorError as error:
            if isinstance(error, Forbidden) and (self.token_file is not None or not self.agent):
                return None  # the Secret is not needed
            raise CommandError(f"{ref} cannot be read: {error.message}") from error


def _needed(credentials: Credentials) -> dict[str, str]:
    """Return the values without which there is no connection to the control plane, by their keys in the Secret."""
    return {
        CredentialKey.URL.value: credentials.url,
        CredentialKey.CLUSTER_ID.value: credentials.cluster_id,
        CredentialKey.TOKEN.value: credentials.token,
    }


def _since(file: Path) -> datetime | None:
    """Return the time at which the file was written, or None if that is unknown."""
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None
