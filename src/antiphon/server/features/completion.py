"""Completion of arguments while a person types them.

Owns the completers of prompts and resource templates. An argument without one that has only some possible values (an
enum, ``Literal``) is completed from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, cast

from antiphon.errors import ConfigError, InvalidParams, ResultInvalid
from antiphon.server.features.prompts import ServedPrompt
from antiphon.server.features.registry import Registry
from antiphon.server.features.resources import ServedTemplate
from antiphon.server.functions.function import UserFunction
from antiphon.server.functions.signature import read_signature
from antiphon.wire import completion


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

    def find(
        self, ref: completion.PromptReference | completion.ResourceTemplateReference
    ) -> ServedPrompt | ServedTemplate | None:
        """Return the prompt or the template, or ``None``."""
        return (
            self._prompts.get(ref.name) if isinstance(ref, completion.PromptReference) else self._templates.get(ref.uri)
        )

    async def complete(
        self, params: completion.CompleteRequestParams, context: Any = None
    ) -> completion.CompleteResult:
        """Serve ``completion/complete``: at most ``MAX_VALUES`` values, and the number of all."""
        of, owner = self._owner(params.ref)
        name, value = params.argument.name, params.argument.value
        if name not in owner.arguments:
            raise InvalidParams(f'Unknown argument: {name} of "{of}", which has {", ".join(owner.arguments) or "none"}')
        completer = self._completers.get((of, name))
        if completer is None:
            typed = value.casefold()
            return _make_result([one for one in owner.choices.get(name, ()) if one.casefold().startswith(typed)])
        settled = (params.context.arguments if params.context else None) or {}
        found = await completer.run(value, settled, context)
        if isinstance(found, completion.CompleteResult):
            return found
        return (
            completion.CompleteResult(completion=found)
            if isinstance(found, completion.Completion)
            else _make_result(_check_texts(found, completer))
        )

    def _owner(
        self, ref: completion.PromptReference | completion.ResourceTemplateReference
    ) -> tuple[str, ServedPrompt | ServedTemplate]:
        name, owner = ref.name if isinstance(ref, completion.PromptReference) else ref.uri, self.find(ref)
        if owner is None:
            raise self.refuse_unknown(ref)
        return name, owner

    @staticmethod
    def refuse_unknown(ref: completion.PromptReference | completion.ResourceTemplateReference) -> InvalidParams:
        """Return the error for a prompt or template that does not exist, as far as the caller may know."""
        if isinstance(ref, completion.PromptReference):
            return InvalidParams(f"Unknown prompt: {ref.name}")
        return InvalidParams(f"Unknown resource template: {ref.uri}")


def _check_texts(found: Any, completer: _Completer) -> list[str]:
    if found is None:
        return []
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise ResultInvalid(f"{completer.place} returned {type(found).__name__}: return a list of the values that fit")
    items = cast("Iterable[Any]", found)
    return [str(item.value if isinstance(item, Enum) else item) for item in items]


def _make_result(values: list[str]) -> completion.CompleteResult:
    # server/utilities/completion: "maximum 100 items", "total number of matches", "whether additional results exist".
    more = len(values) > completion.MAX_VALUES
    return completion.CompleteResult(
        completion=completion.Completion(values=values[: completion.MAX_VALUES], total=len(values), has_more=more)
    )
