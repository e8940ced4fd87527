"""The content of ``antiphon.toml`` as values, and the defaults.

Owns names, types and defaults, how a server's settings follow from the general ones, and the ``[gateway]`` table.
Reading is left to ``toml_files``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.budget import DOLLAR, Cap, convert_to_nano
from antiphon.host.budget import Budget as Spending
from antiphon.host.checks.ask_limits import Limits
from antiphon.host.checks.people import Role, check_name
from antiphon.host.checks.policy_rules import Policy
from antiphon.host.checks.redact import mask_text
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.selection import complete_model
from antiphon.host.review.notify import NoticeTarget
from antiphon.host.review.queue import UNDO
from antiphon.host.review.review import MAX_REASON, MAX_UNDO
from antiphon.identity import command_of, launch_of
from antiphon.machine.files import expand_home
from antiphon.machine.loopback import is_loopback
from antiphon.machine.other_frameworks import suggest_similar
from antiphon.wire.origin import Launch, describe_target, identify_target, list_coarser

Review = Literal["never", "ask", "refuse"]
"""``ask``: ask a person; ``never``: allow what the policy would ask about; ``refuse``: refuse everything."""
ReviewResponse = Literal["never", "flagged", "always"]

MAX_REASONS = 20
"""Most suggested reasons; a longer list is not usable."""
MAX_TARGETS = 20
"""Most services that are told of questions: each notice starts a process for each of them."""
_REVIEWS: tuple[Review, ...] = ("never", "ask", "refuse")
_RESPONSES: tuple[ReviewResponse, ...] = ("never", "flagged", "always")


class _Amounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Bounds, each of which may be left out."""

    def __post_init__(self) -> None:
        for name, value in self.list_set().items():
            if not Decimal(value).is_finite() or value < 0:
                raise ValueError(f"{name} is 0 or more")

    def list_set(self) -> dict[str, int | Decimal]:
        """Return the members that are set."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class Caps(_Amounts, frozen=True, kw_only=True):
    """How much one server may ask for; ``None`` sets no limit here."""

    max_tokens: int | None = None
    """Tokens of an answer, per request."""
    per_minute: int | None = None
    """Requests in any 60 seconds."""
    concurrent: int | None = None
    """Concurrent requests."""
    per_call: int | None = None
    """Requests during one call of ours."""


class ServerBudget(_Amounts, frozen=True, kw_only=True):
    """How many US dollars may be spent; ``None`` sets no limit here."""

    call: Decimal | None = None
    """For the requests during one call of ours."""
    server: Decimal | None = None
    """For one server, in all."""
    day: Decimal | None = None
    """For all servers, per day (UTC)."""
    total: Decimal | None = None
    """For all servers, in all."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings for a server; ``None`` leaves a setting to the more general settings."""

    models: tuple[str, ...] | None = None
    """Names of models that it may use, or globs over names."""
    review: Review | None = None
    review_response: ReviewResponse | None = None
    caps: Caps = Caps()
    budget: ServerBudget = ServerBudget()

    def limits(self) -> Limits:
        """Return the caps as limits of the host; where they say nothing, the host's defaults apply."""
        return msgspec.structs.replace(Limits(), **self.caps.list_set())

    def spending(self) -> Spending:
        """Return the budget as the host's budget."""
        caps = {name: Cap(money=convert_to_nano(Decimal(value))) for name, value in self.budget.list_set().items()}
        return msgspec.structs.replace(Spending(), **caps)


