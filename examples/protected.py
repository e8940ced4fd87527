"""A server that requires access tokens, and clients with no token, too few scopes, and enough, in one program.

The program is the issuer, too, with a key made for it. In production the issuer is Keycloak, Entra, Auth0 ..., and the
server fetches its keys: ``ResourceServer("https://auth.example.com", "https://mcp.example.com/mcp")``.

Needs the extra ``auth``: ``pip install 'path/to/antiphon[auth]'``.
"""

import asyncio
import socket
import time

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey

from antiphon import Client, Context, PeerError, ResourceServer, Server
from antiphon.auth import Issuer

ISSUER, ADDRESS = "https://auth.example.com", "https://mcp.example.com/mcp"
KEY = ECKey.generate_key("P-256", {"kid": "k1"})

server = Server("orders")


@server.tool(scopes=["orders:read"])
def list_orders(ctx: Context) -> str:
    """List the orders of today."""
    return f"tea, cups: for {ctx.request.claims['sub']}, who may {', '.join(sorted(ctx.request.scopes))}"


@server.tool(scopes=["orders:read", "orders:write"])
def place_order(what: str) -> str:
    """Place an order."""
    return f"{what} is ordered"


auth = ResourceServer(Issuer(url=ISSUER, jwks={"keys": [KEY.as_dict(private=False)]}), audience=ADDRESS)
app = server.asgi(auth=auth)


def token(scope: str) -> str:
    """Make an access token, as the issuer does."""
    claims = {"iss": ISSUER, "aud": ADDRESS, "sub": "ann", "exp": int(time.time()) + 600, "scope": scope}
    return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "k1"}, claims, KEY)


async def main() -> None:
    """Serve on a free port, and call the tools without a token, then with more and more scopes."""
    # Named as TCP: otherwise asyncio leaves small messages waiting for those before to be confirmed (40 ms).
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    web = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(web.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    try:
        async with Client(url):
            pass
    except PeerError as error:
        print("without a token:", error.code)
    for scope in ("orders:read", "orders:read orders:write"):
        async with Client(url, headers={"Authorization": f"Bearer {token(scope)}"}) as client:
            print((await client.call_tool("list_orders")).text)
            try:
                print((await client.call_tool("place_order", {"what": "sugar"})).text)
            except PeerError as error:
                print("refused:", error.code)
    web.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
