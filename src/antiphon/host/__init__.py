"""May this server use my model? A host decides, with its user: validation, policy, review, provider, record.

Knows neither sessions nor transports: it answers ``(params, origin)``, wherever those came from.
"""

from __future__ import annotations

from antiphon.host.audit.log import Audit, Record
from antiphon.host.budget import Budget, Cap, Price
from antiphon.host.checks.limits import Limits
from antiphon.host.checks.policy import Policy, Rule, Verdict, decide, explain
from antiphon.host.checks.redact import Redaction
from antiphon.host.host import Host
from antiphon.host.open import open_host
from antiphon.host.providers import Echo, Manual, Provider, Scripted
from antiphon.host.review.grants import Grant, Grants
from antiphon.host.review.queue import AlreadyDecided, Queue
from antiphon.host.review.review import (
    Answer,
    Approve,
    Decision,
    Deny,
    Edit,
    ElicitItem,
    NoReviewer,
    Regenerate,
    Reviewer,
    ReviewItem,
    Terms,
    ToolItem,
    digest,
)
from antiphon.host.store import MemoryStore, Store, open_store

__all__ = [
    "AlreadyDecided",
    "Answer",
    "Approve",
    "Audit",
    "Budget",
    "Cap",
    "Decision",
    "Deny",
    "Echo",
    "Edit",
    "ElicitItem",
    "Grant",
    "Grants",
    "Host",
    "Limits",
    "Manual",
    "MemoryStore",
    "NoReviewer",
    "Policy",
    "Price",
    "Provider",
    "Queue",
    "Record",
    "Redaction",
    "Regenerate",
    "ReviewItem",
    "Reviewer",
    "Rule",
    "Scripted",
    "Store",
    "Terms",
    "ToolItem",
    "Verdict",
    "decide",
    "digest",
    "explain",
    "open_host",
    "open_store",
]
