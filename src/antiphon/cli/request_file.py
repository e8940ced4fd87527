"""A server's request from a file: the params alone, or the whole message.

Owns reading and validating it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from antiphon.cli.arguments import read_input
from antiphon.cli.error_messages import find_json_mistake
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.form_fields import fields_of
from antiphon.host.checks.validate import validate_request
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams

Asked = CreateMessageRequestParams | ElicitRequestParams | CallToolRequestParams


class _FileMessage(msgspec.Struct):
    """The members of a message that matter here."""

    params: msgspec.Raw = msgspec.Raw()
    method: str = ""


def read_request(path: Path) -> CreateMessageRequestParams:
    """Read a sampling request; ``-`` is standard input."""
    return _decode_request(path, read_input(path))


def read_ask(path: Path) -> Asked:
    """Read a sampling request, or the message of an elicitation or a tool call, which names its method."""
    data = read_input(path)
    try:
        message = msgspec.json.decode(data, type=_FileMessage)
        if message.method == "elicitation/create":
            form = msgspec.json.decode(bytes(message.params), type=ElicitRequestParams)
            fields_of(form)
            return form
        if message.method == "tools/call":
            return msgspec.json.decode(bytes(message.params), type=CallToolRequestParams)
    except (msgspec.DecodeError, UnicodeDecodeError, AntiphonError) as error:
        raise ConfigError(f"{path}: not a request: {find_json_mistake(data) or error}") from None
    return _decode_request(path, data)


def _decode_request(path: Path, data: bytes) -> CreateMessageRequestParams:
    try:
        message = msgspec.json.decode(data, type=_FileMessage)
        params = msgspec.json.decode(bytes(message.params) or data, type=CreateMessageRequestParams)
        validate_request(params)
    except (msgspec.DecodeError, UnicodeDecodeError, AntiphonError) as error:
        raise ConfigError(f"{path}: not a sampling request: {find_json_mistake(data) or error}") from None
    return params
