"""A prompt: a function that returns messages and takes text as arguments.

Owns ``ServedPrompt`` and what its function may return. Arguments are text on the wire, and converted to the types of
the function's parameters.

Owns also the completion of arguments of prompts and resource templates. An argument without a completer that has only
some possible values (an enum, ``Literal``) is completed from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Unpack, cast

import msgspec

from antiphon.errors import ConfigError, InvalidParams, ResultInvalid
from antiphon.server.features.checked_options import AccessOptions, FeatureOptions, NamedFeature, describe_access
from antiphon.server.features.registry import Registry
from antiphon.server.features.resources import ServedTemplate
from antiphon.server.functions.arguments import Arguments, text_choices
from antiphon.server.functions.function import UserFunction
from antiphon.server.functions.results import CONTENT
from antiphon.server.functions.signature import Signature, read_docstring, read_signature
from antiphon.wire import prompts as wire
from antiphon.wire.completion import (
    MAX_VALUES,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    PromptReference,
    ResourceTemplateReference,
)
from antiphon.wire.content import TextContent
from antiphon.wire.prompts import GetPromptResult, PromptArgument, PromptMessage


class PromptOptions(FeatureOptions, AccessOptions, total=False):
    """Options of a prompt."""

    description: str
    """What the prompt is for; by default the function's docstring."""


class ServedPrompt(NamedFeature[wire.Prompt]):
    """A message template that a client can fill in. Make one with ``from_function``.

    Attributes: ``name``; ``definition`` as it is listed; ``choices``: the possible values of arguments that have only
    some.
    """

    __slots__ = ("_arguments", "_place", "choices")

    def __init__(
        self, *, function: UserFunction, signature: Signature, arguments: Arguments, build: Callable[[], wire.Prompt],
        name: str, access: AccessOptions,
    ) -> None:  # fmt: skip
        super().__init__(function, f"prompt {name!r}", access)
        self.name = name
        self._build = build
        self.choices = text_choices(arguments.schema)
        self._place = signature.place
        self._arguments = arguments

    def __repr__(self) -> str:
        return f"Prompt({self.name!r})"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments, in order."""
        return self._arguments.names

    async def get(self, arguments: Mapping[str, str] | None, context: Any = None) -> GetPromptResult:
        """Fill in the prompt.

        Args:
            arguments: values of the arguments by name, as text; ``None`` counts as none.
            context: passed unchanged to a function that takes the context.

        Raises:
            ArgumentError: an argument is unknown, missing or not of its type.
            ResultInvalid: what the function returned is no message.
        """
        values = self._arguments.from_text(arguments or {})
        value = await self._function.run(values, context)
        if isinstance(value, GetPromptResult):
            return value
        messages = [message for item in _list_items(value) for message in self._messages(item)]
        return GetPromptResult(messages=messages, description=self.definition.description)

    def _messages(self, item: Any) -> Sequence[PromptMessage]:
        """Convert one item that the function returned to messages; text and content become messages of the user."""
        if isinstance(item, PromptMessage):
            return [item]
        if isinstance(item, str):
            return [PromptMessage(role="user", content=TextContent(text=item))]
        if isinstance(item, CONTENT):
            return [PromptMessage(role="user", content=item)]
        if isinstance(item, Mapping):
            return [self._of_mapping(cast("Mapping[str, Any]", item))]
        role: Any = getattr(item, "role", None)
        blocks = _list_items(getattr(item, "content", None))
        if role in ("user", "assistant") and all(isinstance(block, CONTENT) for block in blocks):
            return [PromptMessage(role=role, content=block) for block in blocks]
        raise self._unusable(type(item).__name__)

    def _of_mapping(self, item: Mapping[str, Any]) -> PromptMessage:
        given = dict(item)
        if isinstance(given.get("content"), str):
            given["content"] = {"type": "text", "text": given["content"]}
        try:
            return msgspec.convert(given, PromptMessage)
        except msgspec.ValidationError as error:
            raise self._unusable(f"a dict that is no message ({error})") from None

    def _unusable(self, what: str) -> ResultInvalid:
        return ResultInvalid(
            f"{self._place} returned {what}: return text, a PromptMessage, a dict with role and content, or a list of "
            "these"
        )

    @classmethod
    def from_function(cls, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> ServedPrompt:
        """Make a function a prompt: its parameters are the arguments, its docstring describes them.

        Args:
            function: the function, plain or async.
            options: see ``PromptOptions``.

        Raises:
            ConfigError: the function cannot be a prompt; the message names it and the parameter, and says what to do.
        """
        signature = read_signature(function, noun="prompt", name=options.get("name"))
        arguments = Arguments(signature.parameters, signature.place)
        given, description = options.get("name") or signature.name, options.get("description")
        meta = describe_access(options.get("meta"), options, signature.place, PromptOptions.__annotations__)

        def build() -> wire.Prompt:
            docs = read_docstring(signature.docstring)
            described = arguments.describe(docs.arguments)["properties"]
            listed = [
                PromptArgument(
                    name=each.wire_name,
                    title=described[each.wire_name].get("title"),
                    description=described[each.wire_name].get("description"),
                    required=each.required,
                )
                for each in arguments.parameters
            ]
            return wire.Prompt(
                name=given,
                title=options.get("title"),
                description=docs.description if description is None else description,
                arguments=listed or None,
                icons=options.get("icons"),
                meta=meta,
            )

        user_function = UserFunction(function, signature, inline=options.get("inline", False))
        return cls(
            name=given, function=user_function, signature=signature, arguments=arguments, build=build, access=options
        )


def _list_items(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]


class _Completer:
    """A function ``(value)`` or ``(value, arguments)``, which may also take the context."""

    __slots__ = ("_function", "_names", "place")

    def __init__(self, function: Callable[..., Any], of: str, argument: str) -> None:
        signature = read_signature(function, noun="completer", name=f"{of} {argument}")
        self.place = signature.place
        self._names = tuple(parameter.name for parameter in signature.parameters)
        required = sum(parameter.required for parameter in signature.parameters)
        if not self._names or required > 2:
            raise ConfigError(
                f"{signature.place}: a completer takes (value) or (value, arguments), the text typed so far and the "
                "other arguments, and ctx: Context if it wants"
            )
        self._function = UserFunction(function, signature)

    async def run(self, value: str, arguments: Mapping[str, str], context: Any) -> Any:
        """Return what the function returns for ``value``, given the other arguments' values."""
        return await self._function.run(dict(zip(self._names, (value, dict(arguments)), strict=False)), context)


