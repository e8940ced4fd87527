"""Who may decide what: roles, rules that leave a call to certain people, and nobody's own request.

Pure. Every such rule stands here once; ``queue`` applies them, for the page, the terminal and scripts alike.
"""

from __future__ import annotations

from msgspec import structs

from antiphon.host.checks.people import Decider, Demands, Person, read_deciders
from antiphon.host.review import review
from antiphon.host.review.question import AnyDecision, AnyItem, Approval, Mismatch, Question
from antiphon.host.store.base import Decided
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode_value


class NotAllowed(Mismatch):
    """The person may not decide this.

    Args:
        key: why, as the catalogues of the page have it (``barred.KEY``).
        values: what the sentence has in its places.
    """

    def __init__(self, key: str, **values: str) -> None:
        super().__init__(_BARRED[key].format_map(values))
        self.key = key
        self.values = values


_BARRED = {
    "role": "this needs the role {role}",
    "own": "this is your own request: somebody else has to decide it",
    "to": "a rule leaves this to: {to}",
    "person": "a rule leaves this to people who have signed in: decide it on the review page",
    "twice": "you have approved this already: a second person has to approve the same",
    "undo": "somebody else decided this: only that person or an admin takes it back",
    "proposal": "a rule wants more than one person: approve, edit or deny it",
}


def check_decider(by: Decider | None, item: AnyItem, decision: AnyDecision) -> None:
    """Check that somebody may decide this.

    Raises:
        NotAllowed: somebody else has to.
    """
    demands = item.demands if isinstance(item, review.ToolItem) else Demands()
    if not isinstance(by, Person):
        if demands:
            raise NotAllowed("person")
        return
    needed = "admin" if _outlives_call(decision) else "reviewer"
    if not by.has_role(needed):
        raise NotAllowed("role", role=needed)
    for names in demands.to:
        if not by.is_among(names):
            raise NotAllowed("to", to=", ".join(names))
    if not isinstance(decision, review.Deny | ElicitResult) and by.principal == item.origin.principal:
        raise NotAllowed("own")
    if demands.people > 1 and not isinstance(decision, review.Approve | review.EditCall | review.Deny):
        raise NotAllowed("proposal")


def _outlives_call(decision: AnyDecision) -> bool:
    """Return whether a decision is about more than this call: a grant that outlives it, or a block."""
    if isinstance(decision, review.Approve):
        return decision.scope in ("session", "always") or decision.labels is not None
    return isinstance(decision, review.Deny) and decision.reach == "server"


def reaches_further(decision: AnyDecision) -> bool:
    """Return whether a decision is about more than the one question that is decided."""
    if isinstance(decision, review.Approve):
        return decision.scope != "once" or decision.labels is not None
    return isinstance(decision, review.Deny) and decision.reach != "once"


def check_undo(by: Decider | None, decided_by: str | None) -> None:
    """Check that somebody may take a decision back: only their own, or as an admin any.

    Raises:
        NotAllowed: somebody else has to.
    """
    if not isinstance(by, Person) or by.has_role("admin"):
        return
    if not by.has_role("reviewer") or by.principal not in read_deciders(decided_by):
        raise NotAllowed("undo")


def read_approved(question: Question, decision: AnyDecision) -> AnyDecision:
    """Return what an approval means: the edit of an earlier person, if it has the digest of that one."""
    if not isinstance(decision, review.Approve):
        return decision
    earlier = (each.decision for each in question.approvals if isinstance(each.decision, review.EditCall))
    return next((each for each in earlier if each.digest == decision.digest), decision)


def count_approvals(question: Question, decision: AnyDecision, decided: Decided) -> Decided:
    """Return what to store if a rule wants more than one person: an approval, until enough have approved the same."""
    item = question.item
    people = item.demands.people if isinstance(item, review.ToolItem) else 1
    if people == 1 or not isinstance(decision, review.Approve | review.EditCall) or decided.by is None:
        return structs.replace(decided, seen=None)
    # What somebody has edited is something else: earlier approvals do not count for it.
    same = [each for each in question.approvals if each.decision.digest == decision.digest]
    if set(read_deciders(decided.by)) & {one for each in same for one in read_deciders(each.by)}:
        raise NotAllowed("twice")
    approvals = [*same, Approval(by=decided.by, decision=decision)]
    stored = structs.replace(decided, approvals=encode_value(approvals).decode())
    if len(approvals) < people:
        return structs.replace(stored, decision=None, by=None, release=None)
    return structs.replace(stored, by=" + ".join(each.by for each in approvals))
