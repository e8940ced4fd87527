"""The operations of an OpenAPI document as tools and resources, and what a call of one does.

Owns the names of tools and arguments, which parameters a model may fill in, which media types are used, and what an
answer becomes. Operations are found at once; what one takes and answers is read when it is first listed or called.
"""

from __future__ import annotations

import asyncio
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from typing import Any, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import AntiphonError, ConfigError, InternalError, ResourceNotFound, TooCostly, ToolError
from antiphon.json_schema.validator import MismatchError, SchemaValidator
from antiphon.server.decorators import Features
from antiphon.server.features.resources import JSON, ServedResource, ServedTemplate
from antiphon.server.features.tools import ServedTool, check_arguments, decode_arguments
from antiphon.server.features.uri_template import UriTemplate
from antiphon.server.functions.arguments import ArgumentError, Arguments
from antiphon.server.functions.function import UserFunction
from antiphon.server.functions.results import ResultConverter
from antiphon.server.functions.signature import REQUIRED, Parameter, Signature
from antiphon.server.openapi.api_requests import ApiAnswer, ApiParameter, build_request, make_sender
from antiphon.server.openapi.document import TABLES, ApiDocument, References, SchemaConverter, Target
from antiphon.wire import resources as wire
from antiphon.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceContents, TextContent
from antiphon.wire.envelope import too_deep
from antiphon.wire.tools import CallToolResult, Tool, fail_tool, resolve_schema

_MAX_NAME = 64
"""Longest name of a tool or an argument: what the vendors of models take."""
_MAX_NESTED = 3
"""How many ``allOf`` and ``anyOf`` in each other are looked at to see whether an answer is an object."""
_MAX_PARAMETERS = 500
"""Most parameters of one operation; documents in use have up to 80."""
_MAX_ERROR = 4_000
"""Most characters of the body of an error that a model is told."""

_MAX_NESTING = 100
"""Deepest nesting of a structured answer; a whole message has at most ``envelope.MAX_DEPTH``."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9*!#$&^_.+-]{1,100}/[A-Za-z0-9*!#$&^_.+-]{1,100}(;[ A-Za-z0-9=._\"-]{1,100}){0,4}")
_TYPES: Mapping[str, type] = {"integer": int, "number": float, "boolean": bool}
"""Types of the gaps in a template, whose values are text at first."""


class ApiOperation(Struct, frozen=True, kw_only=True):
    """An operation of an OpenAPI document, for the functions that choose and name operations."""

    method: str
    """In capitals, such as ``"GET"``."""
    path: str
    """As the document has it, with its gaps in braces."""
    operation_id: str
    """Empty if the document has none."""
    tags: Collection[str]
    summary: str
    deprecated: bool


Choice = Callable[[ApiOperation], bool]
Rename = Mapping[str, str] | Callable[[ApiOperation], str | None]
"""Names of tools by ``operationId``, or a function of the operation; ``None`` for the name it would have anyway."""


class ServedApi:
    """An API, and what its operations share; see ``Server.from_openapi`` for the arguments."""

    def __init__(
        self, document: Any, references: References | None, client: Any, base: str | None, *, checks: bool, most: int
    ) -> None:
        self.document = ApiDocument(document, references)
        self.send = make_sender(client, most)
        self.base = base or str(getattr(client, "base_url", None) or "")
        self.incoming = SchemaConverter(self.document, output=False)
        self.outgoing = SchemaConverter(self.document, output=True) if checks else None
        schemes = self.document.root.get("components").get("securitySchemes")
        keys = [self.document.follow(schemes.get(name), f"security scheme {name!r:.100}") for name in schemes.members]
        self.keys = {(key.text("in"), key.text("name").lower()) for key in keys if key.text("type") == "apiKey"}
        """Parameters that hold the client's key, which a model must neither know nor choose."""

    def add_to(
        self, server: Features, include: Choice | None, rename: Rename | None, resources: Choice | None, timeout: float
    ) -> None:
        """Add the operations to a server that is not used yet: on an error only some of them were added."""
        for name, given in (("include", include), ("resources", resources)):
            if given is not None and not callable(given):
                raise ConfigError(f"from_openapi({name}=) takes a function of an ApiOperation, not {given!r:.100}")
        authority = re.sub(r"[^a-z0-9-]+", "-", server.name.lower()).strip("-") or "api"
        operations = [*self._list_operations()]
        if unknown := set(() if callable(rename) else rename or ()) - {facts.operation_id for facts, *_ in operations}:
            raise ConfigError(f"from_openapi(rename=): no operation has the operationId {min(unknown)!r:.200}")
        wanted = operations if include is None else [each for each in operations if include(each[0])]
        for facts, item, node in wanted:
            served = _ServedOperation(self, facts, item, node, timeout)
            if resources is not None and facts.method == "GET" and resources(facts):
                served.add_resource(server, f"openapi://{authority}")
                continue
            chosen = rename(facts) if callable(rename) else (rename or {}).get(facts.operation_id)
            name, taken = chosen or _choose_name(facts, server.tools), server.tools
            if name in taken or not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{_MAX_NAME}}}", name):
                problem = "is taken" if name in taken else f"is no name of at most {_MAX_NAME} letters, digits, _ and -"
                raise ConfigError(f"{served.place}: the name {name!r:.200} {problem}: choose another one by rename=")
            server.tools.add(name, served.make_tool(name))

    def _list_operations(self) -> Iterator[tuple[ApiOperation, Target, Target]]:
        """List the operations, each with its path item and itself."""
        paths = self.document.root.get("paths")
        for path in (each for each in paths.members if str(each).startswith("/")):
            item = self.document.follow(paths.get(path), f"path {path:.200}")
            for method in TABLES.hints:
                node = item.get(method.lower())
                if isinstance(node.node, dict):
                    facts = ApiOperation(
                        method=method,
                        path=path,
                        operation_id=node.text("operationId"),
                        tags=frozenset(each.node for each in node.get("tags").items if isinstance(each.node, str)),
                        summary=node.text("summary"),
                        deprecated=node.members.get("deprecated") is True,
                    )
                    yield facts, item, node


