"""The portal's REST API, from inside of a batch job."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from batch.command_line import Refused

_TIMEOUT_S = 30
_ID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_ANSWER_BYTES_MAX = 8 << 20


class Portal:
    """Requests with the token of the running job: as the job's owner, about jobs only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        server, token = environment.get("TIDEGATE_SERVER"), environment.get("TIDEGATE_TOKEN")
        if not server or not token:
            raise Refused("jobs on this cluster have no access to the portal.")
        self._base = f"{server.rstrip('/')}/api/v1/"
        self._token = token
        self._environment = environment

    def get(self, path: str, **parameters: str) -> Any:
        """Return the answer to GET. Raises Refused where there is none."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return self._ask("GET", path + query, None)

    def get_page(self, address: str) -> Any:
        """Return the answer to GET at an address that a page of the portal gives."""
        return self._ask("GET", address.partition("/api/v1/")[2], None)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to POST. Raises Refused where there is none."""
        return self._ask("POST", path, body)

    def id_of(self, job: str) -> str:
        """Return the id of `job`: an id, or the number by which Slurm's variables name this job.

        Raises Refused for another number or word.
        """
        if job == self._environment.get("SLURM_JOB_ID"):
            return self._environment.get("TIDEGATE_JOB_ID", job)
        if _ID.fullmatch(job) is None:
            raise Refused(
                f"{job[:60]!r} is no job here; use $SLURM_JOB_ID, or an id that sbatch printed."
            )
        return job

    def own_id(self) -> str:
        """Return the id of the job in which this runs."""
        return self._environment.get("TIDEGATE_JOB_ID", "")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the portal's own address
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept": "application/json",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                return json.loads(answer.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            raise Refused(_complaint(error)) from None
        except (OSError, ValueError) as error:
            raise Refused(f"the portal does not answer: {error}.") from None


def _complaint(error: urllib.error.HTTPError) -> str:
    """Return what the portal says, with one line for each wrong member of the request."""
    try:
        problem = json.loads(error.read(_ANSWER_BYTES_MAX))
        detail = str(problem["detail"])
        others = [
            f"{one['pointer'].strip('/')}: {one['detail']}"
            for one in problem.get("errors", ())
            if one["detail"] not in detail
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return f"the portal answered with status {error.code}."
    return "\n".join([detail, *others])
