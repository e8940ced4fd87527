"""The host that answers asks during a command: as configured, and at the terminal unless options say otherwise.

Owns the choice of the host's parts by the options of a command.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from antiphon.cli.options import AnswerOptions, ReviewAt
from antiphon.cli.output.progress import Teller
from antiphon.errors import ConfigError, Rejected
from antiphon.host.budget import format_dollars
from antiphon.host.checks.form_fields import fields_of
from antiphon.host.config import Config, load_config
from antiphon.host.configured_host import ConfiguredHost, queue_in
from antiphon.host.host import ReviewerMaker
from antiphon.host.model_catalogue import ModelCatalogue
from antiphon.host.models.models import Models
from antiphon.host.models.selection import complete_model, model_of
from antiphon.host.providers import Provider, make_named_provider
from antiphon.host.review.review import Decision, Deny, ElicitItem, Reviewer, ReviewItem, ToolItem
from antiphon.host.store import MemoryStore, Store, open_store, usual_store
from antiphon.host.store.chain import Record
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import read_data
from antiphon.wire.origin import Equipment, Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

_REMEDIES = {
    "no-reviewer": "--yes answers without asking, --review page asks on a page",
    "policy": "antiphon policy show lists the rules; --deny refuses everything",
    "budget": "antiphon audit spend shows what was spent",
}
"""What a person can do about a refusal, by its reason."""


class DefaultReviewer:
    """Replaces a person after ``--yes``: a form is sent with its defaults, if these are complete."""

    available = True

    async def review(self, item: ReviewItem | ToolItem) -> Decision:
        """Refuse, because a review that is required despite ``--yes`` needs a person."""
        return Deny(reason="--yes answers no such question")

    confirm = review

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Accept a form whose required fields all have defaults; never an address to visit."""
        fields = fields_of(item.params)
        if item.params.mode == "url" or any(field.required and field.default is None for field in fields):
            return ElicitResult(action="decline")
        content = {field.name: field.default for field in fields if field.default is not None}
        return ElicitResult(action="accept", content=content)


def choose_host(
    answers: AnswerOptions, *, config: Path | None = None, soon: bool = False, model_api: bool = False
) -> ConfiguredHost:
    """Make the host for a command. Closing it closes its store.

    ``config``: the only configuration file to read. ``soon``: questions are certain to come, so the usual store is
    loaded in the meantime. ``model_api``: also serve servers that call a vendor's API themselves.
    """
    if answers.yes and answers.deny:
        raise ConfigError("--yes and --deny contradict each other")
    endpoint = None
    if model_api:
        # Imported here, as other commands need none of it.
        from antiphon.model_api.endpoint import serve_model_api

        endpoint = serve_model_api
    if answers.deny:
        if config is not None:
            # Checks that a file which was named exists and can be read.
            read_configuration(config, os.environ)
        # Nothing will be asked of this host, whatever is configured.
        return ConfiguredHost(
            Config(), os.environ, provider=make_named_provider("echo"), review="refuse", model_api=endpoint
        )
    configured = read_configuration(config, os.environ)
    completes = _choose_provider(configured, answers.provider, answers.model, os.environ)
    place = answers.store or configured.store
    opened = open_store(place) if place is not None else None
    kept = opened or usual_store(soon=soon)
    return ConfiguredHost(
        configured,
        os.environ,
        provider=completes,
        reviewer=DefaultReviewer() if answers.yes else _choose_reviewer(opened, kept, answers.review, configured),
        review="never" if answers.yes else None,
        store=kept,
        closes_store=True,
        model_api=endpoint,
    )


def _choose_reviewer(
    store: Store | None, kept: Store, review: ReviewAt | None, config: Config
) -> Reviewer | ReviewerMaker:
    """Choose the reviewer: the queue in the store if that is requested, or if nobody is at this terminal.

    ``store``: the store that was named, if any. ``kept``: the store that is used.
    """
    if review == "page":
        from antiphon.web.page_reviewer import ask_on_page

        return ask_on_page
    # Imported here, so that commands that ask nobody do not load it.
    from antiphon.host.terminal import TerminalReviewer

    terminal = TerminalReviewer(undo=config.review.undo)
    if review == "queue":
        if isinstance(kept, MemoryStore):
            raise ConfigError("--review queue needs a store that antiphon review can open: name a file with --store")
        return queue_in(kept, config)
    if store is not None and review is None and not terminal.available:
        return queue_in(store, config)
    return terminal


