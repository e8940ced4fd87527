"""What the specification demands of the protocol core and the engine, and which tests hold it.

One row for each MUST and SHOULD that ``protocol`` and ``engine`` implement, in our own words, with the page it is on
and the revisions it is in. A test names the rows it holds with ``@pytest.mark.requirement("id", ...)``;
``test_requirements`` checks that every row has a test and every mark a row. Rules that only transports, servers,
clients or hosts can keep are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["REQUIREMENTS", "Requirement"]

FIRST, BATCHES, FORMS, LAST_LEGACY, MODERN = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One rule."""

    id: str
    level: Literal["MUST", "SHOULD"]
    section: str
    """Page of the specification, below its revision; some pages have had other names before or since."""
    since: str
    """First revision that has the rule."""
    until: str | None
    """Last revision that has it; ``None`` if the newest does."""
    text: str


def must(id: str, section: str, text: str, since: str = FIRST, until: str | None = None) -> Requirement:
    """Write a rule that has to be kept."""
    return Requirement(id=id, level="MUST", section=section, since=since, until=until, text=text)


def should(id: str, section: str, text: str, since: str = FIRST, until: str | None = None) -> Requirement:
    """Write a rule that is kept for good reason."""
    return Requirement(id=id, level="SHOULD", section=section, since=since, until=until, text=text)


_BASE = (
    must("base.jsonrpc", "basic", "Every message is JSON-RPC 2.0, and what is not gets the error JSON-RPC has for it."),
    must("base.id-type", "basic", "A request's id is a string or an integer."),
    must("base.id-not-null", "basic", "A request's id is not null."),
    must("base.id-unique", "basic", "A sender does not use an id again; from 2026-07-28, not while it is live."),
    must("base.reply-same-id", "basic", "A reply has the id of its request, unless that could not be read."),
    must("base.reply-result-or-error", "basic", "A reply has a result or an error, not both."),
    must("base.error-code-message", "basic", "An error has an integer code and a message."),
    must("base.no-reply-to-notification", "basic", "A notification is never answered."),
    must("base.notification-no-id", "basic", "A notification has no id."),
    must("base.batch", "basic", "A receiver takes batches; their replies come in an array.", BATCHES, BATCHES),
    must("base.batch-initialize", "basic/lifecycle", "initialize is not part of a batch.", BATCHES, BATCHES),
    must("base.result-type", "basic", "Every result says of which type it is.", MODERN),
    must("base.reserved-codes", "basic", "No code of an earlier revision, and none that is reserved, is sent.", MODERN),
    must("base.stateless", "basic", "A request is served by what is in it, not by what came before.", MODERN),
    must("base.meta-sent", "basic", "Every request names its revision and the client's capabilities.", MODERN),
    must("base.meta-required", "basic", "A request that lacks required metadata is refused with -32602.", MODERN),
    must("base.missing-capability", "basic", "What needs an undeclared capability gets -32021 that lists it.", MODERN),
    should("base.server-info", "basic", "A server names itself in every result.", MODERN),
    should("base.info-is-display", "basic", "Who the other side says it is changes no behaviour.", MODERN),
)

_LIFECYCLE = (
    must("lifecycle.first", "basic/lifecycle", "The handshake is the first interaction.", until=LAST_LEGACY),
    must(
        "lifecycle.client-initiates",
        "basic/lifecycle",
        "The client opens with its revision, its capabilities and who it is.",
        until=LAST_LEGACY,
    ),
    must(
        "lifecycle.server-responds",
        "basic/lifecycle",
        "The server answers with its capabilities and who it is.",
        until=LAST_LEGACY,
    ),
    must("lifecycle.initialized-sent", "basic/lifecycle", "The client completes the handshake.", until=LAST_LEGACY),
    should(
        "lifecycle.client-waits",
        "basic/lifecycle",
        "The client sends nothing but pings until initialize is answered.",
        until=LAST_LEGACY,
    ),
    should(
        "lifecycle.server-waits",
        "basic/lifecycle",
        "The server asks nothing but pings until the client has said initialized.",
        until=LAST_LEGACY,
    ),
    must(
        "lifecycle.version-sent",
        "basic/lifecycle",
        "The client asks for a revision it speaks, its latest by preference.",
        until=LAST_LEGACY,
    ),
    must(
        "lifecycle.version-same",
        "basic/lifecycle",
        "A server that speaks the revision asked for answers with it.",
        until=LAST_LEGACY,
    ),
    must(
        "lifecycle.version-other",
        "basic/lifecycle",
        "A server that does not answers with one it speaks, its latest by preference.",
        until=LAST_LEGACY,
    ),
    should(
        "lifecycle.version-disconnect",
        "basic/lifecycle",
        "A client that does not speak the revision answered gives up.",
        until=LAST_LEGACY,
    ),
    must(
        "lifecycle.negotiated",
        "basic/lifecycle",
        "Both sides keep to the revision and the capabilities agreed on.",
        until=LAST_LEGACY,
    ),
    should("lifecycle.timeouts", "basic/lifecycle", "Each request may have a deadline; past it, it is cancelled."),
)

