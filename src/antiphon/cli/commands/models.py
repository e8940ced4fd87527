"""``antiphon models``: the models, and which one would answer a request, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from antiphon.cli.arguments import read_request
from antiphon.cli.config_files import origin_at
from antiphon.cli.host_options import read_configuration
from antiphon.cli.options import Config, Json, complete_server
from antiphon.cli.output.formats import FAILED, describe_verdict, make_score_columns, print_json, print_list, print_text
from antiphon.errors import ConfigError
from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.model_catalogue import Model, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.providers.base import key_variables, missing_key

Server = Annotated[
    str | None,
    "--server TARGET: For explain: choose as for this server: a target as for antiphon call, or an identity.",
    complete_server,
]


def command(
    action: Literal["list", "explain"] = "list",
    request: Path | None = None,
    *,
    as_json: Json = False,
    config: Config = None,
    server: Server = None,
    left: str | None = None,
) -> int:
    """List the models, or explain a choice.

    Keys are never shown, only whether they are there. Nothing is sent anywhere.

    Exit code 1 if no model could answer the request that was to be explained.

    Usage:
        [list|explain]: list the models (usual), or explain which of them would answer a request.
        [REQUEST.json]: For explain: a file with the params of sampling/createMessage, or a message with them; - for
            standard input.
        --left DOLLARS: For explain: choose as if this many US dollars were left to spend.
    """
    configured = read_configuration(config, os.environ)
    models = Models(configured.catalogue(), os.environ)
    if action == "list":
        if request is not None:
            raise ConfigError(f"list takes no file; to explain a request: antiphon models explain {request}")
        default = models.catalogue.default
        print_list(
            list(models.catalogue),
            {
                "model": lambda model: f"{model.name}{' (default)' if model.name == default else ''}",
                "served by": lambda model: f"{model.provider}: {model.model}",
                "per million": lambda model: _format_price(model.price),
                "context": lambda model: _format_known(model.context),
                "takes": _describe_inputs,
                "speed": lambda model: _format_known(model.speed),
                "intelligence": lambda model: _format_known(model.intelligence),
                "key": lambda model: _describe_key(model, os.environ),
            },
            as_json=as_json,
            nothing="There are no models.",
            encode=lambda model: {
                **msgspec.to_builtins(model),
                "default": model.name == default,
                "ready": not missing_key(model, os.environ),
            },
        )
        return 0
    if request is None:
        raise ConfigError("explain needs a file: antiphon models explain REQUEST.json")
    allowed = configured.for_server(*(("",) if server is None else origin_at(server).identities)).models
    selection = models.select(read_request(request), allowed=allowed, left=_parse_dollars(left))
    if as_json:
        print_json(msgspec.to_builtins(selection))
    else:
        print_list(selection.candidates, make_score_columns(selection), as_json=False, nothing="There are no models.")
        print_text(f"=> {describe_verdict(selection)}")
    return FAILED if selection.winner is None else 0


def _format_price(price: ModelPrice | None) -> str:
    if price is None:
        return "unknown"
    asked, answered = (format_dollars(convert_to_nano(each), rounding="none") for each in (price.input, price.output))
    return f"{asked} in, {answered} out"


def _format_known(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _describe_inputs(model: Model) -> str:
    kinds = list(model.inputs or ("text",))
    unknown = [name for name, value in (("more", model.inputs), ("tools", model.tools)) if value is None]
    text = ", ".join([*kinds, *(["tools"] if model.tools else [])])
    return f"{text} ({' and '.join(unknown)} unknown)" if unknown else text


def _describe_key(model: Model, environ: Mapping[str, str]) -> str:
    variables = key_variables(model)
    if not variables:
        return "none needed"
    return "missing: " + " or ".join(variables) if missing_key(model, environ) else "there"


def _parse_dollars(text: str | None) -> Decimal | None:
    if text is None:
        return None
    with suppress(InvalidOperation):
        if (amount := Decimal(text)).is_finite() and amount >= 0:
            return amount
    raise ConfigError(f"--left: not a number of dollars: {text!r}")
