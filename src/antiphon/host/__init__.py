"""May this server use my model? A host decides, with its user: validation, policy, review, provider, record.

Knows neither sessions nor transports: it answers ``(params, origin)``, wherever those came from.
"""

from __future__ import annotations

from antiphon.host.audit import Audit, Record
from antiphon.host.grants import Grant, Grants
from antiphon.host.host import Host
from antiphon.host.policy import Policy, Rule, Verdict, decide, explain
from antiphon.host.providers import Echo, Manual, Provider, Scripted
from antiphon.host.review import (
    Answer,
    Approve,
    Decision,
    Deny,
    Edit,
    ElicitItem,
    NoReviewer,
    Reviewer,
    ReviewItem,
    digest,
)

__all__ = [
    "Answer",
    "Approve",
    "Audit",
    "Decision",
    "Deny",
    "Echo",
    "Edit",
    "ElicitItem",
    "Grant",
    "Grants",
    "Host",
    "Manual",
    "NoReviewer",
    "Policy",
    "Provider",
    "Record",
    "ReviewItem",
    "Reviewer",
    "Rule",
    "Scripted",
    "Verdict",
    "decide",
    "digest",
    "explain",
]