class _ServedOperation:
    def __init__(self, api: ServedApi, facts: ApiOperation, item: Target, node: Target, timeout: float) -> None:
        self._api, self._facts, self._node, self._timeout = api, facts, node, timeout
        self.place = f"{facts.method} {facts.path:.200}"
        """What messages call it."""
        given = [*item.get("parameters").items, *node.get("parameters").items]
        if len(given) > _MAX_PARAMETERS:
            raise ConfigError(f"{self.place}: more than {_MAX_PARAMETERS} parameters: leave it out by include=")
        answers = node.get("responses").members.items()
        successes = [Target(each, node.scope) for status, each in answers if str(status).startswith("2")]
        parts = [api.document.follow(each, self.place) for each in (*given, node.get("requestBody"), *successes)]
        api.document.check(parts, self.place)
        self._parameters, self._body, self._answers = parts[: len(given)], parts[len(given)], parts[len(given) + 1 :]
        servers = (each for holder in (node, item, api.document.root) for each in holder.get("servers").items)
        nearest = next(servers, node.get(""))
        gaps = nearest.get("variables")
        url = re.sub(r"\{([^{}]*)\}", lambda gap: gaps.get(gap[1]).text("default") or gap[0], nearest.text("url"))
        self._base = (api.base or url).rstrip("/")
        if not _is_address(self._base):
            rest = self._base if re.match(r"(/[\w.-]{1,100})+$", self._base) else ""
            problem = f"{self._base[:200]!r} is no address of a server"
            raise ConfigError(f"{self.place}: {problem}: say base_url='https://...{rest}'")

    @cached_property
    def _input(self) -> tuple[list[ApiParameter], dict[str, Any]]:
        """The parameters, of which the body is one, and the schema of the arguments."""
        self._api.incoming.begin()
        properties: dict[str, Any] = {}
        parameters: list[ApiParameter] = []
        required: list[str] = []
        for target in self._list_parameters():
            parameter, schema = self._read_content(_read_parameter(target, properties), target)
            text = target.text("description", 2_000)
            properties[parameter.argument] = {**schema, "description": text} if text else schema
            parameters.append(parameter)
            if parameter.place == "path" or target.members.get("required") is True:
                required.append(parameter.argument)
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return parameters, self._api.incoming.close(schema)

    def _list_parameters(self) -> Iterator[Target]:
        """List the parameters that a model fills in, then the body; those of the operation replace its path's."""
        listed: dict[tuple[str, str], Target] = {}
        for target in self._parameters:
            place, name = target.text("in"), target.text("name")
            if place not in TABLES.styles or not name or (place, name.lower()) in self._api.keys:
                continue
            if place != "header" or (_TOKEN.fullmatch(name) and name.lower() not in TABLES.own_headers):
                listed[place, name] = target
        for name in dict.fromkeys(re.findall(r"\{([^{}]*)\}", self._facts.path)):
            # Without its parameter a gap would stay empty, and the path be another one.
            undescribed = {"in": "path", "name": name, "schema": {"type": "string"}}
            yield listed.get(("path", name)) or Target(undescribed, self._node.scope)
        yield from (target for (place, _), target in listed.items() if place != "path")
        if any(map(_MEDIA_TYPE.fullmatch, self._body.get("content").members)):
            yield Target({**self._body.members, "in": "body", "name": "body"}, self._body.scope)

    def _read_content(self, parameter: ApiParameter, target: Target) -> tuple[ApiParameter, dict[str, Any]]:
        """Return a parameter with its media type, if it is described by some, and its schema."""
        content = target.get("content")
        names = [name for name in content.members if _MEDIA_TYPE.fullmatch(name)]
        if not names:
            return parameter, self._api.incoming.convert(target.get("schema"))
        # Plain JSON comes first, then JSON with merging.
        ranks = ["application/json", "application/merge-patch+json", *TABLES.kinds]
        chosen = min(names, key=lambda name: ranks.index(name if name in ranks else _find_kind(name)))
        kind, media = _find_kind(chosen), content.get(chosen)
        described = self._api.document.follow(media.get("schema"))
        schema = self._api.incoming.convert(media.get("schema"))
        if kind == "bytes":
            schema = {"type": "string", "contentEncoding": "base64", "description": f"Base64 of {chosen}"}
        elif kind == "text" and described.text("type") not in ("string", *_TYPES):
            # Such as XML, of which the document describes the elements: the argument is written by the model.
            schema = {"type": "string", "description": f"Text of the type {chosen}"}
        members, encoding = described.get("properties" if kind in ("form", "multipart") else ""), media.get("encoding")
        return msgspec.structs.replace(
            parameter,
            media_type=TABLES.written.get(kind, chosen) if "*" in chosen else chosen,
            kind=kind,
            members={name: self._read_member(members.get(name), encoding.get(name), name) for name in members.members},
        ), schema

    def _read_member(self, member: Target, encoding: Target, name: str) -> ApiParameter:
        """Return how a member of a form is written."""
        member = self._api.document.follow(member)
        if member.text("type") == "array":
            member = self._api.document.follow(member.get("items"))
        given = encoding.text("contentType").split(",")[0].strip() or member.text("contentMediaType")
        is_binary = member.text("format") == "binary" or "contentMediaType" in member.members
        kind = "bytes" if is_binary and "contentEncoding" not in member.members else ""
        return msgspec.structs.replace(
            _read_parameter(Target({**encoding.members, "name": name, "in": "query"}, encoding.scope), ()),
            media_type=given if _MEDIA_TYPE.fullmatch(given) and "*" not in given else TABLES.written.get(kind, ""),
            kind=kind,
        )

    @cached_property
    def _output(self) -> tuple[dict[str, Any] | None, bool]:
        """The schema of structured answers, and whether they stand under ``result``, since one is no object.

        There is none unless each successful answer is JSON that the document describes: a result without structured
        content would break the schema.
        """
        described: dict[int, Target] = {}
        for content in (answer.get("content") for answer in self._answers):
            media = next((name for name in content.members if _find_kind(name) == "json"), "")
            schema = content.get(media).get("schema")
            described[id(self._api.document.follow(schema).node)] = schema
        outgoing, is_whole = self._api.outgoing, all(each.members for each in described.values())
        if outgoing is None or not (described and is_whole) or self._facts.method == "HEAD":
            return None, False
        outgoing.begin()
        wraps = not all(self._is_object(each) for each in described.values())
        made = [outgoing.convert(each) for each in described.values()]
        schema = made[0] if len(made) == 1 else {"anyOf": made}
        if wraps:
            schema = {"properties": {"result": schema}, "required": ["result"]}
        return outgoing.close({**schema, "type": "object"}), wraps

    def _is_object(self, schema: Target, depth: int = 0) -> bool:
        """Return whether all values that fit a schema are objects, as far as that is easily seen."""
        node = self._api.document.follow(schema)
        if node.members.get("nullable") is True or depth > _MAX_NESTED:
            return False
        if "type" in node.members:
            return node.members["type"] in ("object", ["object"])
        choices = [*node.get("anyOf").items, *node.get("oneOf").items]
        return (
            "properties" in node.members
            or any(self._is_object(each, depth + 1) for each in node.get("allOf").items)
            or (bool(choices) and all(self._is_object(each, depth + 1) for each in choices))
        )

    @cached_property
    def _incoming(self) -> SchemaValidator:
        return SchemaValidator(self._input[1], place=f"{self.place}: parameters", lazy=True)

    @cached_property
    def _outgoing(self) -> SchemaValidator:
        return SchemaValidator(self._output[0] or {}, place=f"{self.place}: answers", lazy=True)

    def _describe(self) -> dict[str, Any]:
        facts = self._facts
        parts = [facts.summary, self._node.text("description", 4_000)]
        parts += ["This operation is deprecated."] if facts.deprecated else []
        text = "\n\n".join(dict.fromkeys(filter(None, parts))) or self.place
        return {"title": facts.summary[:100] or None, "description": text}

    def make_tool(self, name: str) -> ServedTool:
        """Make the operation a tool, whose definition is made when it is first listed or called."""
        place = f'tool "{name}" ({self.place})'
        parameter = Parameter(name="arguments", annotation=dict, default=REQUIRED)

        def define() -> Tool:
            schemas = {"input_schema": self._input[1], "output_schema": self._output[0]}
            return Tool(name=name, annotations=TABLES.hints[self._facts.method], **schemas, **self._describe())

        return ServedTool(
            name=name,
            function=UserFunction(self.call, _sign(place, (parameter,))),
            read=lambda raw: {"arguments": decode_arguments(raw)},
            results=ResultConverter(place, shape=None, validator=None),
            build=define,
            options={},
        )

    def add_resource(self, server: Features, start: str) -> None:
        """Add the operation as a resource, or with parameters a template; ``ConfigError`` if they fit into no URI."""
        parameters, schema = self._input
        required, properties = schema["required"], schema["properties"]
        unfit = [each.argument for each in parameters if each.place not in ("path", "query")]
        if stuck := [name for name in unfit if name in required]:
            raise ConfigError(f"{self.place}: a resource has no {stuck[0]!r}: let resources= return False for it")
        names = {each.argument.replace("-", "_"): each for each in parameters if each.argument not in unfit}
        if len(names) + len(unfit) < len(parameters):
            raise ConfigError(f"{self.place}: parameters have like names in a URI: let resources= return False for it")
        gaps = {each.name: gap for gap, each in names.items() if each.place == "path"}
        path = re.finditer(r"\{([^{}]*)\}|[^{}]+", self._facts.path)
        uri = start + "".join(quote(each[0]) if each[1] is None else f"{{{gaps[each[1]]}}}" for each in path)
        if query := [gap for gap, each in names.items() if each.place == "query"]:
            uri += f"{{?{','.join(query)}}}"
        types = {gap: _find_json_type(properties[each.argument], schema) for gap, each in names.items()}
        place, template = f"resource {self.place}", UriTemplate(uri)

        async def read(**values: Any) -> ResourceContents:
            given = {gap: each for gap, each in values.items() if each is not None}
            arguments = {
                names[gap].argument: str(each).split(",") if types[gap] == "array" else each
                for gap, each in given.items()
            }
            answer, shown = await self._ask(arguments), template.expand(given)
            # Any other failure is an error without details.
            if answer.status in (404, 410):
                raise ResourceNotFound(f"Resource not found: {shown}", data={"uri": shown})
            if not 200 <= answer.status < 300:
                raise InternalError(f"the API answered {answer.status}")
            text = _read_text(answer)
            return ResourceContents.of(shown, answer.body if text is None else text, _find_type(answer) or None)

        usual = {gap: REQUIRED if each.argument in required else None for gap, each in names.items()}
        typed = tuple(Parameter(name=gap, annotation=_TYPES.get(types[gap], str), default=usual[gap]) for gap in names)
        function = UserFunction(read, _sign(place, typed))
        name, mime_type = _choose_name(self._facts, ()), JSON if self._output[0] else None
        listed: dict[str, Any] = {"name": name, "mime_type": mime_type, **self._describe()}
        if not names:
            server.resources.add(uri, ServedResource(function, place, wire.Resource(uri=uri, **listed), {}))
            return
        definition = wire.ResourceTemplate(uri_template=uri, **listed)
        server.templates.add(uri, ServedTemplate(function, place, definition, template, Arguments(typed, place), {}))

    async def call(self, arguments: dict[str, Any]) -> CallToolResult:
        answer = await self._ask(arguments)
        # A redirect that the document describes is an answer: its address is for the model. Nothing follows it.
        is_known = 300 <= answer.status < 400 and str(answer.status) in self._node.get("responses").members
        if not (200 <= answer.status < 300 or is_known):
            return _make_error(answer)
        kind, (schema, wraps) = _find_type(answer), self._output
        body = answer.body.removeprefix(BOM_UTF8).lstrip()
        if schema is None and not (_find_kind(kind) == "json" and body[:1] == b"{"):
            # Without the address, whose beginning may be a secret of the author.
            return _make_plain_result(answer, kind, f"openapi:{quote(self._facts.path)}")
        if too_deep(body, _MAX_NESTING):
            return _make_error(answer, f"the request succeeded, but the answer nests deeper than {_MAX_NESTING}")
        try:
            value = msgspec.json.decode(body)
            if schema is not None:
                await self._outgoing.check({"result": value} if wraps else value)
        except (MismatchError, TooCostly) as error:
            return _make_error(answer, f"the request succeeded, but not with what the API describes: {error}")
        except (ValueError, RecursionError):
            return _make_error(answer, "the request succeeded, but the answer is not the JSON that it should be")
        raw = b'{"result":' + body + b"}" if wraps else body
        return CallToolResult(content=[TextContent(text=body.decode())], structured_content=Raw(raw))

    async def _ask(self, arguments: dict[str, Any]) -> ApiAnswer:
        await check_arguments(self._incoming, arguments)
        for each in self._input[0]:
            # The members of an exploded object are parameters themselves.
            value = arguments.get(each.argument)
            inner = cast("dict[str, Any]", value) if isinstance(value, dict) and each.explode and not each.kind else {}
            if not self._api.keys.isdisjoint((each.place, name.lower()) for name in inner):
                raise ArgumentError(f"argument {each.argument!r}: has a member that is the key of the API's client")
        request = build_request(self._facts.method, self._base, self._facts.path, self._input[0], arguments)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._api.send(request)
        except TimeoutError:
            raise ToolError(f"the API has not answered within {self._timeout:g} s") from None
        except AntiphonError:
            raise
        except Exception as error:
            # Its text may hold the address with the client's own key.
            raise ToolError(f"the API could not be asked: {type(error).__name__}") from error