def read_configuration(file: Path | None, environ: Mapping[str, str]) -> Config:
    """Read the configuration. ``file``: that of ``--config``; a JSON file lists only servers and is not ours."""
    is_ours = file is not None and (file.suffix == ".toml" or file.is_dir() or not file.exists())
    return load_config(environ, file=file if is_ours else None)


def _choose_provider(
    config: Config, provider: str | None, model: str | None, environ: Mapping[str, str]
) -> Provider | None:
    """Return the provider; ``None`` for all configured models."""
    if provider in ("echo", "manual"):
        return make_named_provider(provider)
    if provider is not None:
        return Models(ModelCatalogue((model_of(provider, model, environ),), complete=complete_model), environ)
    if model is not None:
        # Only the model that was named, without its fallback.
        return Models(ModelCatalogue((msgspec.structs.replace(config.catalogue().get(model), fallback=None),)), environ)
    return None


class Answering:
    """A host, with a line at the terminal about each of its answers."""

    def __init__(self, host: ConfiguredHost, teller: Teller) -> None:
        self.host = host
        self._teller = teller

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the host can answer."""
        return self.host.capabilities

    async def sample(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer a sampling request; nothing else is written to the terminal meanwhile."""
        try:
            with self._teller.held():
                result = await self.host(params, origin)
        except Rejected as error:
            if origin.round is None:
                self._teller.say(f"sampling request {describe_refusal(error)}", "yellow")
            elif reason_of(error) == "no-reviewer":
                # A refused round ends the call, and the error of the call says the rest in one line.
                error.add_note(_REMEDIES["no-reviewer"])
            raise
        records = self.host.audit.records(origin.id)
        self._teller.say(f"sampling request answered by {result.model!r}{_describe_duration(records)}", "green")
        return result

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        """Answer an elicitation; nothing else is written to the terminal meanwhile."""
        with self._teller.held():
            result = await self.host.elicit(params, origin)
        self._teller.say(f"elicitation: {result.action}", "green" if result.action == "accept" else "yellow")
        return result

    async def equip(self, origin: Callable[[], Origin]) -> Equipment | None:
        """Prepare what the server's process gets to use the model API."""
        return await self.host.equip(origin)

    def handed_over(self, origin: Origin, why: str | None = None) -> Awaitable[None] | None:
        """Report what became of an answer."""
        return self.host.handed_over(origin, why)


def _describe_duration(records: Sequence[Record]) -> str:
    """Say how long a model took, and its usage; empty if none was asked, or it reports no usage."""
    settled = [record for record in records if record.step == "settled" and record.input_tokens is not None]
    sent = [at for at, record in enumerate(records[:-1]) if record.step == "generate"]
    tokens = sum((each.input_tokens or 0) + (each.output_tokens or 0) for each in settled)
    if not sent or not tokens:
        return ""
    # Up to the next record, since a review of the answer comes after it.
    seconds = records[sent[-1] + 1].at - records[sent[-1]].at
    money = sum(each.money or 0 for each in settled)
    return f" in {seconds:.1f} s, {tokens} tokens{f', {format_dollars(money)}' if money else ''}"


def describe_refusal(error: Rejected) -> str:
    """Say who refused, why, and what a person can do about it."""
    reason = reason_of(error)
    if reason == "user":
        return "; ".join(["refused by you", *getattr(error, "__notes__", ())])
    return "; ".join(filter(None, [f"refused: {error.message}", _REMEDIES.get(reason)]))


def reason_of(error: Rejected) -> str:
    """Return the word for the reason of a refusal."""
    return str(read_data(error, "reason") or "user")
