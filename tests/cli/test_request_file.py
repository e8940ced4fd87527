from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from antiphon.cli.arguments import read_ask, read_request
from antiphon.errors import ConfigError
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams

PARAMS = '{"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}], "maxTokens": 7}'


@pytest.mark.parametrize("text", [PARAMS, f'{{"method": "sampling/createMessage", "params": {PARAMS}}}'])
def test_params_and_messages_are_read(text: str, tmp_path: Path):
    """Alike."""
    file = tmp_path / "request.json"
    file.write_text(text, encoding="utf-8")
    assert read_request(file).max_tokens == 7
    assert read_ask(file) == read_request(file)


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch):
    """Called ``-``."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(PARAMS.encode())))
    assert read_request(Path("-")).max_tokens == 7


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}', ElicitRequestParams),
        ('{"method": "tools/call", "params": {"name": "pay"}}', CallToolRequestParams),
    ],
)
def test_other_messages_name_their_method(text: str, kind: type, tmp_path: Path):
    """And are read as what it takes."""
    file = tmp_path / "message.json"
    file.write_text(text, encoding="utf-8")
    assert isinstance(read_ask(file), kind)
    with pytest.raises(ConfigError, match="not a sampling request"):
        read_request(file)


DEEP = b'{"method":"tools/call","params":{"name":"pay","arguments":{"a":%s}}}' % (b"[" * 60_000 + b"]" * 60_000)


def test_a_mark_at_the_beginning_is_no_mistake(tmp_path: Path):
    """Editors of Windows write it."""
    file = tmp_path / "request.json"
    file.write_bytes(b"\xef\xbb\xbf" + PARAMS.encode())
    assert read_request(file).messages[0].role == "user"


@pytest.mark.parametrize("data", [b"", b"\xff", b"{}", PARAMS.replace("user", "root").encode(), DEEP])
def test_what_is_none_is_a_mistake(data: bytes, tmp_path: Path):
    """Named by its file."""
    file = tmp_path / "request.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"request\.json: not a "):
        read_ask(file)
