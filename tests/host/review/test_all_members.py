"""Every member of every kind of content is shown, by each way of reviewing: what is sent is seen.

The types of the wire are walked: a member that is added to one of them is asked for here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from antiphon.host.review.review import ReviewItem
from antiphon.host.terminal.console import Layout
from antiphon.host.terminal.request_text import show_request, show_result
from antiphon.web.page_texts import load_texts
from antiphon.web.render import make_environment
from antiphon.wire.content import ContentBlock, SamplingContent, ToolResultContent, UnknownContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from tests.host.asks import request
from tests.host.review.asking import sampling, show_of

SUMMARISED = {"data", "blob", "type", "resultType"}
"""Members of which only size and kind are shown, or which say what the block is."""
BLOCKS = sorted(
    {*get_args(SamplingContent), *get_args(ContentBlock)} - {UnknownContent}, key=lambda kind: kind.__name__
)


def filled(kind: inspect.Type, numbers: Iterator[int]) -> Any:
    """Make a value of a type with all its members, each with a text or number of its own."""
    number = next(numbers)
    plain = {inspect.IntType: 90_000 + number, inspect.FloatType: 90_000 + number, inspect.BoolType: True}
    if isinstance(kind, inspect.StructType):
        # A resource has a text or a blob.
        fields = [each for each in kind.fields if each.encode_name != "blob"]
        value = {each.encode_name: filled(each.type, numbers) for each in fields} | tagged(kind)
    elif isinstance(kind, inspect.UnionType):
        value = filled(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), numbers)
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.CollectionType):
        value = [filled(kind.item_type, numbers)]
    elif isinstance(kind, inspect.LiteralType):
        value = kind.values[0]
    elif isinstance(kind, inspect.StrType):
        value = f"member{number}"
    else:
        value = plain.get(type(kind), {f"name{number}": f"value{number}"})
    return value


def tagged(kind: inspect.StructType) -> dict[str, Any]:
    """Return the member that says what a block is."""
    return {kind.tag_field: kind.tag} if kind.tag_field is not None else {}


def made(kind: type) -> Any:
    """Make a block with all its members."""
    info = inspect.type_info(kind)
    return msgspec.convert(filled(info, count(1)), kind)


def told(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts and numbers in what is sent that have to be seen, names in free objects too."""
    if isinstance(value, dict):
        for member, inner in value.items():
            yield from told(inner, member)
    elif isinstance(value, list):
        for inner in value:
            yield from told(inner, name)
    elif name not in SUMMARISED and not isinstance(value, bool) and value is not None:
        yield str(value)


def inline(item: ReviewItem) -> str:
    """Draw the review that is asked in the middle of a program."""
    layout = Layout(columns=4_000)
    if item.result is not None:
        return "\n".join(show_result(item, item.result, layout))
    return "\n".join(show_request(item, layout))


def on_page(item: ReviewItem) -> str:
    """Draw the messages and facts of the page."""
    shown = show_of(item, "request")
    template = make_environment().from_string(
        "{% for turn in turns %}{{ t('role.' ~ turn.role)|lower }}\n"
        "{% for part in turn.parts %}{{ part.name }} {{ part.text }}\n{% endfor %}{% endfor %}"
        "{% for label, value in facts %}{{ t(label) }} {{ value }}\n{% endfor %}"
    )
    turns = [*shown.turns, *([shown.answer] if shown.answer else [])]
    rendered = template.render(turns=turns, facts=shown.facts, t=load_texts("en"))
    return rendered.replace("&#34;", '"')


SURFACES: dict[str, Callable[[ReviewItem], str]] = {"inline": inline, "page": on_page}


def missing(item: ReviewItem, sent: msgspec.Struct, surface: str) -> list[str]:
    """List what is sent and not seen."""
    shown = SURFACES[surface](item)
    expected = list(told(msgspec.json.decode(msgspec.json.encode(sent))))
    assert len(expected) > 1
    return [text for text in expected if text not in shown]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
def test_each_member_of_a_block_is_shown(kind: type, surface: str):
    """In a message, or in the result of a tool."""
    block = made(kind)
    content = block if kind in get_args(SamplingContent) else ToolResultContent(tool_use_id="1", content=[block])
    params = request(messages=[SamplingMessage(role="user", content=[content])])
    assert missing(sampling(params=params, received=params), block, surface) == []


@pytest.mark.parametrize("surface", SURFACES)
def test_members_of_messages_requests_and_answers_are_shown(surface: str):
    """Beside their content: what has no place of its own stands at the end."""
    message = made(SamplingMessage)
    params = msgspec.structs.replace(made(CreateMessageRequestParams), messages=[message], tools=None, tool_choice=None)
    seen = msgspec.structs.replace(params, system_prompt=None, include_context=None)
    assert missing(sampling(params=seen, received=seen), seen, surface) == []
    result = made(CreateMessageResult)
    named = msgspec.structs.replace(result, model="scripted", stop_reason=None)
    assert missing(sampling(params=request(), received=request(), result=named), result.content, surface) == []
