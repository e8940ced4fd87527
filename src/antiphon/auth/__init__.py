"""Authorization with OAuth 2.1 (2026-07-28 basic/authorization).

``challenge`` parses ``WWW-Authenticate`` headers, ``dpop`` makes DPoP proofs, ``metadata`` has the types of the
metadata documents. ``client`` obtains, stores and sends access tokens; ``server`` verifies them. The libraries of the
extra ``antiphon[auth]`` are imported only when they are needed. Transports do not depend on this package: they are
given the headers of each request. This module lists the public names; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.auth.client.exchange import (
        Answer as Answer,
        ClientIdentity as ClientIdentity,
        Endpoint as Endpoint,
        TokenAnswer as TokenAnswer,
    )
    from antiphon.auth.client.file_store import FileLogins as FileLogins
    from antiphon.auth.client.grants import ClientCredentials as ClientCredentials
    from antiphon.auth.client.device import Device as Device, DevicePage as DevicePage
    from antiphon.auth.client.grants import EnterpriseManaged as EnterpriseManaged
    from antiphon.auth.client.grants import JwtBearer as JwtBearer
    from antiphon.auth.client.grants import Grant as Grant, Wanted as Wanted
    from antiphon.auth.client.grants import WorkloadIdentity as WorkloadIdentity
    from antiphon.auth.client.oauth import Auth as Auth, OAuth as OAuth, OpenPage as OpenPage
    from antiphon.auth.client.store import (
        Claim as Claim,
        Document as Document,
        Login as Login,
        LoginStore as LoginStore,
        MemoryLogins as MemoryLogins,
        Registered as Registered,
        SigningIn as SigningIn,
    )
    from antiphon.auth.metadata import ServerMetadata as ServerMetadata
    from antiphon.auth.server.issuer import Introspection as Introspection, Issuer as Issuer
    from antiphon.auth.server.proofs import DPoP as DPoP
    from antiphon.auth.server.resource_server import ResourceServer as ResourceServer
    from antiphon.auth.server.verifier import CheckAccess as CheckAccess
    from antiphon.protocol.caller import Caller as Caller, Covers as Covers
else:
    _HOMES = {
        "antiphon.auth.client.exchange": "Answer ClientIdentity Endpoint TokenAnswer",
        "antiphon.auth.client.file_store": "FileLogins",
        "antiphon.auth.client.grants": "ClientCredentials EnterpriseManaged Grant JwtBearer Wanted WorkloadIdentity",
        "antiphon.auth.client.device": "Device DevicePage",
        "antiphon.auth.client.oauth": "Auth OAuth OpenPage",
        "antiphon.auth.client.store": "Claim Document Login LoginStore MemoryLogins Registered SigningIn",
        "antiphon.auth.metadata": "ServerMetadata",
        "antiphon.auth.server.issuer": "Introspection Issuer",
        "antiphon.auth.server.proofs": "DPoP",
        "antiphon.auth.server.resource_server": "ResourceServer",
        "antiphon.auth.server.verifier": "CheckAccess",
        "antiphon.protocol.caller": "Caller Covers",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
