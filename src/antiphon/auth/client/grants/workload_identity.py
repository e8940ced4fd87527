"""The identity that a platform gives a workload, taken as a grant (SEP-1933, a draft).

Kubernetes, a cloud or a build service writes a short-lived JWT into a file, and replaces it before it expires.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from antiphon.auth.client.grants.jwt_bearer import JwtBearer
from antiphon.errors import Unauthorized

__all__ = ["WorkloadIdentity"]

MAX_FILE = 64 * 1024
"""Bytes of such a file that are read."""


class WorkloadIdentity(JwtBearer):
    """Sign in as the workload this process is: ``OAuth(client_id=..., grant=WorkloadIdentity(path))``.

    Args:
        path: file with the JWT; read each time, because the platform replaces it.
    """

    name = "workload identity"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        super().__init__(self._from_file)

    async def _from_file(self, _issuer: str) -> str:
        try:
            return (await asyncio.to_thread(self._read)).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthorized(f"signing in failed: {self._path} cannot be read ({type(error).__name__})") from None

    def _read(self) -> str:
        with self._path.open("rb") as file:
            return file.read(MAX_FILE).decode("ascii")
