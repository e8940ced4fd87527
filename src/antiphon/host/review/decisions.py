"""Decisions from the fields of a form, and calls of tools that a person edits before they run.

Pure. Owns what a person can enter, and which of it is valid; arguments that fit no field are edited as JSON, and
checked as their server would. The ``Queue`` decides who may decide. Invalid input is a ``InvalidInput`` with a key of
the catalogues, never with text from the form. A person can also permit calls like one: as a rule in CEL, kept as a
grant, and the same rule in words.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast, get_args

import msgspec

from antiphon.errors import ConfigError, InvalidParams, TooCostly
from antiphon.host.budget import DOLLAR
from antiphon.host.checks.form_fields import Field, check_content, check_value, fields_of, parse_value, write_bound
from antiphon.host.checks.labels import LABELS, Label
from antiphon.host.checks.validate import validate_request
from antiphon.host.checks.visible import inert_line
from antiphon.host.review import review
from antiphon.host.review.diff import restore_edited_text
from antiphon.host.review.review import ToolItem
from antiphon.host.review.summary import Texts
from antiphon.json_schema.validator import SchemaValidator
from antiphon.wire.content import SamplingContent, TextContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult, ElicitValue
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, read_properties, resolve_schema

_SCOPES: Mapping[str, review.Scope] = {"once": "once", "call": "call", "session": "session", "always": "always"}
_REACHES: Mapping[str, review.Reach] = {"once": "once", "call": "call", "server": "server"}
_BOUNDS = ("uses", "dollars", "minutes")
MOST_USES = 1_000_000
_MOST_MINUTES = 60 * 24 * 366


class InvalidInput(ValueError):
    """The input is not valid."""

    def __init__(self, key: str, detail: str = "", **values: object) -> None:
        super().__init__(key)
        self.key = key
        """Key in the catalogues."""
        self.detail = detail
        """The host's own message, in English; empty if the key says everything."""
        self.values = values
        """What the text inserts. A ``Field`` stands for the rule that its values must fit."""

    def values_in(self, words: Texts) -> dict[str, object]:
        """Return the values in a person's language: of a field, the rule."""
        return {
            name: describe_rule(each, words) or words(f"inline.kind.{each.kind}") if isinstance(each, Field) else each
            for name, each in self.values.items()
        }


