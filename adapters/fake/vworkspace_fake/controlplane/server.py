"""A complete vWorkspace control plane in memory: synchronous, deterministic, with an injected clock (PULL-11).

A control plane sends jobs (units of work) to agents; an agent is the operator in a cluster. The methods of the agent
API take the caller's bearer token and raise `ApiRefusal`. Methods such as `enqueue` do what Odoo does in production;
the admin API calls them. Two adapters use the server: `InProcessControlPlane` and the HTTP application.
"""

import math
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from purekube.apimachinery.timestamps import format_time
from vworkspace_fake.controlplane.bodies import BATCH_LIMIT, check_event, check_result, check_status
from vworkspace_fake.controlplane.faults import AgentCall, Faults, ScriptedFault
from vworkspace_fake.controlplane.jobs import JobBook, JobEntry
from vworkspace_fake.controlplane.refusals import ApiRefusal
from vworkspace_fake.controlplane.tokens import IssuedToken, TokenBook


def system_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


@attrs.frozen
class RateLimit:
    """A limit of `requests` per `seconds` (PULL-7), by a token bucket that holds `requests` tokens and fills evenly."""

    requests: int
    seconds: float


@attrs.define
class RequestRateLimiter:
    """A limiter of the request rate, with a token bucket for each caller. There is no limit while `limit` is None."""

    limit: RateLimit | None = None
    _buckets: dict[str, tuple[float, datetime]] = attrs.field(factory=dict, init=False, repr=False)

    def take(self, caller: str, now: datetime) -> None:
        """Count one request of `caller`. If it exceeds the limit, raise a 429 ApiRefusal with the time to wait."""
        if self.limit is None:
            return
        rate = self.limit.requests / self.limit.seconds
        left, since = self._buckets.get(caller, (float(self.limit.requests), now))
        left = min(float(self.limit.requests), left + max(0.0, (now - since).total_seconds()) * rate)
        if left < 1:
            self._buckets[caller] = (left, now)
            raise ApiRefusal(429, "too many requests", retry_after=float(math.ceil((1 - left) / rate)))
        self._buckets[caller] = (left - 1, now)


