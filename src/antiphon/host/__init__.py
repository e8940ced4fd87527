"""The host decides, with its user, whether a server may use the user's model.

It validates, applies the policy, asks for a review, calls the provider and records what happened. It knows neither
sessions nor transports: it answers ``(params, origin)``, whatever they came by.
"""

from __future__ import annotations

from antiphon.host.audit.log import Audit, Facts, Proof, Record
from antiphon.host.budget import Account, Amount, Budget, Cap, Costs, Price, Priced
from antiphon.host.checks.limits import Limits
from antiphon.host.checks.policy import ALLOW_ALL, Policy, Rule, Verdict, decide, explain
from antiphon.host.checks.redact import Redaction
from antiphon.host.checks.risk import Place, Risk
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.host import Host
from antiphon.host.models.choice import Chosen
from antiphon.host.open import open_host
from antiphon.host.own_request import Offer, OwnAnswer, OwnMembers
from antiphon.host.providers import Echo, Manual, Provider, Scripted
from antiphon.host.providers.base import Completion, Growth, Usage
from antiphon.host.providers.embeddings import Embedded, EmbeddingParams, Embeds
from antiphon.host.review.grants import Given, Grant, Grants
from antiphon.host.review.question import Outcome, Question
from antiphon.host.review.queue import AlreadyDecided, Mismatch, NotShown, Queue
from antiphon.host.review.review import (
    UNBOUNDED,
    Answer,
    Approve,
    Decision,
    Deny,
    Edit,
    ElicitItem,
    Figures,
    Filled,
    NoReviewer,
    Regenerate,
    Reviewer,
    ReviewItem,
    Rival,
    Terms,
    Ticket,
    ToolItem,
    digest,
)
from antiphon.host.store import MemoryStore, Store, open_store
from antiphon.identity import identity_of
from antiphon.wire.origin import Equipment

__all__ = [
    "ALLOW_ALL",
    "UNBOUNDED",
    "Account",
    "AlreadyDecided",
    "Amount",
    "Answer",
    "Approve",
    "Audit",
    "Budget",
    "Cap",
    "Chosen",
    "Completion",
    "ConfiguredHost",
    "Costs",
    "Decision",
    "Deny",
    "Echo",
    "Edit",
    "ElicitItem",
    "Embedded",
    "EmbeddingParams",
    "Embeds",
    "Equipment",
    "Facts",
    "Figures",
    "Filled",
    "Given",
    "Grant",
    "Grants",
    "Growth",
    "Host",
    "Limits",
    "Manual",
    "MemoryStore",
    "Mismatch",
    "NoReviewer",
    "NotShown",
    "Offer",
    "Outcome",
    "OwnAnswer",
    "OwnMembers",
    "Place",
    "Policy",
    "Price",
    "Priced",
    "Proof",
    "Provider",
    "Question",
    "Queue",
    "Record",
    "Redaction",
    "Regenerate",
    "ReviewItem",
    "Reviewer",
    "Risk",
    "Rival",
    "Rule",
    "Scripted",
    "Store",
    "Terms",
    "Ticket",
    "ToolItem",
    "Usage",
    "Verdict",
    "decide",
    "digest",
    "explain",
    "identity_of",
    "open_host",
    "open_store",
]
