"""Which messages the declared capabilities permit, for both directions, as pure functions.

What was declared comes from the handshake or, at 2026-07-28, from the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from antiphon.wire.common import ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability, Wire
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.revisions import Revision
from antiphon.wire.sampling import CreateMessageRequestParams

# One set for all sessions with the same capabilities: it takes 2 KiB, and there may be thousands of sessions.
_servable: dict[frozenset[str], frozenset[str]] = {}


def declares_capability(capabilities: Wire | None, path: str) -> bool:
    """Return whether a capability such as ``"resources.subscribe"`` was declared: present, and not ``false``."""
    value: Any = capabilities
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None or value is False:
            return False
    return True


def declares_extension(capabilities: ServerCapabilities | ClientCapabilities | None, extension: str) -> bool:
    """Return whether an extension was declared."""
    return capabilities is not None and extension in (capabilities.extensions or ())


def list_servable(capabilities: ServerCapabilities, revision: Revision) -> frozenset[str]:
    """Return the requests a server with these capabilities serves at a revision; others are answered with -32601."""
    names = frozenset(
        spec.name
        for spec in METHODS.values()
        if spec.kind == "request"
        and spec.note_sender("client", revision.name)
        and offers_method(capabilities, spec, revision)
    )
    return _servable.setdefault(names, names)


def offers_method(capabilities: ServerCapabilities, method: MethodSpec, revision: Revision) -> bool:
    """Return whether a server that declared ``capabilities`` serves ``method`` at this revision."""
    if method.extension is not None and revision.modern:
        if method.setting is None:
            return declares_extension(capabilities, method.extension)
        settings = (capabilities.extensions or {}).get(method.extension)
        return isinstance(settings, Mapping) and cast("Mapping[str, Any]", settings).get(method.setting) is True
    needed = method.needed(revision.name)
    return needed is None or declares_capability(capabilities, needed)


def missing_for_ask(
    method: MethodSpec, params: Wire | None, declared: ClientCapabilities | None
) -> ClientCapabilities | None:
    """Return what an ask needs and the client lacks (2025-11-25 client/sampling; 2026-07-28 basic/patterns/mrtr)."""
    has = declared or ClientCapabilities()
    if isinstance(params, CreateMessageRequestParams):
        return _missing_for_sampling(params, has)
    if isinstance(params, ElicitRequestParams):
        return _missing_for_elicitation(params, has)
    if method.needs == "roots" and has.roots is None:
        return ClientCapabilities(roots=RootsCapability())
    return None


def may_include_context(revision: Revision, declared: ClientCapabilities | None) -> bool:
    """Return whether ``includeContext`` may be other than "none" (2025-11-25 client/sampling, "Capabilities")."""
    return not revision.sampling_has_parts or declares_capability(declared, "sampling.context")


def _missing_for_sampling(params: CreateMessageRequestParams, has: ClientCapabilities) -> ClientCapabilities | None:
    needs_tools = params.tools is not None or params.tool_choice is not None
    if has.sampling is None:
        return ClientCapabilities(sampling=SamplingCapability(tools={} if needs_tools else None))
    if needs_tools and has.sampling.tools is None:
        return ClientCapabilities(sampling=SamplingCapability(tools={}))
    return None


def _missing_for_elicitation(params: ElicitRequestParams, has: ClientCapabilities) -> ClientCapabilities | None:
    if params.mode == "url":
        if has.elicitation is None or has.elicitation.url is None:
            return ClientCapabilities(elicitation=ElicitationCapability(url={}))
        return None
    # 2025-11-25 client/elicitation: "an empty capabilities object is equivalent to declaring support for form mode
    # only".
    if has.elicitation is None or (has.elicitation.form is None and has.elicitation.url is not None):
        return ClientCapabilities(elicitation=ElicitationCapability(form={}))
    return None
