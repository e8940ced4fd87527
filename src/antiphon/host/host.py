"""``Host``: an answerer with a policy, a review and a provider. Pass it as ``Client(sampling=host)``.

Owns the choice of parts and their defaults; ``pipeline.sampling_stages`` handles a request. The review page and the
model API stand above this layer: whoever makes a host hands them in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Literal, Protocol, Self, Unpack, cast, runtime_checkable

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.agent_run.offered_tools import MAX_RESULT, ToolSource, as_sources
from antiphon.host.agent_run.steps import MAX_STEPS, OnEvent, RunRecord, RunResult, run_steps
from antiphon.host.audit import Audit
from antiphon.host.budget import Budget
from antiphon.host.checks.ask_limits import AskGate, Limits
from antiphon.host.checks.labels import list_links
from antiphon.host.checks.policy_rules import Policy
from antiphon.host.checks.redact import Redaction
from antiphon.host.models.selection import Choose, make_chooser, names_of
from antiphon.host.own_request import Messages, Offer, OwnAnswer, OwnMembers, RunMembers, make_request
from antiphon.host.pipeline import sampling_stages as pipeline
from antiphon.host.pipeline import tool_consent as consent
from antiphon.host.pipeline.case import SESSION, Desk
from antiphon.host.pipeline.stages import AnyParams, R, pass_result
from antiphon.host.providers import Provider, make_named_provider
from antiphon.host.providers.base import Completion
from antiphon.host.review.definitions import Servers
from antiphon.host.review.given_grants import Grants
from antiphon.host.review.review import Informed, Reviewer, check_undo
from antiphon.host.store.base import Store
from antiphon.host.store.memory_store import MemoryStore
from antiphon.machine.call_time import hold_variable
from antiphon.machine.other_frameworks import check_argument_types
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, SamplingCapability
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import ChangedCall, Equipment, Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

REVIEW_TIMEOUT = 600.0
"""Ten minutes: servers keep the state of an input round (``requestState``) this long by default."""
GENERATE_TIMEOUT = 300.0
"""Five minutes: longer than the slowest model takes, shorter than the timeouts of programs that wait for it."""


class Host:
    """Answers the asks of servers: sampling through a provider, elicitation through a person.

    By default a person is asked about everything, at the terminal; without a terminal everything is refused. A ``Host``
    is an answerer: ``Client(target, sampling=host, elicitation=host.elicit)``. It may serve many clients.
    """

    provider: Provider
    """Completes requests."""
    policy: Policy
    """The rules in force."""
    reviewer: Reviewer | None
    """Asks the person; ``None`` if nobody can be asked."""
    store: Store
    """Keeps reservations, grants, reviews and the audit."""
    grants: Grants
    """What a person allowed for more than one request."""
    audit: Audit
    """The record of what happened: metadata and hashes, and content only with ``keep_content``."""

    def __init__(
        self,
        provider: str | Provider = "echo",
        *,
        policy: Policy | None = None,
        reviewer: Reviewer | ReviewerMaker | Literal["terminal"] | None = "terminal",
        review: Literal["ask", "never"] = "ask",
        review_response: Literal["never", "flagged", "always"] = "never",
        review_timeout: float | None = REVIEW_TIMEOUT,
        generate_timeout: float | None = GENERATE_TIMEOUT,
        store: Store | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        redaction: Redaction | None = None,
        choose: Choose | None = None,
        keep_content: bool = False,
        undo: float | None = None,
        model_api: Callable[[Host], ModelApi] | None = None,
        edit_note: str = consent.EDIT_NOTE,
    ) -> None:
        """Choose the parts.

        Args:
            provider: ``"echo"``, ``"manual"`` (a person answers), or a ``Provider``.
            policy: rules that allow, ask or deny; by default everything is asked.
            reviewer: asks the person; ``None`` if nobody can be asked. By default the terminal;
                ``antiphon.web.ask_on_page`` asks in the browser. A function is called with the host, and makes one.
            review: ``"never"`` allows what the policy would ask about; use it for servers that are your own.
            review_response: ``"always"`` also shows each answer before it goes to the server, ``"flagged"`` those with
                a warning.
            review_timeout: seconds a person has to decide, after which the request is refused; ``None`` means no limit.
            generate_timeout: seconds a provider has to complete; ``None`` means no limit.
            store: keeps state beyond the life of the process, see ``open_store``; by default state is in memory.
            limits: bounds on size and frequency of requests.
            budget: bounds on money and tokens.
            redaction: patterns of secrets, and what happens when one is found.
            choose: picks the model and its price. By default a provider with several models (``Models``) does it.
            keep_content: also keep requests and answers in the audit, readable by anyone who can read the store.
            undo: seconds, 0 to 60, in which a permission given at the terminal can be taken back before it takes
                effect; 5 by default, at most a quarter of the time left. Other reviewers have their own; what a script
                decides takes effect at once.
            model_api: also serve servers that call a vendor's API themselves, by
                ``antiphon.model_api.serve_model_api``: a child process gets the address of an endpoint on this machine
                and a token instead of the vendor's key, and each of its calls is an ask of this host, whose ``aclose``
                ends the endpoint.
            edit_note: what a model is told, in the result of a tool, about a call that a person changed; ``{names}``
                stands for the changed arguments, an empty text tells nothing.

        Raises:
            ConfigError: a part has another type; there is no such provider, reviewer or review mode; or
                ``undo`` is given without the terminal, or out of bounds.
        """
        check_argument_types(Host, locals())
        if isinstance(store, str | Path):
            raise ConfigError(f"store is a Store, not a path: open_store({str(store)!r}) makes one")
        self.provider, self.store = _make_provider(provider), store or MemoryStore()
        self.policy = with_review(policy or Policy(), review)
        self.reviewer = _make_reviewer(reviewer, undo, self)
        self._informed = self.reviewer if isinstance(self.reviewer, Informed) else None
        self.grants = Grants(self.store)
        self.audit = Audit(self.store, content=keep_content)
        self._desk = Desk(
            provider=self.provider,
            policy=self.policy,
            reviewer=self.reviewer,
            review_response=review_response,
            review_timeout=review_timeout,
            generate_timeout=generate_timeout,
            store=self.store,
            grants=self.grants,
            audit=self.audit,
            gate=AskGate(limits or Limits()),
            budget=budget or Budget(),
            redaction=redaction or Redaction(),
            choose=choose or make_chooser(self.provider),
            edit_note=edit_note,
        )
        if model_api is not None and not callable(model_api):
            raise ConfigError(f"model_api is antiphon.model_api.serve_model_api or None, not {model_api!r}")
        # It begins to listen when the first server is equipped.
        self._model_api = None if model_api is None else model_api(self)

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that a client with this host can declare. Context of other servers is never offered."""
        return ClientCapabilities(
            sampling=SamplingCapability(tools={} if self.provider.tools else None),
            elicitation=None if self.reviewer is None else ElicitationCapability(form={}, url={}),
        )

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer a sampling request.

        Raises ``InvalidParams``: the request is not valid; the message names the place. Raises ``Rejected``: refused;
        ``data.reason`` is user, policy, no-reviewer, expired, changed, limit, budget, secret or no-model. Raises
        ``InternalError``: the provider or the store failed; the reason is not sent to the server.
        """
        return (await pipeline.complete_sampling(self._desk_for(*origin.identities), params, origin)).result

    async def answer(
        self, params: CreateMessageRequestParams, origin: Origin, flow: Callable[[str], object] | None = None
    ) -> Completion:
        """Answer a sampling request as calling the host does, and return the usage and the model as well.

        Args:
            params: the request.
            origin: who asks, and why.
            flow: gets the text of the answer while it comes, masked, if nobody reviews answers and the model's service
                streams. What it got is never taken back.

        Raises:
            InvalidParams: the request is not valid.
            Rejected: refused, as when the host is called.
            InternalError: the provider or the store failed; the reason is not sent to the server.
        """
        return await pipeline.complete_sampling(self._desk_for(*origin.identities), params, origin, flow)

    def model_names(self, origin: Origin) -> tuple[str, ...]:
        """Return the names under which a server may wish for a model: those it is allowed.

        Args:
            origin: the server.
        """
        return names_of(self.provider, self._desk_for(*origin.identities).models)

    async def equip(self, origin: Callable[[], Origin]) -> Equipment | None:
        """Prepare what a server's process gets to use the model API; ``None`` if this host offers none.

        A client calls this before it starts a server.

        Args:
            origin: makes the origin of an ask of that server.
        """
        return None if self._model_api is None else await self._model_api.equip(origin)

    async def elicit(
        self, params: ElicitRequestParams, origin: Origin, *, reviewer: Reviewer | None = None
    ) -> ElicitResult:
        """Answer an elicitation: with what the person did, or with ``decline`` if nobody can be asked.

        Args:
            params: the request.
            origin: who asks, and why.
            reviewer: shows it to the person in place of the host's own reviewer; all else is the same.

        Raises:
            InvalidParams: the form cannot be read; the message names the place.
        """
        return await pipeline.answer_elicitation(self._reviewed_by(reviewer, origin), params, origin)

    async def confirm(
        self, params: CallToolRequestParams, origin: Origin, *, reviewer: Reviewer | None = None
    ) -> bool | ChangedCall:
        """Decide whether a tool may be called: ``Client(target, confirm=host)`` asks this before each call.

        Args:
            params: the call.
            origin: the server, and what it says about the tool.
            reviewer: shows it to the person in place of the host's own reviewer; all else is the same.

        Returns:
            True, or what a person wants in place of the call; a refusal is an exception.

        Raises:
            InvalidParams: the arguments cannot be read.
            Rejected: refused; ``data.reason`` is user, policy, no-reviewer, expired, changed, limit or definition (the
                server has changed the definition of the tool since it was allowed, and nobody can look at it).
            InternalError: the reviewer or the store failed; the reason is not sent to the server.
        """
        return await consent.confirm_tool(self._reviewed_by(reviewer, origin), params, origin) or True

    async def examine(self, result: R, params: AnyParams, origin: Origin) -> R:
        """Return what a model gets of a result, by the policy's rules about results.

        ``Client(target, confirm=host)`` asks this after each call of a tool, a gateway also for resources and prompts.

        Args:
            result: what the server returned.
            params: the call, or what was read.
            origin: the server, and what it says about the tool.

        Raises:
            Rejected: a resource or a prompt is withheld; of a tool's result a sentence says so.
            InternalError: the reviewer or the store failed; the model gets nothing of the result.
        """
        desk = self._desk_for(*origin.identities)
        passed = await pass_result(desk, result, params, origin)
        if desk.policy.rules and isinstance(passed, CallToolResult) and "links" in desk.policy.variables:
            desk.passed.note_links(origin, list_links(passed))
        return passed

    async def offers(self, params: CreateMessageRequestParams, identity: str) -> tuple[Offer, ...]:
        """Return the models that may answer a request of one's own, the one that would be chosen first.

        Args:
            params: the request.
            identity: identity of the server that the text is from; only models that may answer it are offered.

        Raises:
            Rejected: none may; the message says why.
        """
        return await pipeline.offers_own(self._desk_for(identity), params)

    async def complete(
        self,
        messages: Messages,
        *,
        identity: str = "",
        by: str | None = None,
        model: str | None = None,
        flow: Callable[[str], object] | None = None,
        **members: Unpack[OwnMembers],
    ) -> OwnAnswer:
        """Ask a model yourself: limited, priced, budgeted and recorded as every answer is, and reviewed by nobody.

        It is charged and recorded under an identity of its own, ``person:own``.

        Args:
            messages: a text of the user, or several texts and messages; or a whole request.
            identity: identity of the server that the text is from: only models that may answer that server are used.
                Default: no server's.
            by: who asks, for the record; default nobody in particular.
            model: one of the models that ``offers`` returns; by default the first.
            flow: gets the text of the answer while it comes, as for ``answer``.
            members: other members of the request: ``max_tokens`` (default 1,000), ``system_prompt``, ``temperature``,
                ``stop_sequences``, ``model_preferences``, ``tools`` and ``tool_choice``. With tools, the answer may
                hold tool uses, which the caller carries out.

        Raises:
            InvalidParams: the request is not valid; the message names the place.
            Rejected: a limit, the budget, a secret in the request, or the lack of a model refuses it.
            InternalError: the provider or the store failed; its text stays here.
        """
        request = make_request(messages, members)
        return await pipeline.answer_own(self._desk_for(identity), request, by=by, model=model, flow=flow)

    async def run(
        self,
        messages: Messages,
        tools: ToolSource | Sequence[ToolSource],
        *,
        run_id: str | None = None,
        max_steps: int = MAX_STEPS,
        max_result: int = MAX_RESULT,
        on_event: OnEvent | None = None,
        by: str | None = None,
        model: str | None = None,
        **members: Unpack[RunMembers],
    ) -> RunResult:
        """Ask a model, call the tools that it wants, and ask again, until it answers without tools.

        Each call of the model passes the stages of ``complete``, each call of a tool those of ``confirm``, once. What
        a tool cannot do, and why a call was refused, is told to the model. Cancelling ends the calls in progress.

        With ``run_id`` each step is recorded in the host's store before the next begins. If the run is interrupted,
        even by a kill, the same call goes on from there: recorded answers and results are not asked for again. A call
        that began and is not recorded as ended may have been made, so a person is asked what became of it; it is not
        made again unless that person says so.

        Args:
            messages: a text of the user, or several texts and messages; or a whole request, whose tools do not count.
            tools: a ``Client``, or what has ``tools()`` and ``call_tool()``, or several of them. A tool whose
                ``_meta.ui.visibility`` leaves the model out is not offered.
            run_id: names the run in the host's store, for ever or until ``forget_run``; by default nothing is kept.
            max_steps: most calls of the model; 10 by default.
            max_result: most characters of a tool's result that the model gets; 100,000 by default.
            on_event: called with each ``RunEvent``; may be a coroutine function; by default nobody is told.
            by: who asks, for the record; default nobody in particular.
            model: one of the models that ``offers`` returns; by default the first.
            members: other members of the requests: ``max_tokens`` (default 1,000), ``system_prompt``, ``temperature``,
                ``stop_sequences`` and ``model_preferences``.

        Raises:
            Rejected: a limit, the budget, a secret, or the lack of a model refuses a call of the model.
            InternalError: the provider or the store failed; its text stays here.
            ConfigError: an argument cannot be used; or the run was begun with other messages, or another process goes
                on with it.
        """
        request, sources = make_request(messages, members), as_sources(tools)
        session, passed = token_hex(8), self._desk.passed
        record = RunRecord(self.store, run_id, passed.read_labels, passed.restore_labels)
        try:
            with hold_variable(SESSION, session):
                return await run_steps(
                    self, request, sources, record=record,
                    max_steps=max_steps, max_result=max_result, on_event=on_event, by=by, model=model,
                )  # fmt: skip
        finally:
            passed.forget_session(session)

    async def forget_run(self, run_id: str) -> None:
        """Delete all that was recorded of a run. The same id then begins a new run.

        Args:
            run_id: names the run.
        """
        await self.store.forget_run(run_id)

    def handed_over(self, origin: Origin, why: str | None = None) -> Awaitable[None] | None:
        """Record what became of an answer. A client reports this for each answer.

        Args:
            origin: the origin of the ask.
            why: why the answer came too late: ``"cancelled"`` (the ask was withdrawn), ``"call-gone"`` (the server no
                longer knew the call), ``"deadline"`` (the call's time was over) or ``"closed"`` (the connection had
                ended); ``None`` if it was handed over. For a call of a tool: whether it was sent.

        Returns:
            An awaitable if there is something to record, else ``None``.
        """
        # Found out when the host was made: the check looks at each member of a class, and every call comes here.
        if self._informed is not None:
            self._informed.handed_over(origin, why)
        return self._desk.released.record(self.audit, self.store, origin, why)

    def _reviewed_by(self, reviewer: Reviewer | None, origin: Origin) -> Desk:
        desk = self._desk_for(*origin.identities)
        return desk if reviewer is None else msgspec.structs.replace(desk, reviewer=reviewer)

    def _desk_for(self, *identities: str) -> Desk:
        """Return the parts that answer a server of these identities."""
        return self._desk

    async def __aenter__(self) -> Self:
        """Return itself; it is closed at the end of the block."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the review page and the model API of this host. The store stays open."""
        try:
            if self._model_api is not None:
                await self._model_api.aclose()
        finally:
            if isinstance(self.reviewer, ShowingReviewer):
                await self.reviewer.aclose()