def _choose_name(facts: ApiOperation, taken: Container[str]) -> str:
    """Return a tool's name: the operation's id, or method and path; what is too long or taken ends in a digest."""
    start = facts.operation_id or f"{facts.method.lower()}_{facts.path.strip('/')}"
    whole = re.sub(r"[^A-Za-z0-9_-]+", "_", start).strip("_") or "operation"
    # By what the operation is, so that others in the document do not change its name.
    is_free = len(whole) <= _MAX_NAME and whole not in taken
    return whole if is_free else _add_digest(whole, f"{facts.method} {facts.path}")


def _add_digest(name: str, text: str) -> str:
    return f"{name[: _MAX_NAME - 9]}_{blake2b(text.encode(errors='replace'), digest_size=4).hexdigest()}"


def _read_parameter(target: Target, taken: Collection[str]) -> ApiParameter:
    """Read a Parameter Object; its argument gets a name that vendors of models take, and no other argument has."""
    name, place = target.text("name"), target.text("in")
    argument = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_MAX_NAME] or place
    if argument in taken or (argument == "body" and place != "body"):
        argument = f"{argument[: _MAX_NAME - 8]}_{place}"
    while argument in taken:
        argument = _add_digest(argument, f"{argument} {name}")
    styles = TABLES.styles.get(place, {"": ()})
    given = "" if "content" in target.members else target.text("style")
    style = given if given in styles else next(iter(styles))
    explode = target.members.get("explode", style == "form") is True
    # Elsewhere reserved characters lead to another path, or begin another cookie (OpenAPI 3.1, 4.8.12.2.2).
    reserved = place == "query" and target.members.get("allowReserved") is True
    return ApiParameter(name=name, argument=argument, place=place, style=style, explode=explode, reserved=reserved)


