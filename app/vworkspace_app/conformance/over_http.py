"""The access of the conformance checks to a control plane at a URL: by its HTTP APIs and by a shell command.

The control plane is the server that offers jobs to the operator. By its agent API an agent fetches jobs and reports on
them. Jobs are offered by its admin API or, if it has none, by the shell command.
"""

import json
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import attrs

from purekube.apimachinery.errors import Permanent
from vworkspace_app.conformance.subject import Account, Offer, RawAnswer
from vworkspace_odoo import AdminClient, HttpControlPlane, tls_context


@attrs.frozen
class ControlPlaneAt:
    """The control plane to examine, given by its URL and credentials.

    Calling the object opens an `HttpSubject`, through which one check talks to the control plane. With an
    `admin_token`, the check can use the control plane's admin API. Otherwise it uses `token`, that of the agent of the
    cluster `cluster_id`. `enqueue_command` is a shell command that reads a job as JSON from standard input and prints
    its id. `ca` is the certificate authority to trust, in PEM.
    """

    url: str
    cluster_id: str = ""
    token: str = attrs.field(default="", repr=False)
    admin_token: str = attrs.field(default="", repr=False)
    enqueue_command: str = ""
    ca: str = attrs.field(default="", repr=False)
    enqueue_seconds: float = 15.0
    """The maximum number of seconds for one run of `enqueue_command`. The wait cannot be cancelled."""

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator["HttpSubject"]:
        """Open an `HttpSubject` for the block, and close its connections afterwards."""
        subject = HttpSubject(self)
        try:
            yield subject
        finally:
            with anyio.CancelScope(shield=True):
                await subject.aclose()


class HttpSubject:
    """The connections of one check to the control plane, over HTTP. They stay open until `aclose`."""

    def __init__(self, at: ControlPlaneAt) -> None:
        self._at = at
        self._trust = tls_context(at.ca, "", "")
        self._admin = AdminClient(at.url, at.admin_token, ssl_context=self._trust) if at.admin_token else None
        self._open: list[HttpControlPlane] = []

    @property
    def offers(self) -> frozenset[Offer]:
        """The capabilities of the control plane that checks can use in addition to the agent API.

        With a token of the admin API these are all capabilities, with an `enqueue_command` only JOBS, and otherwise
        none.
        """
        if self._admin is not None:
            return frozenset(Offer)
        return frozenset({Offer.JOBS} if self._at.enqueue_command else ())

    async def aclose(self) -> None:
        """Close the subject's connections."""
        for control in self._open:
            await control.aclose()
        if self._admin is not None:
            await self._admin.aclose()

    def control(self, token: str) -> HttpControlPlane:
        """Return a client of the agent API, by which an agent fetches jobs and reports on them, that authenticates with
        `token`.
        """
        control = HttpControlPlane(self._at.url, lambda: token, ssl_context=self._trust, allow_http=True)
        self._open.append(control)
        return control

    async def asked(self, method: str, path: str, token: str) -> RawAnswer:
        """Send a request below `/api/agent/` with no headers except the token, and return the unparsed response."""
        return RawAnswer(*await self.control(token).bare(method, path))

    async def account(self) -> Account:
        """Return an account for a check: the id of a cluster, and the token of its agent.

        With a token of the admin API, it is a new cluster. Otherwise it is the cluster that the user named for all
        checks.
        """
        if self._admin is None:
            return Account(self._at.cluster_id, self._at.token)
        made = Account(f"conformance-{uuid.uuid4().hex[:8]}", f"token-{uuid.uuid4().hex}")
        await self._admin.call("POST", "tokens", {"clusterId": made.cluster_id, "token": made.token})
        return made

    async def enqueue(self, cluster_id: str, job: Mapping[str, Any]) -> str:
        """Offer a job, by the admin API or else by the shell command `enqueue_command`, and return the job's id."""
        desired = {"clusterId": cluster_id, **job}
        if self._admin is None:
            return await self._by_command(desired)
        made = await self._admin.call("POST", "jobs", {"id": f"job-{uuid.uuid4().hex}", **desired})
        return str(made["id"])

    async def _by_command(self, job: Mapping[str, Any]) -> str:
        # In a thread: there a command that does not read all of its standard input causes no broken pipe.
        limit, given = self._at.enqueue_seconds, json.dumps(job).encode()
        try:
            done = await anyio.to_thread.run_sync(_shell, self._at.enqueue_command, given, limit)
        except subprocess.TimeoutExpired as error:
            raise Permanent(f"--enqueue-command did not end within {limit:g} s") from error
        job_id = done.stdout.decode(errors="replace").strip()
        if done.returncode or not job_id or "\n" in job_id:
            what = done.stderr.decode(errors="replace").strip()[-300:]
            raise Permanent(f"--enqueue-command must print the job's id alone; status {done.returncode}: {what}")
        return job_id

    async def withdraw(self, job_id: str) -> None:
        """Close a job by the admin API, although the agent has reported no result."""
        await self._ask("DELETE", f"jobs/{job_id}")

    async def job(self, job_id: str) -> Mapping[str, Any]:
        """Return a job with all that the agent reported about it."""
        job: Mapping[str, Any] = await self._ask("GET", f"jobs/{job_id}")
        return job

    async def events(self, cluster_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the events that the agent sent about a cluster."""
        events: Sequence[Mapping[str, Any]] = (await self._ask("GET", f"events?cluster={cluster_id}"))["events"]
        return events

    async def refuse(self, token: str) -> None:
        """Make the control plane refuse a token from now on."""
        await self._ask("DELETE", "tokens", {"token": token})

    async def registration(self, cluster_id: str) -> str:
        """Return a new one-time token to register a cluster."""
        return str((await self._ask("POST", "registrations", {"clusterId": cluster_id}))["registrationToken"])

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        assert self._admin is not None, "nobody asks for what is not offered"
        return await self._admin.call(method, path, body)


def _shell(command: str, given: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a shell. If it does not end in time, kill it with its children, and raise TimeoutExpired."""
    with subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, told = process.communicate(given, seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, told)