def with_review(policy: Policy, review: Literal["ask", "never"]) -> Policy:
    """Return a policy for a review mode: with ``"never"``, it allows what it would ask about.

    What a rule leaves to certain people is still asked about.
    """
    if review == "ask":
        return policy
    rules = tuple(
        msgspec.structs.replace(rule, effect="allow") if rule.effect == "ask" and not rule.demands else rule
        for rule in policy.rules
    )
    results = tuple(
        msgspec.structs.replace(rule, effect="pass") if rule.effect == "ask" else rule for rule in policy.results
    )
    default = "allow" if policy.default in ("ask", "flow") else policy.default
    return msgspec.structs.replace(policy, rules=rules, results=results, default=default)


def _make_provider(given: str | Provider) -> Provider:
    if isinstance(given, str):
        return make_named_provider(given)
    missing = [name for name in ("name", "tools", "personal", "complete") if not hasattr(given, name)]
    if missing:
        raise ConfigError(f'provider is "echo", "manual" or a Provider; {given!r} has no {", ".join(missing)}')
    if isinstance(made := cast("object", given), type):
        raise ConfigError(f"provider is a class: make one, as in {made.__name__}()")
    return given


def _make_reviewer(given: str | Reviewer | ReviewerMaker | None, undo: float | None, host: Host) -> Reviewer | None:
    if check_undo(undo) is not None and given != "terminal":
        raise ConfigError("undo is for the terminal: give it to ask_on_page, or the Queue")
    if given == "terminal":
        # Imported here, so that programs that never ask at a terminal do not load it.
        from antiphon.host.terminal import TerminalReviewer

        return TerminalReviewer() if undo is None else TerminalReviewer(undo=undo)
    made = given(host) if isinstance(given, type) or (callable(given) and not hasattr(given, "review")) else given
    # One that only confirms calls of tools needs no more than that.
    if given is not None and not hasattr(made, "review") and not hasattr(made, "confirm"):
        raise ConfigError(f'reviewer is "terminal", in open_host "queue", a Reviewer, its maker or None, not {given!r}')
    return cast("Reviewer | None", made)


ReviewerMaker = Callable[[Host], Reviewer]
"""Makes the reviewer of a host, which stands in a layer above."""


@runtime_checkable
class ShowingReviewer(Protocol):
    """A reviewer that also shows the servers, and ends with its host: the review page."""

    servers: Servers | None
    """Set by the gateway in front of them."""

    async def aclose(self) -> None:
        """End what it has opened."""


class ModelApi(Protocol):
    """An endpoint on this machine that speaks as vendors do, and asks a host."""

    async def equip(self, origin: Callable[[], Origin]) -> Equipment:
        """Make the equipment of one server.

        Args:
            origin: makes the origin of an ask of that server.
        """
        ...

    async def aclose(self) -> None:
        """Close the endpoint, and withdraw the asks that wait."""