class DecisionForm:
    """The fields of a form; of those sent more than once the first counts, except in ``all``."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value)

    def __call__(self, name: str) -> str:
        """Return the value of a field, or an empty text."""
        return self._fields.get(name, [""])[0]

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self._fields.get(name, [])

    def number(self, name: str, most: float) -> float | None:
        """Return a number above 0 and up to ``most``; ``None`` if nothing was entered.

        Raises ``InvalidInput``: it is no such number.
        """
        typed = self(name).strip()
        if not typed:
            return None
        try:
            number = float(typed)
        except ValueError:
            number = math.nan
        if not 0 < number <= most:
            raise InvalidInput("problem.number")
        return number


def read_approval(form: DecisionForm, now: float, usual: review.Terms = review.USUAL) -> review.Approve:
    """Approve what was shown: once, or more than once within bounds.

    ``usual``: the bounds if the form names none. A field that is sent empty means no such bound; ``unbounded=true``
    means no bounds at all.
    """
    scope, when = _SCOPES.get(form("scope") or "once"), form("when") or None
    if scope is None:
        raise InvalidInput("problem.form")
    if scope == "once":
        checked: tuple[Label, ...] = tuple(label for label in LABELS if label in form.all("label"))
        labels = checked if "of_labels" in form else None
        return review.Approve(digest=form("digest"), model=form("model") or None, labels=labels)
    # A script, or a form without these fields, has not decided about bounds.
    bounds = usual
    if form("unbounded") == "true" or any(name in form for name in _BOUNDS):
        uses, money = form.number("uses", MOST_USES), form.number("dollars", 1_000_000)
        minutes = form.number("minutes", _MOST_MINUTES)
        terms = review.Terms(
            uses=None if uses is None else math.ceil(uses),
            money=None if money is None else math.floor(money * DOLLAR),
            until=None if minutes is None else now + minutes * 60,
        )
        bounds = terms if terms.named else review.UNBOUNDED
    return review.Approve(digest=form("digest"), scope=scope, terms=bounds, model=form("model") or None, when=when)


def read_denial(form: DecisionForm) -> review.Deny:
    """Deny, with the reason that was entered: this ask, its call, or the whole server."""
    reach = _REACHES.get(form("reach") or "once")
    if reach is None:
        raise InvalidInput("problem.form")
    return review.Deny(reason=form("reason").strip() or None, reach=reach, tell=form("tell") == "true")


def read_answer(form: DecisionForm) -> review.Answer:
    """Answer in person."""
    text = restore_edited_text(form("text"))
    if not text.strip():
        raise InvalidInput("problem.empty")
    return review.Answer(result=text)


def read_edit(form: DecisionForm, item: review.ReviewItem) -> review.Edit:
    """Send the edited request exactly as it was shown as the result of the edit."""
    params = read_edited_request(form, item.params)
    if review.digest(params) != form("digest"):
        raise InvalidInput("problem.changed")
    return review.Edit(params=params, digest=form("digest"), model=form("model") or None)


def read_edited_request(form: DecisionForm, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
    """Read an edited request. Tokens and tools may be reduced, texts changed, and messages left out."""
    most = form.number("max_tokens", params.max_tokens)
    if most is None or most != int(most):
        raise InvalidInput("problem.tokens", most=params.max_tokens)
    tools = [tool for at, tool in enumerate(params.tools or ()) if f"tool-{at}" in form]
    messages = [
        _read_message(form, at, message) for at, message in enumerate(params.messages) if f"drop-{at}" not in form
    ]
    system = restore_edited_text(form("system")) if "system" in form else None
    made = msgspec.structs.replace(
        params,
        max_tokens=int(most),
        system_prompt=system or (params.system_prompt if params.system_prompt == system else None),
        messages=messages,
        # Compared first, so that an unchanged member is not replaced.
        tools=params.tools if tools == list(params.tools or ()) else tools or None,
        tool_choice=params.tool_choice if tools else None,
    )
    try:
        validate_request(made)
    except InvalidParams as error:
        raise InvalidInput("problem.invalid", error.message) from None
    return made


async def call_with_edits(form: DecisionForm, item: review.ToolItem) -> review.EditCall:
    """Call the tool with the arguments as they were edited, field by field."""
    try:
        arguments = read_fields(
            item, lambda field, at: _read_value(field, f"field-{at}", form), lambda at: form.all(f"field-{at}")
        )
        return await edit_call(item, arguments)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput("problem.field", str(error)) from None


def read_filled_form(form: DecisionForm, item: review.ElicitItem) -> ElicitResult:
    """Answer an elicitation: with the values of its form, or not at all."""
    action = form("action")
    if action in ("decline", "cancel"):
        return ElicitResult(action=action)
    if action != "accept":
        raise InvalidInput("problem.form")
    if item.params.mode == "url":
        return ElicitResult(action="accept")
    fields = fields_of(item.params)
    values = {field.name: _read_value(field, f"field-{at}", form) for at, field in enumerate(fields)}
    content = {name: value for name, value in values.items() if value is not None}
    try:
        check_content(fields, content)
    except ValueError as error:
        raise InvalidInput("problem.field", str(error)) from None
    return ElicitResult(action="accept", content=content)


def describe_rule(field: Field, words: Texts) -> str:
    """Describe in a few words which values fit a field; empty if any does."""
    rules: list[str] = []
    if words.has(f"rule.format.{field.format}"):
        rules.append(words(f"rule.format.{field.format}"))
    elif field.kind in ("integer", "number"):
        rules.append(words(f"rule.kind.{field.kind}"))
    unit = {"string": "characters", "choices": "choices"}.get(field.kind, "number")
    for bound, name in ((field.minimum, "least"), (field.maximum, "most")):
        if bound is not None:
            key = f"rule.{name}.{unit}"
            one = bound == 1 and words.has(f"{key}.one")
            rules.append(words(f"{key}.one") if one else words(key, n=write_bound(bound)))
    return ", ".join(rules)


def _read_message(form: DecisionForm, at: int, message: SamplingMessage) -> SamplingMessage:
    blocks = [_read_block(form, f"text-{at}-{place}", block) for place, block in enumerate(message.blocks)]
    if blocks == list(message.blocks):
        return message
    return msgspec.structs.replace(message, content=blocks if isinstance(message.content, Sequence) else blocks[0])


def _read_block(form: DecisionForm, name: str, block: SamplingContent) -> SamplingContent:
    if not isinstance(block, TextContent) or name not in form:
        return block
    text = restore_edited_text(form(name))
    return block if text == block.text else msgspec.structs.replace(block, text=text)


def _read_value(field: Field, name: str, form: DecisionForm) -> ElicitValue | None:
    typed = form.all(name)
    try:
        if field.kind == "choices":
            return check_value(field, typed) if typed or field.required else None
        if field.kind == "choice":
            return check_value(field, form(name)) if form(name) or field.required else None
        # A checkbox that is not ticked is not sent; a text is taken as typed.
        if field.kind == "boolean" and not field.required and not typed:
            return None
        if field.kind == "string" and (text := restore_edited_text(form(name))):
            return check_value(field, text)
        return parse_value(field, form(name))
    except ValueError:
        raise InvalidInput("problem.unfit", title=inert_line(field.title), rule=field) from None


_MAX_FOLLOWED = 1024 * 1024
"""Most bytes in which references are followed, counted once for each argument, which may refer to all of a schema."""
JSON = "json"
"""Format of a field whose value is JSON."""
Arguments = dict[str, Any]


def arguments_of(params: CallToolRequestParams) -> Arguments:
    """Return the arguments of a call; empty if they are no object."""
    try:
        return msgspec.json.decode(bytes(params.arguments) or b"{}", type=Arguments)
    except msgspec.DecodeError:
        return {}


def list_properties(item: review.ToolItem) -> dict[str, Arguments]:
    """Return what a tool's schema says of each argument and its items, with references followed unless it is large."""
    properties = read_properties(schema := _schema(item))
    is_small = len(properties) * len(encode_value(schema)) <= _MAX_FOLLOWED
    root: Mapping[str, Any] = schema if is_small else {}
    specs = {name: _leave_null_out(resolve_schema(spec, root), root) for name, spec in properties.items()}
    for spec in specs.values() if is_small else ():
        if "items" in spec:
            spec["items"] = resolve_schema(spec["items"], schema)
    return specs


