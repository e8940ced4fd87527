from antiphon.auth.client.authorization_code import Device as Device, DevicePage as DevicePage
from antiphon.auth.metadata import Answer as Answer, ClientIdentity as ClientIdentity, TokenAnswer as TokenAnswer
from antiphon.auth.client.file_store import FileLogins as FileLogins
from antiphon.auth.client.grants import (
    ClientCredentials as ClientCredentials,
    EnterpriseManaged as EnterpriseManaged,
    Grant as Grant,
    JwtBearer as JwtBearer,
    Wanted as Wanted,
    WorkloadIdentity as WorkloadIdentity,
)
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
from antiphon.auth.client.token_endpoint import TokenEndpoint as TokenEndpoint
from antiphon.auth.metadata import ServerMetadata as ServerMetadata
from antiphon.auth.server.issuer import Introspection as Introspection, Issuer as Issuer
from antiphon.auth.server.proofs import DPoP as DPoP
from antiphon.auth.server.resource_server import ResourceServer as ResourceServer
from antiphon.auth.server.verifier import CheckAccess as CheckAccess
from antiphon.protocol.caller import Caller as Caller, Covers as Covers
