"""`ControlPlane` over HTTPS: the agent API of an Odoo with vWorkspace (PULL-1).

Through this API the agent, which is the operator in a cluster, fetches jobs (units of work) and reports their results.
"""

import json
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import anyio
import attrs
import httpx2

from purekube.apimachinery.errors import (
    Invalid,
    JobClosed,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.secret_material import redact, without_user
from vworkspace_core.control_plane.port import Fetched
from vworkspace_odoo.decoding import LONGEST_BODY, decode, fits, is_json, jobs_of, jobs_that_fit
from vworkspace_odoo.failures import control_plane_refusal, error_in, server_time, transport_failure
from vworkspace_odoo.tls import cleartext_problem, default_verify, is_loopback

MEDIA_TYPE: Final = "application/vnd.vworkspace.agent.v1+json"
"""The media type of every request and answer: version 1 of the protocol."""

TOKEN_TEXT: Final = re.compile(r"[\x21-\x7e]+")
"""The pattern of tokens that can be sent in an HTTP header: printable ASCII without spaces."""
_LONGEST_WAIT: Final = 300


@attrs.frozen
class _Answer:
    status: int
    headers: httpx2.Headers
    body: bytes
    whole: bool = True


class HttpControlPlane:
    """A client of the control plane at `base_url`.

    `token` is called before each request and returns the bearer token, so that a new token is used at once. `margin` is
    the number of seconds that the answer to a long poll may take beyond the poll's wait. Other requests may take
    `timeout` seconds. An answer with more than `longest_body` bytes is not read to its end. `transport` replaces
    sockets in a simulation. Raises ValueError for an unusable URL, and for http:// to another machine unless
    `allow_http`. Use the client as an async context manager, or close the client.
    """

    def __init__(
        self,
        base_url: str,
        token: Callable[[], str],
        *,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = 30.0,
        margin: float = 15.0,
        longest_body: int = LONGEST_BODY,
        transport: httpx2.AsyncBaseTransport | None = None,
        allow_http: bool = False,
    ) -> None:
        self._base = _agent_url(base_url, allow_http=allow_http)
        self._token = token
        self._timeout = timeout
        self._margin = margin
        self._longest = longest_body
        self._client = http_client(
            self._base,
            verify=default_verify(self._base) if ssl_context is None else ssl_context,
            headers={"Accept": MEDIA_TYPE, "User-Agent": "vworkspace-operator"},
            follow_redirects=False,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"HttpControlPlane({self._base!r})"

    async def __aenter__(self) -> "HttpControlPlane":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the control plane."""
        await self._client.aclose()

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Fetched:
        """Return the jobs for the cluster, with the time in the answer's `Date` header.

        If there is none, wait at most `wait_seconds` for a job (long poll). If the answer has too many bytes or JSON
        values, only the first jobs that fit into the limits are returned (PULL-7).
        """
        wait = min(max(wait_seconds, 0), _LONGEST_WAIT)
        path = f"jobs?cluster={quote(cluster_id, safe='')}&wait={wait}"
        answer = await self._send("GET", path, timeout=wait + self._margin, whole=False)
        where = self._where("GET", "jobs")
        self._expect_json(answer, where)
        if answer.whole and fits(answer.body):
            return Fetched(jobs_of(answer.body, where), server_time(answer.headers))
        jobs = await anyio.to_thread.run_sync(jobs_that_fit, answer.body, where, self._longest)
        return Fetched(jobs, server_time(answer.headers))

    async def ack(self, job_id: str) -> None:
        """Acknowledge a job, so that the control plane does not offer it again.

        Raises NotFound after a 404, even if its body is an HTML page, and JobClosed after a 409 of the control plane.
        """
        try:
            await self._done("POST", f"jobs/{quote(job_id, safe='')}/ack")
        except Permanent as error:
            match error.status:
                case 404:
                    raise NotFound(error.message) from error
                case 409:
                    raise JobClosed(error.message) from error
                case _:
                    raise

    async def status(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Report progress of an open job, which has no final result yet.

        `body` has the phase of the work, a message for users, and conditions.
        """
        await self._done("POST", f"jobs/{quote(job_id, safe='')}/status", body)

    async def result(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Report `body` as the final result of a job.

        A 409 of the control plane means that the result was received before, and counts as a success.
        """
        try:
            await self._done("POST", f"jobs/{quote(job_id, safe='')}/result", body)
        except Permanent as error:
            if error.status != 409:
                raise

    async def events(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Send the control plane a batch of events, each a JSON object.

        None of them belongs to an open job (a job without a final result).
        """
        await self._done("POST", "events", {"events": list(batch)})

    async def register(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange a one-time token for a long-lived token. Return the answer that contains the long-lived token.

        `body` has the one-time token as `registrationToken`, which is also sent as the bearer token.
        """
        token = body.get("registrationToken")
        if not isinstance(token, str):
            raise Invalid("registrationToken: is required")
        answer = await self._send("POST", "register", body, token=token)
        return self._json(answer, "POST", "register")

    async def rotate(self) -> Mapping[str, Any]:
        """Request a new token for the cluster of the present one. Return the answer that contains the new token."""
        answer = await self._send("POST", "credentials/rotate", {})
        return self._json(answer, "POST", "credentials/rotate")

    async def bare(self, method: str, path: str) -> tuple[int, str, bytes]:
        """Send a request without a body, and return the answer's status, content type and body.

        `path` is relative to the agent API. Any status is returned, not raised: the caller checks whether the control
        plane conforms to the protocol.
        """
        where, timeout = self._where(method, path.partition("?")[0]), self._timeout
        request = self._request(method, path, None, self._token(), timeout)
        answer = await self._bounded(where, timeout, lambda: self._exchange(request, where))
        return answer.status, answer.headers.get("content-type", ""), answer.body

    async def _done(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a request whose successful answer is not needed. Raises Unavailable for content other than JSON."""
        answer = await self._send(method, path, body)
        if answer.body.strip() and not is_json(answer.headers.get("content-type", "")):
            # A 200 with a login page or a proxy's notice is no answer of the control plane.
            raise Unavailable(f"{self._where(method, path)}: {answer.status} with {_type(answer)}, not with JSON")

    def _json(self, answer: _Answer, method: str, path: str) -> Mapping[str, Any]:
        where = self._where(method, path)
        self._expect_json(answer, where)
        return decode(answer.body, where)

    def _expect_json(self, answer: _Answer, where: str) -> None:
        if not is_json(answer.headers.get("content-type", "")):
            raise Unavailable(f"{where}: {answer.status} with {_type(answer)}, not with JSON")

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        token: str | None = None,
        whole: bool = True,
    ) -> _Answer:
        """Send one request and return its successful answer.

        Raises an OperatorError for any other status, and Unavailable for an error in its JSON. An answer that is too
        long raises Unavailable if `whole`, and is cut off otherwise. `token` replaces the current token.
        """
        where = self._where(method, path.partition("?")[0])
        bearer = self._token() if token is None else token
        if not TOKEN_TEXT.fullmatch(bearer):
            raise Unauthorized(f"{where}: the token is empty or has characters that no header can hold")
        request = self._request(method, path, body, bearer, timeout or self._timeout)
        answer = await self._bounded(where, timeout or self._timeout, lambda: self._exchange(request, where, whole))
        if 200 <= answer.status < 300:
            if said := error_in(answer.headers, answer.body):
                raise without_token(Unavailable(f"{where}: {answer.status} with an error: {said}"), bearer)
            return answer
        raise without_token(control_plane_refusal(answer.status, answer.headers, answer.body, where), bearer)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, bearer: str, timeout: float
    ) -> httpx2.Request:
        headers = {"Authorization": f"Bearer {bearer}"}
        content = None
        if body is not None:
            headers["Content-Type"] = MEDIA_TYPE
            # NaN and infinities are not JSON (RFC 8259, section 6), though Python writes them.
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        # Connecting must be quick, however long the answer may take.
        limits = httpx2.Timeout(timeout, connect=min(timeout, self._margin))
        return self._client.build_request(
            method, f"{self._base}{path}", headers=headers, content=content, timeout=limits
        )

    async def _bounded(self, where: str, timeout: float, exchange: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Send one request by calling `exchange`, and return the answer. The total time is limited.

        The limit is somewhat more than twice `timeout`. Without a limit, a server that sends single bytes could block
        the agent forever. Raises Unavailable if the limit is exceeded, or if there is no answer. `where` names the
        request in the message.
        """
        try:
            with anyio.fail_after(2 * timeout + self._margin):
                return await exchange()
        except TimeoutError:
            raise Unavailable(f"{where}: the answer did not end in time") from None
        except httpx2.HTTPError as error:
            raise transport_failure(error, where) from error

    async def _exchange(self, request: httpx2.Request, where: str, whole: bool = True) -> _Answer:
        answer = await self._client.send(request, stream=True)
        try:
            body = bytearray()
            # Content-Length proves nothing: a chunked or compressed answer may have any size once it is decoded.
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > self._longest:
                    break
            if whole and len(body) > self._longest:
                raise Unavailable(f"{where}: the answer has more than {self._longest} bytes")
            return _Answer(answer.status_code, answer.headers, bytes(body), whole=len(body) <= self._longest)
        finally:
            await answer.aclose()

    def _where(self, method: str, path: str) -> str:
        return f"{method} {self._base}{path}"


def http_client(url: str, **options: Any) -> httpx2.AsyncClient:
    """Return an HTTP client for `url` with these options of httpx2, which keeps no cookies.

    As in Go, requests to this machine go to no proxy. Raises ValueError if the environment names a proxy that cannot be
    used.
    """
    # The token alone says who calls: Odoo refuses it together with a session that began under another user's token.
    without_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    try:
        host = httpx2.URL(url).host
        shown = f"[{host}]" if ":" in host else host
        direct = {f"all://{shown}": None} if is_loopback(host) else {}
        return httpx2.AsyncClient(cookies=without_cookies, mounts=direct, **options)
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        problem = redact(str(error))
        raise ValueError(f"HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names a proxy that cannot be used: {problem}") from None


def _agent_url(base_url: str, *, allow_http: bool) -> str:
    """Return the URL of the agent API.

    A user name in the URL is left out, as httpx would send it instead of the token.
    """
    try:
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in ("http", "https") and parts.port != 0 and bool(httpx2.URL(base_url.strip()).host)
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if not usable:
        raise ValueError(f"the control plane's URL must be like https://odoo.example.com, not {without_user(base_url)}")
    if problem := cleartext_problem(base_url, allow_http=allow_http):
        raise ValueError(problem)
    path = parts.path.rstrip("/").removesuffix("/api/agent") + "/api/agent/"
    return without_user(urlunsplit((parts.scheme, parts.netloc, path, "", "")))


def _type(answer: _Answer) -> str:
    return answer.headers.get("content-type", "no content type").partition(";")[0][:100]


def without_token(error: OperatorError, token: str) -> OperatorError:
    """Return the error with the token removed from its message, in case the server echoed it."""
    if token in error.message:
        error.message = error.message.replace(token, "***")
        error.args = (error.message,)
    return error