def _leave_null_out(spec: Arguments, root: Mapping[str, Any]) -> Arguments:
    """Return the schema of what an optional argument is if it is not null: such an argument is left out."""
    for name, null in (("anyOf", {"type": "null"}), ("type", "null")):
        choices = cast("list[Any]", found) if isinstance(found := spec.get(name), list) else []
        if len(choices) == 2 and null in choices:
            other = choices[1 - choices.index(null)]
            rest = {each: said for each, said in spec.items() if each != name}
            return {**(resolve_schema(other, root) if name == "anyOf" else {"type": other}), **rest}
    return spec


def argument_fields(item: review.ToolItem) -> list[tuple[Field, list[str]]]:
    """Return a field for each argument that the tool declares or the call has, with its value as a person types it."""
    arguments, schema = arguments_of(item.params), _schema(item)
    properties, needed = list_properties(item), schema.get("required")
    required = cast("list[object]", needed) if isinstance(needed, list) else []
    fields: list[tuple[Field, list[str]]] = []
    for name in (*properties, *(name for name in arguments if name not in properties)):
        spec = properties.get(name, {})
        unset = {"default"} if spec.get("default", "") is None else ()
        field = _simple(name, {each: spec[each] for each in spec if each not in unset}, required=name in required)
        if field is None or (name in arguments and not _fits(field, arguments[name])):
            said = spec.get("description")
            about = said if isinstance(said, str) else ""
            field = Field(
                name=name, kind="string", title=name, description=about, required=name in required, format=JSON
            )
        fields.append((field, _write_values(field, arguments[name]) if name in arguments else []))
    return fields


