"""The host decides, with its user, whether a server may use the user's model.

It validates, applies the policy, asks for a review, calls the provider and records what happened. It knows neither
sessions nor transports: it answers ``(params, origin)``, whatever they came by.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, without importing it: type checkers take this name as true
if TYPE_CHECKING:
    from antiphon.host.agent_run.offered_tools import ToolSource as ToolSource
    from antiphon.host.agent_run.steps import (
        ModelAnswered as ModelAnswered,
        OnEvent as OnEvent,
        RunEvent as RunEvent,
        RunResult as RunResult,
        TextGrew as TextGrew,
        ToolBegan as ToolBegan,
        ToolEnded as ToolEnded,
        ToolProgressed as ToolProgressed,
    )
    from antiphon.host.audit import Audit as Audit, Facts as Facts, Proof as Proof, Record as Record
    from antiphon.host.budget import (
        Account as Account,
        Amount as Amount,
        Budget as Budget,
        Cap as Cap,
        Costs as Costs,
        Price as Price,
        Priced as Priced,
    )
    from antiphon.host.checks.ask_limits import Limits as Limits
    from antiphon.host.checks.policy_rules import (
        ALLOW_ALL as ALLOW_ALL,
        Policy as Policy,
        Rule as Rule,
        Situation as Situation,
        Verdict as Verdict,
        decide as decide,
        explain as explain,
    )
    from antiphon.host.checks.redact import Redaction as Redaction
    from antiphon.host.checks.risk import Place as Place, Risk as Risk
    from antiphon.host.configured_host import ConfiguredHost as ConfiguredHost, open_host as open_host
    from antiphon.host.host import Host as Host
    from antiphon.host.models.choice import Chosen as Chosen
    from antiphon.host.own_request import (
        Offer as Offer,
        OwnAnswer as OwnAnswer,
        OwnMembers as OwnMembers,
        RunMembers as RunMembers,
    )
    from antiphon.host.providers import Echo as Echo, Manual as Manual, Provider as Provider, Scripted as Scripted
    from antiphon.host.providers.base import Completion as Completion, Growth as Growth, Usage as Usage
    from antiphon.host.providers.vectors import (
        Embedded as Embedded,
        EmbeddingParams as EmbeddingParams,
        Embeds as Embeds,
    )
    from antiphon.host.review.given_grants import Given as Given, Grant as Grant, Grants as Grants
    from antiphon.host.review.question import Outcome as Outcome, Question as Question
    from antiphon.host.review.queue import (
        AlreadyDecided as AlreadyDecided,
        Mismatch as Mismatch,
        NotShown as NotShown,
        Queue as Queue,
    )
    from antiphon.host.review.review import (
        UNBOUNDED as UNBOUNDED,
        Answer as Answer,
        Approve as Approve,
        Decision as Decision,
        Deny as Deny,
        Edit as Edit,
        EditCall as EditCall,
        ElicitItem as ElicitItem,
        Figures as Figures,
        Filled as Filled,
        NoReviewer as NoReviewer,
        Regenerate as Regenerate,
        Reviewer as Reviewer,
        ReviewItem as ReviewItem,
        Rival as Rival,
        Terms as Terms,
        Ticket as Ticket,
        ToolItem as ToolItem,
        digest as digest,
    )
    from antiphon.host.store import MemoryStore as MemoryStore, Store as Store, open_store as open_store
    from antiphon.identity import identity_of as identity_of
    from antiphon.wire.origin import ChangedCall as ChangedCall, Equipment as Equipment
else:
    _HOMES = {
        "antiphon.host.agent_run.offered_tools": "ToolSource",
        "antiphon.host.agent_run.steps": (
            "ModelAnswered OnEvent RunEvent RunResult TextGrew ToolBegan ToolEnded ToolProgressed"
        ),
        "antiphon.host.audit": "Audit Facts Proof Record",
        "antiphon.host.budget": "Account Amount Budget Cap Costs Price Priced",
        "antiphon.host.checks.ask_limits": "Limits",
        "antiphon.host.checks.policy_rules": "ALLOW_ALL Policy Rule Situation Verdict decide explain",
        "antiphon.host.checks.redact": "Redaction",
        "antiphon.host.checks.risk": "Place Risk",
        "antiphon.host.configured_host": "ConfiguredHost open_host",
        "antiphon.host.host": "Host",
        "antiphon.host.models.choice": "Chosen",
        "antiphon.host.own_request": "Offer OwnAnswer OwnMembers RunMembers",
        "antiphon.host.providers": "Echo Manual Provider Scripted",
        "antiphon.host.providers.base": "Completion Growth Usage",
        "antiphon.host.providers.vectors": "Embedded EmbeddingParams Embeds",
        "antiphon.host.review.given_grants": "Given Grant Grants",
        "antiphon.host.review.question": "Outcome Question",
        "antiphon.host.review.queue": "AlreadyDecided Mismatch NotShown Queue",
        "antiphon.host.review.review": (
            "Answer Approve Decision Deny Edit EditCall ElicitItem Figures Filled NoReviewer Regenerate ReviewItem "
            "Reviewer Rival Terms Ticket ToolItem UNBOUNDED digest"
        ),
        "antiphon.host.store": "MemoryStore Store open_store",
        "antiphon.identity": "identity_of",
        "antiphon.wire.origin": "ChangedCall Equipment",
    }
    __all__ = [name for names in _HOMES.values() for name in names.split()]

    def __getattr__(name: str) -> object:
        from antiphon.machine.public_names import load_public_name

        return load_public_name(__name__, _HOMES, name)
