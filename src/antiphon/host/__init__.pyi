from antiphon.host.agent_run.offered_tools import ToolSource as ToolSource
from antiphon.host.agent_run.steps import ToolEnded as ToolEnded
from antiphon.host.agent_run.steps import (
    ModelAnswered as ModelAnswered,
    OnEvent as OnEvent,
    RunEvent as RunEvent,
    RunResult as RunResult,
    TextGrew as TextGrew,
    ToolBegan as ToolBegan,
    ToolProgressed as ToolProgressed,
)
from antiphon.host.audit import Audit as Audit, Facts as Facts, Proof as Proof, Record as Record
from antiphon.host.budget import Account as Account, Amount as Amount, Budget as Budget, Cap as Cap, Costs as Costs
from antiphon.host.checks.ask_limits import Limits as Limits
from antiphon.host.checks.conditions import Situation as Situation
from antiphon.host.checks.labels import Label as Label, LabelRule as LabelRule
from antiphon.host.checks.people import Demands as Demands, Person as Person
from antiphon.host.checks.policy_rules import (
    ALLOW_ALL as ALLOW_ALL,
    Policy as Policy,
    Rule as Rule,
    Verdict as Verdict,
    decide as decide,
    explain as explain,
)
from antiphon.host.checks.redact import Redaction as Redaction
from antiphon.host.checks.result_rules import ResultRule as ResultRule
from antiphon.host.checks.risk import Place as Place, Risk as Risk
from antiphon.host.configured_host import ConfiguredHost as ConfiguredHost, open_host as open_host
from antiphon.host.host import Host as Host, ModelApi as ModelApi
from antiphon.host.model_catalogue import ModelPrice as ModelPrice, PriceStep as PriceStep
from antiphon.host.models.selection import Chosen as Chosen
from antiphon.host.own_request import (
    Offer as Offer,
    OwnAnswer as OwnAnswer,
    OwnMembers as OwnMembers,
    RunMembers as RunMembers,
)
from antiphon.host.providers import Echo as Echo, Manual as Manual, Provider as Provider, Scripted as Scripted
from antiphon.host.providers.base import Completion as Completion, Growth as Growth, Usage as Usage
from antiphon.host.review.given_grants import Given as Given, Grant as Grant, Grants as Grants
from antiphon.host.review.question import NotAllowed as NotAllowed
from antiphon.host.review.question import Approval as Approval, Outcome as Outcome, Question as Question
from antiphon.host.review.queue import (
    AlreadyDecided as AlreadyDecided,
    Mismatch as Mismatch,
    NotShown as NotShown,
    Queue as Queue,
)
from antiphon.host.review.review import (
    Answer as Answer,
    Approve as Approve,
    Decision as Decision,
    Deny as Deny,
    Edit as Edit,
    EditCall as EditCall,
    ElicitItem as ElicitItem,
    Filled as Filled,
    NoReviewer as NoReviewer,
    Regenerate as Regenerate,
    ReviewItem as ReviewItem,
    Reviewer as Reviewer,
    Terms as Terms,
    Ticket as Ticket,
    ToolItem as ToolItem,
    UNBOUNDED as UNBOUNDED,
    digest as digest,
)
from antiphon.host.store import MemoryStore as MemoryStore, Store as Store, open_store as open_store
from antiphon.identity import identity_of as identity_of
from antiphon.wire.origin import ChangedCall as ChangedCall, Equipment as Equipment
