"""Authorization with OAuth 2.1 (2026-07-28 basic/authorization).

``challenge`` parses ``WWW-Authenticate`` headers, ``dpop`` makes DPoP proofs, ``metadata`` has the types of the
metadata documents. ``client`` obtains, stores and sends access tokens; ``server`` verifies them. The libraries of the
extra ``antiphon[auth]`` are imported only when they are needed. Transports do not depend on this package: they are
given the headers of each request. This module lists the public names; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it
if TYPE_CHECKING:
    from antiphon.auth.client.exchange import Answer, ClientIdentity, Endpoint, TokenAnswer
    from antiphon.auth.client.file_store import FileLogins
    from antiphon.auth.client.grants.client_credentials import ClientCredentials
    from antiphon.auth.client.grants.device import Device, DevicePage
    from antiphon.auth.client.grants.enterprise import EnterpriseManaged
    from antiphon.auth.client.grants.jwt_bearer import JwtBearer
    from antiphon.auth.client.grants.kinds import Grant, Wanted
    from antiphon.auth.client.grants.workload_identity import WorkloadIdentity
    from antiphon.auth.client.oauth import Auth, OAuth, OpenPage
    from antiphon.auth.client.store import Claim, Document, Login, LoginStore, MemoryLogins, Registered, SigningIn
    from antiphon.auth.metadata import ServerMetadata
    from antiphon.auth.server.issuer import Introspection, Issuer
    from antiphon.auth.server.proofs import DPoP
    from antiphon.auth.server.resource_server import ResourceServer
    from antiphon.auth.server.verifier import CheckAccess
    from antiphon.protocol.caller import Caller, Covers

__all__ = [
    "Answer",
    "Auth",
    "Caller",
    "CheckAccess",
    "Claim",
    "ClientCredentials",
    "ClientIdentity",
    "Covers",
    "DPoP",
    "Device",
    "DevicePage",
    "Document",
    "Endpoint",
    "EnterpriseManaged",
    "FileLogins",
    "Grant",
    "Introspection",
    "Issuer",
    "JwtBearer",
    "Login",
    "LoginStore",
    "MemoryLogins",
    "OAuth",
    "OpenPage",
    "Registered",
    "ResourceServer",
    "ServerMetadata",
    "SigningIn",
    "TokenAnswer",
    "Wanted",
    "WorkloadIdentity",
]

_HOMES = {
    "Answer": "client.exchange",
    "Auth": "client.oauth",
    "Caller": ".protocol.caller",
    "CheckAccess": "server.verifier",
    "Claim": "client.store",
    "ClientCredentials": "client.grants.client_credentials",
    "ClientIdentity": "client.exchange",
    "Covers": ".protocol.caller",
    "DPoP": "server.proofs",
    "Device": "client.grants.device",
    "DevicePage": "client.grants.device",
    "Document": "client.store",
    "Endpoint": "client.exchange",
    "EnterpriseManaged": "client.grants.enterprise",
    "FileLogins": "client.file_store",
    "Grant": "client.grants.kinds",
    "Introspection": "server.issuer",
    "Issuer": "server.issuer",
    "JwtBearer": "client.grants.jwt_bearer",
    "Login": "client.store",
    "LoginStore": "client.store",
    "MemoryLogins": "client.store",
    "OAuth": "client.oauth",
    "OpenPage": "client.oauth",
    "Registered": "client.store",
    "ResourceServer": "server.resource_server",
    "ServerMetadata": "metadata",
    "SigningIn": "client.store",
    "TokenAnswer": "client.exchange",
    "Wanted": "client.grants.kinds",
    "WorkloadIdentity": "client.grants.workload_identity",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, and cache it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'antiphon.auth' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{_HOMES[name]}", "antiphon.auth"), name)
    globals()[name] = value
    return value
