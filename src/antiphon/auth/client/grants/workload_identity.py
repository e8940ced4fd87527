"""The identity that a platform gives a workload, used as a grant (SEP-1933, a draft).

Kubernetes, clouds and build services write a short-lived JWT to a file, and replace it before it expires.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from antiphon.auth.client.grants.jwt_bearer import JwtBearer
from antiphon.errors import Unauthorized
from antiphon.machine.files import read_file

__all__ = ["WorkloadIdentity"]

MAX_FILE = 64 * 1024
"""Bytes of the file at most."""


class WorkloadIdentity(JwtBearer):
    """Sign in as the workload of this process: ``OAuth(client_id=..., grant=WorkloadIdentity(path))``.

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
        return read_file(self._path, MAX_FILE).decode("ascii")