_VERSIONING = (
    must(
        "versioning.unsupported",
        "basic/versioning",
        "A revision the server does not speak gets -32022 with those it speaks.",
        MODERN,
    ),
    must("versioning.discover", "server/discover", "A server answers server/discover.", MODERN),
    must(
        "versioning.era",
        "basic/versioning",
        "A request with modern metadata is served by it, initialize selects the rules of its session.",
        MODERN,
    ),
    must(
        "versioning.fallback",
        "basic/transports/stdio",
        "Falling back to initialize does not depend on one error code.",
        MODERN,
    ),
    should(
        "versioning.initialize-names",
        "basic/versioning",
        "A modern server names its revisions in the error to initialize.",
        MODERN,
    ),
    must("transports.no-client-responses", "basic/transports/stdio", "A client writes no responses.", MODERN),
    must("transports.no-server-requests", "basic/transports/stdio", "A server writes no requests.", MODERN),
)

_CANCELLATION = (
    must(
        "cancel.same-direction",
        "basic/utilities/cancellation",
        "A cancellation names a request its own sender made.",
        until=LAST_LEGACY,
    ),
    must("cancel.in-progress", "basic/utilities/cancellation", "It names a request believed to be in progress."),
    must("cancel.not-initialize", "basic/utilities/cancellation", "initialize is not cancelled.", until=LAST_LEGACY),
    should("cancel.receiver", "basic/utilities/cancellation", "Its receiver stops the work and sends no response."),
    should("cancel.late-reply", "basic/utilities/cancellation", "Its sender ignores a reply that still comes."),
    must("cancel.race", "basic/utilities/cancellation", "Both sides live with a cancellation that comes too late."),
    should("cancel.invalid", "basic/utilities/cancellation", "One that is unknown, late or malformed is ignored."),
    should("cancel.log", "basic/utilities/cancellation", "Its reason is logged."),
    must("cancel.modern-client", "basic/patterns/cancellation", "A client on stdio sends the notification.", MODERN),
    must(
        "cancel.modern-listen",
        "basic/patterns/cancellation",
        "A server's cancellation ends a subscription, and nothing else.",
        MODERN,
    ),
)

_PROGRESS = (
    must("progress.token-type", "basic/utilities/progress", "A token is a string or an integer."),
    must("progress.token-unique", "basic/utilities/progress", "A token is unique among the active requests."),
    must("progress.increase", "basic/utilities/progress", "The value increases with each notification."),
    must("progress.active-token", "basic/utilities/progress", "Only tokens of active requests are named."),
    must("progress.stops", "basic/utilities/progress", "No progress is reported after the end."),
    should("progress.track", "basic/utilities/progress", "Both sides know which tokens are active."),
    must("ping.prompt", "basic/utilities/ping", "A ping is answered at once, with an empty result.", until=LAST_LEGACY),
)

_LOGGING = (
    must("logging.declared", "server/utilities/logging", "A server that logs declares it."),
    must("logging.level", "server/utilities/logging", "What is below the level set is not sent.", until=LAST_LEGACY),
    must(
        "logging.modern-opt-in",
        "server/utilities/logging",
        "Nothing is logged for a request that names no level.",
        MODERN,
    ),
    must("logging.modern-scoped", "server/utilities/logging", "It is logged before the request's reply.", MODERN),
    should("logging.invalid-level", "server/utilities/logging", "An unknown level is refused with -32602."),
)

_ASKS = (
    must("sampling.declared", "client/sampling", "Sampling is asked only of a client that declared it."),
    must("sampling.tools", "client/sampling", "Tools are sent only to a client that declared them.", LAST_LEGACY),
    must("sampling.tools-error", "client/sampling", "Tools that were not declared are an error.", LAST_LEGACY),
    must("sampling.results-alone", "client/sampling", "A message with results holds nothing else.", LAST_LEGACY),
    must("sampling.balance", "client/sampling", "Every use of a tool is answered in the next message.", LAST_LEGACY),
    should("sampling.context", "client/sampling", "Context is asked only of a client that declared it.", LAST_LEGACY),
    must("elicitation.mode", "client/elicitation", "Only a mode that the client declared is asked for.", FORMS),
    must("elicitation.mode-default", "client/elicitation", "A missing mode means form.", LAST_LEGACY),
    must("elicitation.mode-error", "client/elicitation", "A mode that was not declared is -32602.", LAST_LEGACY),
    must("elicitation.empty", "client/elicitation", "An empty capability means forms.", LAST_LEGACY),
    must(
        "elicitation.url-required",
        "client/elicitation",
        "-32042 says that an address must be visited first.",
        LAST_LEGACY,
        LAST_LEGACY,
    ),
    must("roots.declared", "client/roots", "Roots are asked only of a client that declared them."),
    should("roots.unsupported", "client/roots", "A client without roots answers -32601.", until=LAST_LEGACY),
    must("mrtr.supported", "basic/patterns/mrtr", "Only three requests may be answered with a round.", MODERN),
    must("mrtr.not-empty", "basic/patterns/mrtr", "A round has asks, a state, or both.", MODERN),
    must("mrtr.undeclared", "basic/patterns/mrtr", "A round asks only for what the client declared.", MODERN),
    should("resources.not-found", "server/resources", "A missing resource is -32002, from 2026-07-28 -32602."),
)

REQUIREMENTS = {
    row.id: row for part in (_BASE, _LIFECYCLE, _VERSIONING, _CANCELLATION, _PROGRESS, _LOGGING, _ASKS) for row in part
}
"""Every rule by its id."""