class ServerEntry(ServerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of one server, identified by its target or identity and never by the name it declares."""

    target: str | tuple[str, ...] | None = None
    """Its URL, its command line as a list of words, or the path of its ``.py`` file."""
    identity: str | None = None
    """Its identity, as reviews and records show it, instead of ``target``."""
    env: dict[str, str] = {}
    """Environment variables of its configuration; those that determine code are part of its identity."""
    cwd: str | None = None
    """The folder it is started in; by default that of this file."""

    def __post_init__(self) -> None:
        if (self.target is None) == (self.identity is None):
            raise ValueError("needs either target or identity")
        is_file = isinstance(self.target, str) and self.target.endswith(".py") and " " not in self.target
        if isinstance(self.target, str) and "://" not in self.target and not is_file:
            raise ValueError('target is a URL, a .py file, or a command line as a list of words: ["python", "shop.py"]')
        if not self.target and self.identity is None:
            raise ValueError("target is empty: name the program first")
        if (self.env or self.cwd) and (self.identity is not None or "://" in str(self.target)):
            raise ValueError("env and cwd belong to a command line in target")

    def within(self, folder: Path) -> ServerEntry:
        """Return the entry with an absolute folder; ``folder`` is that of its file."""
        if self.target is None or (isinstance(self.target, str) and "://" in self.target):
            return self
        return msgspec.structs.replace(self, cwd=str(folder / expand_home(self.cwd or ".")))

    @property
    def find_identity(self) -> str:
        """Its identity."""
        return self.identity or identify_target(self._locate_server)

    @property
    def coarser(self) -> tuple[str, ...]:
        """The identities that it shares with similar servers; see ``Origin.coarser``."""
        return () if self.identity is not None else list_coarser(self._locate_server)

    @property
    def described(self) -> str | None:
        """Its URL or command line as configured, for people; ``None`` if only the identity is configured."""
        if self.target is None:
            return None
        is_url = isinstance(self.target, str) and "://" in self.target
        return describe_target(self.target if is_url or not isinstance(self.target, str) else [self.target])

    @property
    def _locate_server(self) -> str | Launch:
        target = self.target or ""
        if isinstance(target, str) and "://" in target:
            return target
        argv = tuple(command_of(Path(self.cwd or ".", target))) if isinstance(target, str) else target
        return _examine_launch(argv, tuple(self.env.items()), self.cwd, os.environ.get("PATH", ""))


@lru_cache(maxsize=1024)
def _examine_launch(argv: tuple[str, ...], env: tuple[tuple[str, str], ...], cwd: str | None, path: str) -> Launch:
    """Examine the files of an entry once: its identity is compared with that of every request."""
    return launch_of(argv, env=dict(env), cwd=cwd)


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How people are notified that a question waits. Only ``targets`` may learn what is asked."""

    bell: bool = True
    """Ring the bell of the terminal that serves the page or watches the queue."""
    targets: Annotated[tuple[NoticeTarget, ...], msgspec.Meta(max_length=MAX_TARGETS)] = ()
    """Services that tell people where they are: Slack, Telegram, e-mail, ntfy and others, and at most once browsers;
    needs ``antiphon[notices]``."""
    push_hosts: tuple[str, ...] = ()
    """Hosts of push services in your own network. Others must be public: it is a browser that names its service."""

    page: str | None = None
    """The address of a review page on which nobody signs in, for browsers, without a path: that of a proxy in front of
    it, ``https://review.example.org``; http only under ``.localhost``. Notices to ``targets`` then have links to it,
    each for one question. Where people sign in, links lead to the ``url`` of ``[review.sign_in]``."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.page or "https://none.example")
        # Browsers send the cookies of 127.0.0.1 to every program of this machine.
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and (parts.hostname or "").endswith(".localhost"))
        if not parts.hostname or not is_safe or parts[2:] not in (("", "", ""), ("/", "", "")):
            raise ValueError("page is an https address without a path; http only under .localhost")
        if sum(target.is_push for target in self.targets) > 1:
            raise ValueError("targets has webpush:// at most once: every browser would be told several times")


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How people sign in on the review page: the ``[review.sign_in]`` table. Without it, whoever opens it decides."""

    url: str
    """The page's address for browsers: ``https://review.example.org``; http only on this machine. The provider has to
    know it with ``/sign-in/callback`` as the redirect URI, and with ``/signed-out`` as the one after signing out."""
    issuer: str = ""
    """The OpenID provider, as its metadata names it."""
    client_id: str = ""
    """The page's client id there."""
    passwords: str | None = None
    """Instead of a provider: the path of a file with people and their hashed passwords; ``~`` is the home folder."""
    client_secret: str | None = None
    """Name of the environment variable with the secret of that client; a public client has none."""
    scopes: tuple[str, ...] = ("profile", "email")
    """Scopes to ask for besides ``openid``."""
    groups_claim: str = "groups"
    """The claim of the ID token that lists a person's groups; ``realm_access.roles`` for one within another."""
    roles: dict[Role, tuple[str, ...]]
    """Who is ``viewer``, ``reviewer`` or ``admin``: ``"group:NAME"``, ``"sub:SUBJECT"``, a verified e-mail address, or
    ``"*"`` for everybody who can sign in. Nobody else is let in."""
    hours: Annotated[float, msgspec.Meta(gt=0, le=24 * 31)] = 8.0
    """Hours after which a person has to sign in again, and roles are read anew."""

    def __post_init__(self) -> None:
        # The provider's own settings: all that are needed, or none.
        given = [bool(self.issuer), bool(self.client_id), *([True] if self.client_secret else [])]
        if any(given) == (self.passwords is not None) or any(given) != all(given):
            raise ValueError("people sign in either with issuer and client_id, or with passwords")
        if self.passwords is not None and not expand_home(self.passwords).is_absolute():
            raise ValueError("passwords is a whole path: ~/.config/antiphon/people.toml")
        for name, address in (("url", self.url), ("issuer", self.issuer or self.url)):
            parts = urlsplit(address)
            on_machine = parts.scheme == "http" and is_loopback(parts.hostname or "")
            if not parts.hostname or not (parts.scheme == "https" or on_machine) or parts.query or parts.fragment:
                raise ValueError(f"{name} is an https address; http only on this machine")
        if urlsplit(self.url).path not in ("", "/"):
            raise ValueError("url is without a path: give the page a host name of its own")
        if not any(self.roles.values()):
            raise ValueError("roles names somebody: roles.reviewer = [...]")
        for each in (name for names in self.roles.values() for name in names):
            check_name(each)

    @property
    def origin(self) -> str:
        """The address of the page, without a slash at its end."""
        return self.url.rstrip("/")


class Reviewing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How people review: the ``[review]`` table."""

    undo: float = UNDO
    """Seconds for which a permission can be undone before it counts, wherever a person decides; 0 for none."""
    reasons: tuple[str, ...] = ()
    """Suggested reasons for a refusal, in addition to those of the language."""
    edit_note: str | None = None
    """What a model is told about a call of a tool that a person changed; ``{names}`` stands for the changed arguments,
    an empty text tells nothing."""
    sign_in: SignIn | None = None
    """Who may open the page, and decide what; by default whoever has the address that opens it once."""

    def __post_init__(self) -> None:
        if not 0 <= self.undo <= MAX_UNDO:
            raise ValueError(f"undo is 0 to {MAX_UNDO:g} seconds")
        if len(self.reasons) > MAX_REASONS or any(len(reason) > MAX_REASON for reason in self.reasons):
            raise ValueError(f"reasons are at most {MAX_REASONS}, of at most {MAX_REASON} characters")


class AccessTokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The access tokens that let clients into a gateway or a server of this user: the ``[auth]`` table."""

    issuers: tuple[str, ...] = ()
    """Authorization servers whose tokens are accepted, as their metadata names them."""
    audience: str | tuple[str, ...] = ()
    """The ``aud`` of tokens for this server; by default its ``url``."""
    url: str | None = None
    """The address of the server for clients; by default the audience."""
    scopes: tuple[str, ...] = ()
    """Scopes that every token must have."""
    token_issuers: tuple[str, ...] = ()
    """The ``iss`` of tokens, if it differs from the issuer."""
    scope_claims: tuple[str, ...] = ("scope", "scp")
    """Claims that list scopes."""
    introspection_client: str | None = None
    """Ask the issuer about its tokens, as this client, instead of verifying signatures."""
    introspection_secret: str | None = None
    """Name of the environment variable with the secret of that client."""
    dpop: bool = False
    """Accept only tokens that are bound to a key of the client."""

    def __post_init__(self) -> None:
        if not self.issuers:
            raise ValueError("needs issuers: the authorization servers whose tokens are accepted")
        if not self.audience and self.url is None:
            raise ValueError("needs audience: what tokens for this server name in aud")
        if (self.introspection_client is None) != (self.introspection_secret is None):
            raise ValueError("introspection_client and introspection_secret belong together")
        if len(self.issuers) > 1 and (self.token_issuers or self.introspection_client):
            raise ValueError("token_issuers and introspection are for a single issuer")
        name = self.introspection_secret
        if name is not None and not (name.isidentifier() and name.isascii() and len(name) < 100):
            raise ValueError("introspection_secret is the name of an environment variable, not the secret itself")


_LIMITS, _SPENDING = Limits(), Spending()

STANDARD = ServerSettings(
    review="ask",
    review_response="never",
    caps=Caps(**{name: getattr(_LIMITS, name) for name in Caps.__struct_fields__}),
    budget=ServerBudget(
        **{
            name: None if (money := getattr(_SPENDING, name).money) is None else Decimal(money) / DOLLAR
            for name in ServerBudget.__struct_fields__
        }
    ),
)
"""The defaults: the host's own limits."""

QUICK_CANCEL = 0.5
"""Seconds in which no person has read a form: ``claude -p`` cancels each form after a few milliseconds."""


class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server behind the gateway."""

    tools: tuple[str, ...] | None = None
    """Globs over its own names of its tools; one that begins with ``!`` denies, and a deny wins."""
    prefix: str | None = None
    """What its tools' names begin with, instead of its name."""
    rename: dict[str, str] = {}
    """New names for single tools, by the server's own names of them."""
    owns: tuple[str, ...] = ()
    """Globs over its URIs and templates of resources that overlap with another server's."""
    start_timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds in which it must start and list what it offers; read when the gateway starts."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named choice of servers and tools."""

    only: tuple[str, ...] | None = None
    """The servers; all by default."""
    tools: tuple[str, ...] | None = None
    """Globs over the tools of every server, in addition to all others: what one of them denies is denied."""
    servers: dict[str, Served] = {}
    """The same for single servers."""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ``antiphon gateway`` serves, and how."""

    names: Literal["prefix", "none"] | None = None
    search: bool | None = None
    """Whether clients search among the tools instead of listing them."""
    as_tools: bool = False
    """Whether resources and prompts are offered by tools, too."""
    list_timeout: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds that lists wait for all servers that were never listed, from the start of the gateway."""
    environment: Literal["host", "minimal"] = "host"
    """Which environment servers get: all that the gateway's own host gave to it, or a safe part. Those of a project's
    file get the safe part, unless a person has trusted it with more."""
    model_api: bool = False
    """Whether the servers that it starts get the model API instead of vendors' keys."""
    tools: tuple[str, ...] | None = None
    """Globs over the tools of every server."""
    quick_cancel: Annotated[float, msgspec.Meta(ge=0)] = QUICK_CANCEL
    """Seconds; a client that cancels a form earlier has shown it to nobody. See ``Gateway``."""
    answer_within: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds that a client waits for a person to decide about its call of a tool, before it is told to ask again; by
    default 50, because most hosts give a call up after 60."""
    servers: dict[str, Served] = {}
    profiles: dict[str, Profile] = {}

    def profile(self, name: str | None) -> Profile:
        """Return the profile of a name; without a name, one that chooses everything."""
        if name is None:
            return Profile()
        if name not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise ConfigError(f"there is no profile {name!r}; there are: {known}. Write [gateway.profiles.{name}]")
        return self.profiles[name]

    def find_unknown_servers(self, known: Sequence[str]) -> Iterator[str]:
        """Say which tables are about servers that are not there: a list of tools in them denies nothing."""
        tables = {"gateway": self.servers, **{f"gateway.profiles.{n}": p.servers for n, p in self.profiles.items()}}
        for table, servers in tables.items():
            for name in servers:
                if name not in known:
                    hint = suggest_similar(name, known)
                    yield f"[{table}.servers.{name}] holds for no server: there is none of that name; {hint}"

    def tool_lists(self, profile: Profile) -> list[Mapping[str, tuple[str, ...]]]:
        """Return all lists of globs by server that a tool must pass; ``"*"`` is every server."""
        return [
            {
                **({} if every is None else {"*": every}),
                **{n: s.tools for n, s in servers.items() if s.tools is not None},
            }
            for every, servers in ((self.tools, self.servers), (profile.tools, profile.servers))
        ]

    @property
    def start_timeouts(self) -> dict[str, float]:
        """The seconds in which servers must start, by server, where they are given."""
        return {name: served.start_timeout for name, served in self.servers.items() if served.start_timeout is not None}

    def prefixes(self, profile: Profile) -> dict[str, str]:
        """Return the prefixes by server; a profile's prefix replaces a general one."""
        both = (*self.servers.items(), *profile.servers.items())
        return {name: served.prefix for name, served in both if served.prefix is not None}

    def owned(self, profile: Profile) -> dict[str, tuple[str, ...]]:
        """Return the globs over URIs that a server owns, by server."""
        return {name: served.owns for name, served in (*self.servers.items(), *profile.servers.items()) if served.owns}

    def renamed(self, profile: Profile) -> dict[str, dict[str, str]]:
        """Return the names given by hand, by server and its own names; a profile's replace general ones."""
        names: dict[str, dict[str, str]] = {}
        for name, served in (*self.servers.items(), *profile.servers.items()):
            names[name] = {**names.get(name, {}), **served.rename}
        return names


class ConfigTables(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of a file that stay as they are in the whole configuration."""

    models: tuple[Model, ...] = ()
    servers: tuple[ServerEntry, ...] = ()
    policy: Policy | None = None
    notify: Notify = Notify()
    review: Reviewing = Reviewing()
    auth: AccessTokens | None = None
    """Who may connect over a network; ``None`` if nobody has to sign in."""
    gateway: GatewaySettings = GatewaySettings()


class Config(ConfigTables, frozen=True, kw_only=True):
    """The whole configuration."""

    default: str | None = None
    order: tuple[str, ...] = ()
    settings: ServerSettings = STANDARD
    tightened: ServerSettings = ServerSettings()
    """Additional settings of a project for all servers, which can only make rules stricter."""
    tightened_servers: tuple[ServerEntry, ...] = ()
    """The same for single servers."""
    review_timeout: float | None = None
    """Seconds; ``None`` for the host's default."""
    generate_timeout: float | None = None
    """Seconds; ``None`` for the host's default."""
    attempts: int | None = None
    """Attempts per request; ``None`` for the host's default."""
    store: str | None = None
    """The store, in the form ``open_store`` takes; ``None`` if not configured."""
    keep_content: bool = False
    """Whether requests and answers are kept in the audit, where anyone who can read the store can read them."""
    files: tuple[Path, ...] = ()
    """The files it was read from."""

    @property
    def server_names(self) -> dict[str, str]:
        """Where each configured server is found, by identity, for display."""
        entries = (*self.servers, *self.tightened_servers)
        return {entry.find_identity: mask_text(said) for entry in entries if (said := entry.described) is not None}

    @property
    def names_budget(self) -> bool:
        """Whether a file bounds what is spent. What was spent must then last over restarts."""
        entries = (self.tightened, *self.servers, *self.tightened_servers)
        return self.settings.budget != STANDARD.budget or any(each.budget != ServerBudget() for each in entries)

    def catalogue(self) -> ModelCatalogue:
        """Collect the models; raise ``ConfigError`` if a name refers to no model."""
        return ModelCatalogue(self.models, default=self.default, order=self.order, complete=complete_model)

    def for_server(self, *identities: str) -> ServerSettings:
        """Return the settings for a server: the general ones, overridden by its own, tightened by a project's.

        ``identities`` are its own and its coarser ones. If there is no entry for the server itself, the denials and
        limits in entries of similar servers apply to it, but not their permissions.
        """
        found = self.settings
        entries = self.entries_of(*identities)
        for entry in entries:
            if entry.find_identity == identities[0]:
                found = override_settings(entry, found)
                continue
            review, response = entry.review, entry.review_response
            bounds = ServerSettings(review=review, review_response=response, caps=entry.caps, budget=entry.budget)
            found = choose_stricter(found, bounds)
        found = choose_stricter(found, self.tightened)
        for entry in self.tightened_servers:
            if entry.find_identity in identities or not {*entry.coarser}.isdisjoint(identities):
                found = choose_stricter(found, entry)
        return found

    def entries_of(self, *identities: str) -> list[ServerEntry]:
        """Return the user's entries for a server; if there are none, those of similar servers."""
        own = [entry for entry in self.servers if entry.find_identity == identities[0]]
        return own or [
            entry
            for entry in self.servers
            if entry.find_identity in identities or not {*entry.coarser}.isdisjoint(identities)
        ]


def override_settings(particular: ServerSettings, general: ServerSettings) -> ServerSettings:
    """Override the general settings by the particular ones, member by member."""
    return ServerSettings(
        models=general.models if particular.models is None else particular.models,
        review=particular.review or general.review,
        review_response=particular.review_response or general.review_response,
        caps=msgspec.structs.replace(general.caps, **particular.caps.list_set()),
        budget=msgspec.structs.replace(general.budget, **particular.budget.list_set()),
    )


def choose_stricter(one: ServerSettings, other: ServerSettings) -> ServerSettings:
    """Return the stricter of both, member by member; of two lists of models, that of ``other``."""
    if one.models is not None and other.models is not None and not set(other.models) <= set(one.models):
        raise ConfigError(f"a project may only narrow the models of a server, to some of: {', '.join(one.models)}")
    reviews = (one.review or "never", other.review or "never")
    responses = (one.review_response or "never", other.review_response or "never")
    return ServerSettings(
        models=one.models if other.models is None else other.models,
        review=_REVIEWS[max(map(_REVIEWS.index, reviews))],
        review_response=_RESPONSES[max(map(_RESPONSES.index, responses))],
        caps=msgspec.structs.replace(one.caps, **_list_tighter_members(one.caps, other.caps)),
        budget=msgspec.structs.replace(one.budget, **_list_tighter_members(one.budget, other.budget)),
    )


def _list_tighter_members(one: _Amounts, other: _Amounts) -> dict[str, int | Decimal]:
    """Return the members that ``other`` limits more tightly, or alone."""
    own = one.list_set()
    return {name: min(value, own.get(name, value)) for name, value in other.list_set().items()}