class Completions:
    """The completers of a server, which looks up prompts and templates in the server's registries."""

    def __init__(self, prompts: Registry[ServedPrompt], templates: Registry[ServedTemplate]) -> None:
        self._prompts = prompts
        self._templates = templates
        self._completers: dict[tuple[str, str], _Completer] = {}

    def __len__(self) -> int:
        """Count the completers and arguments with known values; 0 means the capability is not declared."""
        limited = [len(owner.choices) for owners in (self._prompts, self._templates) for owner in owners]
        return len(self._completers) + sum(limited)

    def add(self, of: str, argument: str, function: Callable[..., Any]) -> None:
        """Register a completer of one argument of a prompt or template, either of which may be added later."""
        if (of, argument) in self._completers:
            raise ConfigError(f'completer "{of} {argument}" is there already: remove it first')
        self._completers[of, argument] = _Completer(function, of, argument)

    def remove(self, of: str, argument: str) -> None:
        """Remove a completer. Raises ``KeyError`` if there is none."""
        del self._completers[of, argument]

    def find(self, ref: PromptReference | ResourceTemplateReference) -> ServedPrompt | ServedTemplate | None:
        """Return the prompt or the template, or ``None``."""
        return self._prompts.get(ref.name) if isinstance(ref, PromptReference) else self._templates.get(ref.uri)

    async def complete(self, params: CompleteRequestParams, context: Any = None) -> CompleteResult:
        """Serve ``completion/complete``: at most ``MAX_VALUES`` values, and the number of all."""
        ref, owner = params.ref, self.find(params.ref)
        if owner is None:
            raise self.refuse_unknown(ref)
        of = ref.name if isinstance(ref, PromptReference) else ref.uri
        name, value = params.argument.name, params.argument.value
        if name not in owner.arguments:
            raise InvalidParams(f'Unknown argument: {name} of "{of}", which has {", ".join(owner.arguments) or "none"}')
        completer = self._completers.get((of, name))
        if completer is None:
            typed = value.casefold()
            return _make_result([one for one in owner.choices.get(name, ()) if one.casefold().startswith(typed)])
        settled = (params.context.arguments if params.context else None) or {}
        found = await completer.run(value, settled, context)
        if isinstance(found, CompleteResult):
            return found
        if isinstance(found, Completion):
            return CompleteResult(completion=found)
        return _make_result(_check_texts(found, completer))

    @staticmethod
    def refuse_unknown(ref: PromptReference | ResourceTemplateReference) -> InvalidParams:
        """Return the error for a prompt or template that does not exist, as far as the caller may know."""
        kind, name = ("prompt", ref.name) if isinstance(ref, PromptReference) else ("resource template", ref.uri)
        return InvalidParams(f"Unknown {kind}: {name}")


def _check_texts(found: Any, completer: _Completer) -> list[str]:
    if found is None:
        return []
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise ResultInvalid(f"{completer.place} returned {type(found).__name__}: return a list of the values that fit")
    return [str(item.value if isinstance(item, Enum) else item) for item in cast("Iterable[Any]", found)]


def _make_result(values: list[str]) -> CompleteResult:
    # server/utilities/completion: "maximum 100 items", "total number of matches", "whether additional results exist".
    more = len(values) > MAX_VALUES
    return CompleteResult(completion=Completion(values=values[:MAX_VALUES], total=len(values), has_more=more))