def _find_kind(media_type: str) -> str:
    """Return how bodies of a media type are written."""
    bare = media_type.partition(";")[0].strip().lower()
    return next(kind for kind, patterns in TABLES.kinds.items() if any(fnmatchcase(bare, each) for each in patterns))


def _find_json_type(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """Return the type of the values that a text in a URI can stand for: the first of several."""
    named = resolve_schema(schema, root).get("type") or ()
    return next((each for each in ("string", "array", *_TYPES) if each in named), "string")


def _is_address(text: str) -> bool:
    """Return whether paths can be added to an address."""
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_web and not re.search(r"[\s\x00-\x1f\\{}?#]|/(\.|%2e){2}(/|$)", text, re.IGNORECASE)


def _sign(place: str, parameters: tuple[Parameter, ...]) -> Signature:
    return Signature(place=place, name="call", parameters=parameters, is_async=True)


def _find_type(answer: ApiAnswer) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()[:200]


def _read_text(answer: ApiAnswer) -> str | None:
    """Return the text of an answer; ``None`` if it is bytes."""
    if _find_kind(_find_type(answer)) in ("multipart", "bytes"):
        return None
    named = re.search(r"charset=\W?([\w-]+)", answer.headers.get("content-type", "")[:300].lower())
    charset = named[1] if named is not None and named[1] in TABLES.charsets else "utf-8"
    return answer.body.decode(charset, errors="replace")


def _make_plain_result(answer: ApiAnswer, kind: str, uri: str) -> CallToolResult:
    if not answer.body:
        location = answer.headers.get("location")
        said = f": {location[:_MAX_ERROR]}" if location else ", without content"
        block = TextContent(text=f"HTTP {answer.status}{said}")
    elif (text := _read_text(answer)) is not None:
        block = TextContent(text=text)
    elif kind.startswith(("image/", "audio/")):
        block = (ImageContent if kind.startswith("image/") else AudioContent).of(answer.body, kind)
    else:
        block = EmbeddedResource(resource=ResourceContents.of(uri, answer.body, kind))
    return CallToolResult(content=[block])


def _make_error(answer: ApiAnswer, problem: str = "") -> CallToolResult:
    """Return what failed, with a part of the answer's body for the model to act on."""
    text = (_read_text(answer) or "")[:_MAX_ERROR]
    if 300 <= answer.status < 400 and "location" in answer.headers:
        problem = f"a redirect to {answer.headers['location'][:500]}, which is not followed"
    parts = [f"HTTP {answer.status}: {problem}" if problem else f"HTTP {answer.status}", text]
    return fail_tool("\n".join(filter(None, parts)))