def read_fields(
    item: review.ToolItem, read: Callable[[Field, int], Any], typed: Callable[[int], list[str]]
) -> Arguments:
    """Return the arguments from edited fields; a value that was not touched stays exactly as it was.

    Raises ``ValueError``: a value does not fit; the text names its field.
    """
    before = arguments_of(item.params)
    arguments: Arguments = {}
    for at, (field, shown) in enumerate(argument_fields(item)):
        said, present = ([restore_edited_text(text) for text in each] for each in (typed(at), shown))
        # A browser sends what is chosen of a list in the order of the options, each once.
        is_same = {*said} == {*present} if field.kind == "choices" else said == present
        if is_same and field.name in before:
            arguments[field.name] = before[field.name]
        elif field.format == JSON:
            if any(text.strip() for text in said):
                arguments[field.name] = _decode_value(field, said[0])
        elif (value := read(field, at)) is not None:
            arguments[field.name] = value
    return arguments


async def edit_call(item: review.ToolItem, arguments: Mapping[str, Any]) -> review.EditCall:
    """Make the decision to call the tool with other arguments.

    Raises ``ValueError``: they do not fit the tool's schema; the text names the place.
    """
    made = CallToolRequestParams.of(item.params.name, arguments)
    params = msgspec.structs.replace(item.params, arguments=made.arguments)
    await check_arguments(item, params)
    return review.EditCall(params=params, digest=review.digest(params))


async def check_arguments(item: review.ToolItem, params: CallToolRequestParams) -> None:
    """Check an edited call as its server would check it.

    Raises ``ValueError``: it is another tool, or its arguments do not fit the tool's schema; the text names the place.
    """
    if msgspec.structs.replace(params, arguments=item.params.arguments) != item.params:
        raise ValueError("only the arguments of a call can be edited")
    try:
        arguments = msgspec.json.decode(bytes(params.arguments), type=Arguments)
        await SchemaValidator(_schema(item), place="input schema", lazy=True).check(arguments)
    except (ConfigError, TooCostly, msgspec.DecodeError) as error:
        raise ValueError(f"the arguments cannot be checked: {error}") from None


def _schema(item: review.ToolItem) -> Mapping[str, Any]:
    schema = item.origin.tool.input_schema if item.origin.tool is not None else {}
    return {**schema, "type": "object"}


def _simple(name: str, spec: object, *, required: bool) -> Field | None:
    """Return the field of a form for one argument, if there is one."""
    schema = {"type": "object", "properties": {name: spec}, "required": [name] if required else []}
    try:
        return fields_of(ElicitRequestParams.form("", schema))[0]
    except InvalidParams:
        return None


def _fits(field: Field, value: object) -> bool:
    try:
        return check_value(field, value) == value
    except ValueError:
        return False


def _write_values(field: Field, value: object) -> list[str]:
    if field.format == JSON:
        return [json.dumps(value, ensure_ascii=False)]
    return msgspec.structs.replace(field, default=cast("ElicitValue", value)).suggestion


def _decode_value(field: Field, text: str) -> object:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise ValueError(f"{field.title}: JSON is needed") from None


Likeness = Literal["same", "most", "any"]
"""What an argument of another call must be: the same, a number that is no larger, or anything."""
LIKENESSES: tuple[Likeness, ...] = get_args(Likeness)


def read_likenesses(item: ToolItem, chosen: Mapping[str, str]) -> dict[str, Likeness]:
    """Return how each argument of a call is to be compared: by default it must be the same."""
    return {
        name: choice if (choice := chosen.get(name, "")) in list_likenesses(value) else "same"
        for name, value in arguments_of(item.params).items()
    }


def list_likenesses(value: object) -> tuple[Likeness, ...]:
    """Return how a value can be compared."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return LIKENESSES if is_number else ("same", "any")


def write_condition(item: ToolItem, likenesses: Mapping[str, Likeness]) -> str:
    """Write the condition that calls like this one meet. Another argument than those of the call meets none."""
    arguments = arguments_of(item.params)
    parts = [f"args.all(name, name in {_write_value(list(arguments))})"]
    for name, value in arguments.items():
        if likenesses[name] != "any":
            sign = "==" if likenesses[name] == "same" else "<="
            parts.append(f"args[{_write_value(name)}] {sign} {_write_value(value)}")
    return " && ".join(parts)


def list_rule_words(item: ToolItem, likenesses: Mapping[str, Likeness], words: Texts) -> Iterator[str]:
    """Yield the rule in words, a line for each argument."""
    for name, value in arguments_of(item.params).items():
        yield words(f"like.{likenesses[name]}", name=inert_line(name), value=inert_line(_write_value(value)))
    yield words("like.others")


def _write_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
