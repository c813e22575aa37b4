"""`KubeApi` over aiohttp: the operator's only way to a real API server.

aiohttp sends the requests. lightkube reads the kubeconfig or the in-cluster configuration, and handles credential
plugins and TLS. Its own requests are not used, because their faults must not reach a reconciler; the modules
`requests`, `errors` and `watch` replace them.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

import attrs
from lightkube.config.kubeconfig import SingleConfig

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.ports import KubeApi, KubeRequest, KubeVerb
from purekube_http.http import HttpTransport
from purekube_http.responses import review_of, version_of

_VERSION = Kind("", "v1", "version", "version", namespaced=False)
"""A placeholder kind that names `/version`, which is not a resource, in error messages."""
_TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")


class KubeApiClient(KubeApi):
    """A client of the API server in `config`, to be used as an async context manager.

    `request_timeout` limits the seconds of connecting, of sending, and of each silence while reading. It must be more
    than the 30 s that an admission webhook may take. A watch may be silent for its own timeout plus `watch_grace`.
    Token and CA files are read again after `credential_max_age` seconds. `observe` is called for every request, with
    its method, the status code or `<error>`, and the seconds until the answer began. `before_write` is called before
    every write, and may stop it by raising an error. `user_agent` names the program in audit logs; without it the name
    is purekube's. In addition to `KubeApi` the client has calls that only the command-line commands need.
    """

    def __init__(self, config: SingleConfig, **settings: Any) -> None:
        self._http = HttpTransport(config, **settings)
        self.server: str = config.cluster.server
        """The URL of the API server."""
        super().__init__(self._http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, including watches.

        Clients made by `impersonating` or `through` share the connections, so they are closed as well.
        """
        await self._http.close()

    async def server_version(self) -> str:
        """Return the API server's version, such as `v1.36.2`."""
        request = KubeRequest(KubeVerb.GET, _VERSION, account=self._account)
        return version_of(request, await self._http.body_of(request, "/version"))

    async def token_of(self, account: ObjectRef, seconds: int) -> str:
        """Return a new token of a service account, valid for `seconds` (TokenRequest).

        Raises NotFound if the account does not exist, and Forbidden without the right to create tokens.
        """
        body = {
            "apiVersion": _TOKEN_REQUEST.api_version,
            "kind": _TOKEN_REQUEST.kind,
            "spec": {"expirationSeconds": seconds},
        }
        request = self._about(KubeVerb.CREATE, account, subresource="token", body=body)
        answer = review_of(attrs.evolve(request, kind=_TOKEN_REQUEST), await self._http.body_of(request))
        return str(answer["status"]["token"])

    async def pod_log(
        self, pod: ObjectRef, container: str, *, follow: bool = False, tail_lines: int | None = None
    ) -> AsyncIterator[str]:
        """Yield the lines of a container's log: all of them, or the last `tail_lines` if given.

        With `follow`, wait for further lines; otherwise stop at the present end of the log.
        """
        params = {"container": container, "follow": "true" if follow else "", "tailLines": tail_lines}
        request = self._about(KubeVerb.GET, pod, params, subresource="log")
        async for line in self._http.lines(request, follow=follow):
            yield line