@attrs.define
class ControlPlaneServer:
    """A vWorkspace control plane in memory, which sends jobs (units of work) to clusters.

    `now` is its clock. `mint` makes the texts of new tokens. `seal`, if set, encrypts and signs each job for a cluster
    before it is sent.
    """

    now: Callable[[], datetime] = system_now
    redelivery: timedelta = timedelta(seconds=5)
    rotation_grace: timedelta = timedelta(minutes=10)
    token_lifetime: timedelta | None = None
    job_lifetime: timedelta = timedelta(hours=1)
    rate_limit: RateLimit | None = None
    mint: Callable[[], str] = attrs.field(default=lambda: secrets.token_urlsafe(32), repr=False)
    seal: Callable[[Mapping[str, Any], str], Mapping[str, Any]] | None = attrs.field(default=None, repr=False)
    faults: Faults = attrs.field(factory=Faults, init=False)
    tokens: TokenBook = attrs.field(init=False)
    jobs: JobBook = attrs.field(init=False)
    _limiter: RequestRateLimiter = attrs.field(init=False, repr=False)
    _events: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False, repr=False)
    _listeners: list[Callable[[], None]] = attrs.field(factory=list, init=False, repr=False)
    _numbers: int = attrs.field(default=0, init=False)
    _requests: int = attrs.field(default=0, init=False)
    events_repeated: int = attrs.field(default=0, init=False)
    requests: deque[tuple[datetime, AgentCall]] = attrs.field(
        init=False, repr=False, factory=lambda: deque(maxlen=10_000)
    )

    def __attrs_post_init__(self) -> None:
        self.tokens = TokenBook(self.now, self.mint, self.rotation_grace, self.token_lifetime)
        self.jobs = JobBook(self.redelivery)
        self._limiter = RequestRateLimiter(self.rate_limit)

    def request_id(self) -> str:
        """Return a new id for a request. The body of an error answer contains this id."""
        self._requests += 1
        return f"request-{self._requests}"

    def incoming(self, call: AgentCall) -> ScriptedFault:
        """Record a request to the endpoint `call`, with its time, in the list `requests`.

        Return the injected fault to apply to the request. `NO_FAULT` means that none applies.
        """
        self.requests.append((self.now(), call))
        return self.faults.take(call)

    # --- the agent's side ---------------------------------------------------------------------------------

    def fetch(self, token: str | None, cluster_id: str) -> list[Any]:
        """Return the jobs that are offered to the cluster now, without waiting. Each is a JSON value as it is sent.

        Raises ApiRefusal if the token is not valid for the cluster, or if the cluster exceeds the rate limit.
        """
        caller = self._caller(token)
        if caller != cluster_id:
            raise ApiRefusal(403, f"the token is not for cluster {cluster_id}")
        return self.jobs.offer(cluster_id, self.now())

    def poll(self, token: str | None, cluster_id: str) -> list[Any]:
        """Return the jobs that are offered to the cluster now, for a long poll that has begun with `fetch`.

        A waiting long poll calls this method repeatedly. Unlike `fetch`, it does not count against the rate limit.
        """
        if self.tokens.cluster_of(token) != cluster_id:
            raise ApiRefusal(403, f"the token is not for cluster {cluster_id}")
        return self.jobs.offer(cluster_id, self.now())

    def ack(self, token: str | None, job_id: str) -> None:
        """Record the agent's acknowledgement of a job, so that the job is not offered again.

        Raises ApiRefusal, such as 409 for a job that already has a result.
        """
        self.jobs.ack(self._caller(token), job_id, self.now())

    def status(self, token: str | None, job_id: str, body: Any) -> None:
        """Record the progress report `body` of a job. Raises ApiRefusal, such as 400 for an invalid body."""
        caller = self._caller(token)
        _refuse_if(check_status(body))
        self.jobs.status(caller, job_id, body)

    def result(self, token: str | None, job_id: str, body: Any) -> None:
        """Record `body` as the result of a job. Raises a 409 ApiRefusal if the job already has a result."""
        caller = self._caller(token)
        _refuse_if(check_result(body))
        self.jobs.result(caller, job_id, body, self.now())

    def events(self, token: str | None, body: Any) -> None:
        """Record the batch of events in `body`, either all or none of them. Raises ApiRefusal 400 for an invalid batch.

        An event whose `eventKey` is known already is not stored again, but increments `events_repeated`.
        """
        caller = self._caller(token)
        batch = body.get("events") if isinstance(body, Mapping) else None
        if not isinstance(batch, list) or not 0 < len(batch) <= BATCH_LIMIT:
            raise ApiRefusal(400, f"events: must be a list of 1 to {BATCH_LIMIT}")
        _refuse_if([f"events[{at}].{problem}" for at, event in enumerate(batch) for problem in check_event(event)])
        for event in batch:
            self._keep(caller, event)

    def _keep(self, cluster_id: str, event: Mapping[str, Any]) -> None:
        known = self._events.setdefault(cluster_id, {})
        if event["eventKey"] in known:
            self.events_repeated += 1
        else:
            known[event["eventKey"]] = event

    def register(self, token: str | None, body: Any) -> dict[str, Any]:
        """Exchange a one-time token for a long-lived token, and return the answer that contains it.

        The agent sends the one-time token twice: as the bearer token, and in the body.
        """
        text = body.get("registrationToken") if isinstance(body, Mapping) else None
        cluster_id = body.get("clusterId") if isinstance(body, Mapping) else None
        if not isinstance(text, str) or not isinstance(cluster_id, str | None):
            raise ApiRefusal(400, "registrationToken: must be a string; clusterId: a string or absent")
        if token != text:
            raise ApiRefusal(401, "the registration token must be the bearer token")
        issued = self.tokens.register(text, cluster_id)
        return {"clusterId": issued.cluster_id, **_issued(issued)}

    def rotate(self, token: str | None) -> dict[str, Any]:
        """Issue a new token for the cluster that has `token`, and return the answer that contains it."""
        self._caller(token)
        return _issued(self.tokens.rotate(token))

    def _caller(self, token: str | None) -> str:
        cluster_id = self.tokens.cluster_of(token)
        self._limiter.take(cluster_id, self.now())
        return cluster_id

    # --- Odoo's side ----------------------------------------------------------------------------------------

    def enqueue(
        self,
        cluster_id: str,
        *,
        kind: str,
        payload: Any,
        idempotency_key: str,
        job_id: str | None = None,
        expires_in: timedelta | None = None,
        **fields: Any,
    ) -> JobEntry:
        """Add a well-formed job for the cluster. Return the job's entry, which records what is reported about the job.

        If the server has a function `seal`, it encrypts and signs the job. `fields` are further fields of the job as it
        is sent.
        """
        created = self.now()
        lifetime = self.job_lifetime if expires_in is None else expires_in
        raw = {
            "id": job_id or f"job-{self._numbers + 1}",
            "kind": kind,
            "payload": payload,
            "idempotencyKey": idempotency_key,
            "createdAt": format_time(created),
            "expiresAt": format_time(created + lifetime),
            **fields,
        }
        return self.enqueue_raw(cluster_id, raw if self.seal is None else self.seal(raw, cluster_id))

    def enqueue_raw(self, cluster_id: str, raw: Any) -> JobEntry:
        """Add any value as a job for the cluster. Return the job's entry, which records what is reported about the job.

        The job may be malformed, to test that the agent survives such a job (PULL-7).
        """
        job_id = raw.get("id") if isinstance(raw, Mapping) else None
        self._numbers += 1
        usable = isinstance(job_id, str | int) and not isinstance(job_id, bool)
        entry = JobEntry(str(job_id) if usable else f"unnamed-{self._numbers}", cluster_id, raw)
        self.jobs.add(entry)
        self.wake()
        return entry

    def close_job(self, job_id: str) -> None:
        """Withdraw a job. Later calls about this job are answered with 404."""
        self.jobs.close(job_id, self.now())

    def events_of(self, cluster_id: str) -> Sequence[Any]:
        """Return the events of the cluster, each once, in the order of their arrival."""
        return list(self._events.get(cluster_id, {}).values())

    # --- long polls -----------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever a waiting long poll should check for jobs again. Each waiting long poll subscribes.

        Return the function that ends the subscription.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def waiting(self) -> int:
        """The number of long polls that wait at this moment."""
        return len(self._listeners)

    def wake(self) -> None:
        """Make every waiting long poll check for jobs again."""
        for listener in list(self._listeners):
            listener()

    def seconds_to_offer(self, cluster_id: str) -> float | None:
        """Return the seconds until a job that the cluster has not acknowledged is offered to it again.

        Return None if there is no such job.
        """
        at = self.jobs.next_offer(cluster_id)
        return None if at is None else max(0.0, (at - self.now()).total_seconds())


def _issued(token: IssuedToken) -> dict[str, Any]:
    return {"token": token.text, **({"expiresAt": format_time(token.ends)} if token.ends else {})}


def _refuse_if(problems: list[str]) -> None:
    if problems:
        raise ApiRefusal(400, "; ".join(problems))
