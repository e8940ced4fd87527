"""What is passed on of how a call ended: every way leads through the same examination."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from antiphon import errors
from antiphon.types import CallToolResult, TextContent
from antiphon.wire.outcome_filter import pass_outcome


def words(text: str) -> CallToolResult:
    """Make a result of one text."""
    return CallToolResult(content=[TextContent(text=text)])


async def mask(result: Any) -> Any:
    """Replace each text and each member of data."""
    more = None if result.structured_content is None else {"data": "masked"}
    return structs.replace(result, content=[TextContent(text="masked")], structured_content=more)


async def keep(result: Any) -> Any:
    """Leave a result as it is."""
    return result


async def fail(error: BaseException) -> Any:
    """End a call with an error."""
    raise error


async def end(result: object) -> Any:
    """End a call with a result."""
    return result


async def test_a_result_is_passed_on_as_it_was_examined():
    """The model gets what the rules leave; without a rule the same object."""
    said = words("secret")
    assert (await pass_outcome(end(said), mask)).text == "masked"
    assert await pass_outcome(end(said), keep) is said


async def test_what_is_no_result_is_not_examined():
    """A list or a task has nothing that a rule about results is for."""
    assert await pass_outcome(end([1]), mask) == [1]


async def test_an_error_of_a_peer_is_examined_with_its_data():
    """Text and data of an error reach a model as a result does."""
    error = errors.PeerError("secret", code=-32000, data={"key": "secret"})
    error.remote = True
    with pytest.raises(errors.PeerError) as caught:
        await pass_outcome(fail(error), mask)
    assert (caught.value.message, caught.value.data) == ("masked", "masked")


async def test_what_a_server_wrote_before_it_ended_is_examined():
    """The tail of its standard error is in the text of the error, and not beside it any more."""
    error = errors.ConnectionClosed("it has ended: secret", stderr="secret")
    with pytest.raises(errors.ConnectionClosed) as caught:
        await pass_outcome(fail(error), mask)
    assert (str(caught.value), caught.value.stderr) == ("masked", "")


@pytest.mark.parametrize("local", [False, True])
async def test_a_mistake_of_the_program_keeps_its_words(local: bool):
    """No server has worded it, and its author needs to read it."""
    with pytest.raises(errors.ConfigError, match="of the author"):
        await pass_outcome(fail(errors.ConfigError("of the author")), mask, is_local=local)
