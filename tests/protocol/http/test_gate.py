"""The seam to whoever checks tokens."""

from __future__ import annotations

from antiphon.auth.server.resource_server import Entrance, ResourceServer
from antiphon.protocol.http.gate import Gate
from antiphon.transports.http.server.guards import TokenCheck


def test_both_that_check_tokens_are_gates():
    """A transport cannot tell them apart."""
    auth = ResourceServer("https://auth.example.com", "https://mcp.example.com/mcp")
    gates: list[Gate] = [TokenCheck({"t": "ann"}.get), Entrance(auth, "/mcp")]
    assert [bool(gate.documents()) for gate in gates] == [False, True]
    assert all(b'scope="a b"' in gate.challenge(["b", "a"])[0][1] for gate in gates)
