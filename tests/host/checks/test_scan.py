"""A message of any size is looked at, and none of them holds the event loop."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import TooCostly
from antiphon.host.checks import scan
from antiphon.host.checks.scan import MAX_HERE, cleaned, kept_json, risks_of
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import origin, request

KEY = "AK" + "IAQ3EGLNPZ7KJH2MBD"
LONG = "word " * (MAX_HERE // 5)


def answer(text: str) -> CreateMessageResult:
    """Make an answer of one text."""
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model="m")


@pytest.mark.parametrize("more", ["", LONG], ids=["here", "aside"])
async def test_what_is_found_does_not_depend_on_where_it_is_looked_for(more: str):
    """Risks with their places, masked requests and answers, and what a record keeps."""
    params = request(f"{more}{KEY}\u200b")
    risks = {risk.kind: risk for risk in await risks_of(params, origin())}
    assert risks["secret"].places[0].path == "messages[0].content.text"
    assert risks["secret"].places[0].start == len(more)
    assert risks["hidden"].places[0].start == len(more) + len(KEY)
    masked = await cleaned(params)
    assert masked == request(f"{more}[AWS access key]\u200b")
    assert await cleaned(request(more)) is None
    assert await cleaned(answer(f"{more}{KEY}")) == answer(f"{more}[AWS access key]")
    assert [
        risk.kind for risk in await risks_of(request(), origin(), answer(f"{KEY} {more}")) if risk.kind != "size"
    ] == ["secret"]
    for value in (params, answer(f"{KEY} {more}"), CallToolRequestParams.of("t", {"a": f"{KEY} {more}"})):
        assert KEY not in await kept_json(value)
    assert "secret" in [
        risk.kind for risk in await risks_of(CallToolRequestParams.of("t", {"a": f"{KEY} {more}"}), origin())
    ]
    form = ElicitRequestParams.form(f"{more}\u202e", {"type": "object", "properties": {}})
    assert [risk.kind for risk in await risks_of(form, origin())] == ["hidden"]


async def test_megabytes_do_not_hold_the_loop():
    """Joiners, combining marks, beginnings of tokens: the loop goes on while they are looked at."""
    text = "\u200d" * 1_000_000 + "e\u0301\u0301\u0301\u0301\u0301" * 200_000 + "-eyJ" * 100_000
    looking = asyncio.ensure_future(risks_of(request(text), origin()))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not looking.done()
    assert {"hidden", "size"} <= {risk.kind for risk in await looking}


async def test_a_look_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch):
    """The patterns take linear time; should one not, there is an end to it."""
    monkeypatch.setattr(scan, "MAX_SECONDS", 0.01)
    with pytest.raises(TooCostly):
        await risks_of(request("\u200d\u200c" * 2_000_000), origin())
