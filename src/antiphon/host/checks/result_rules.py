"""Results of tools before a model reads them: what a rule can find in one, and what then happens.

Pure. Owns the forms that are found and how each is masked; ``pipeline.tool_consent`` asks and records.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from antiphon.host.checks import risk
from antiphon.host.checks.ask_limits import check_options
from antiphon.host.checks.message_parts import list_leaves, rewrite_texts
from antiphon.host.checks.redact import secrets_of
from antiphon.host.checks.visible import count_hidden, first_hidden, replace_hidden, strip_invisible
from antiphon.machine.side_process.pool import run_aside
from antiphon.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

ResultForm = Literal["secret", "instructions", "hidden", "size", "leak"]
ResultEffect = Literal["pass", "mask", "ask", "refuse"]
ResultKind = Literal["tool", "resource", "prompt"]
KINDS: tuple[ResultKind, ...] = get_args(ResultKind)
FORMS: tuple[ResultForm, ...] = get_args(ResultForm)

_ADDRESS = re.compile(r"https?:[^\s\"'<>)\]`]{1,4000}+", re.IGNORECASE)
_SHORT_QUERY = 16
"""Most characters of a query that says no more than a version does, as long as it has no "="."""
_OF_URLS = str.maketrans("-_", "+/")
_HOST = re.compile(r"[a-z0-9.-]+", re.IGNORECASE)
_TEXT_TYPE = re.compile(r"^text/|json|xml|yaml|script", re.IGNORECASE)
"""Media types of data that hosts show as text, even if a part of it is not UTF-8."""
_MASKS: Mapping[ResultForm, str] = {"instructions": "[instructions removed]", "leak": "?[query removed]"}


class ResultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to a result in which something is found. The first rule about a form decides about that form."""

    effect: ResultEffect
    """``pass`` it, ``mask`` what is found, ``ask`` a person with the result in view, or ``refuse`` all of it."""
    found: tuple[ResultForm, ...] = FORMS
    """The forms that it is about; all by default."""
    kinds: tuple[ResultKind, ...] = KINDS
    """What it is about: results of tools, and resources and prompts that a gateway passes on; by default all three."""
    name: str = "*"
    """Glob over the server's own name of the tool or the prompt, or the URI of the resource."""
    server: str = "*"
    """Glob over the server's identity, or a coarser one."""
    max_characters: int = risk.LARGE_TEXT
    """Longer results are of the form ``size``."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.max_characters < 1:
            raise ValueError("max_characters is above 0")


class ResultFinding(NamedTuple):
    """One place of a result that a rule may be about."""

    form: ResultForm
    place: str
    start: int
    end: int
    kind: str = ""
    """What a secret looks like."""
    is_name: bool = False


class ExaminedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a result, and the result without what is masked."""

    effects: dict[ResultForm, ResultEffect]
    """The forms that were found, and what the rules say about each."""
    masked: CallToolResult
    most: int | None = None
    """Most characters that are passed on, if it is to be cut."""
    risks: tuple[risk.Risk, ...] = ()

    def list_forms(self, effect: ResultEffect) -> str:
        """Return the forms with this effect, in one text."""
        return ", ".join(form for form in FORMS if self.effects.get(form) == effect)


class _ResultJob(msgspec.Struct):
    """What a side process examines."""

    rules: tuple[ResultRule, ...]
    result: CallToolResult
    hosts: tuple[str, ...]


async def examine_result(
    rules: Sequence[ResultRule], result: CallToolResult, params: CallToolRequestParams, origin: Origin
) -> ExaminedResult:
    """Find what the rules are about, all of which cover this tool; may raise ``TooCostly``."""
    named = {host.lower() for host in _HOST.findall(bytes(params.arguments).decode(errors="replace"))}
    own = urlsplit(origin.target).hostname if "://" in origin.target else None
    job = _ResultJob(tuple(rules), result, tuple(named | {own} if own else named))
    # Several patterns run over each text, so that less fits into a few milliseconds.
    if len(encode_value(result)) <= risk.MAX_HERE // 4:
        return _examine(job)
    return decode_wire(await run_aside(examine_document, encode_value(job), seconds=risk.MAX_SECONDS), ExaminedResult)


def examine_document(payload: bytes) -> bytes:
    """Examine a result, in a side process."""
    return encode_value(_examine(decode_wire(payload, _ResultJob)))


def _examine(job: _ResultJob) -> ExaminedResult:
    about = {form: next((rule for rule in job.rules if form in rule.found), None) for form in FORMS}
    most = about["size"].max_characters if about["size"] is not None else None
    shown = structs.replace(job.result, content=[_reveal_text(block) for block in job.result.content])
    found = [each for each in _find_all(shown, frozenset(job.hosts), most) if about[each.form] is not None]
    effects: dict[ResultForm, ResultEffect] = {each.form: cast("ResultRule", about[each.form]).effect for each in found}
    # A copy in any case, which says that the result was examined.
    masks = [each for each in found if effects[each.form] == "mask"]
    masked = _mask_findings(shown, masks) if found else structs.replace(job.result)
    leaks = [risk.Place(each.place, each.start, each.end) for each in found if each.form == "leak"]
    asks = "ask" in effects.values()
    risks = [*risk.assess_result(masked), *([risk.make_leak_risk(leaks)] if leaks else [])] if asks else []
    return ExaminedResult(
        effects=effects, masked=masked, most=most if effects.get("size") == "mask" else None, risks=tuple(risks)
    )


def _reveal_text(block: ContentBlock) -> ContentBlock:
    """Return a block whose base64 data is text as that text, because hosts may show it to a model as such."""
    if isinstance(block, EmbeddedResource):
        data, kind = block.resource.blob or "", block.resource.mime_type or ""
    elif isinstance(block, ImageContent | AudioContent):
        data, kind = block.data, block.mime_type
    else:
        return block
    if not data:
        return block
    try:
        # As lenient as what reads it: lines, the letters of URLs, and no padding are taken, too.
        plain = "".join(data.split()).rstrip("=").translate(_OF_URLS)
        decoded = b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        text = decoded.decode(errors="replace" if _TEXT_TYPE.search(kind) else "strict")
    except UnicodeDecodeError:
        return block
    except ValueError:
        text = data
    if isinstance(block, EmbeddedResource):
        return structs.replace(block, resource=structs.replace(block.resource, text=text, blob=None))
    return TextContent(text=f"{kind}: {text}", annotations=block.annotations, meta=block.meta)


def _find_all(result: CallToolResult, hosts: frozenset[str], most: int | None) -> Iterator[ResultFinding]:
    size = 0
    for leaf in list_leaves(result):
        size += len(leaf.text)
        # Searched without invisible characters, which would hide what a model reads all the same.
        plain, place = strip_invisible(leaf.text) or (leaf.text, int)
        for start, end in risk.list_instructions(plain):
            yield ResultFinding("instructions", leaf.place, place(start), place(end - 1) + 1, is_name=leaf.is_name)
        for start, end in _list_leaks(plain, hosts):
            yield ResultFinding("leak", leaf.place, place(start), place(end - 1) + 1, is_name=leaf.is_name)
        if count_hidden(leaf.text):
            at = first_hidden(leaf.text)
            yield ResultFinding("hidden", leaf.place, at, at + 1, is_name=leaf.is_name)
    for leaf, (kind, start, end) in secrets_of(result):
        yield ResultFinding("secret", leaf.place, start, end, kind, leaf.is_name)
    if most is not None and size > most:
        yield ResultFinding("size", "", 0, size)


def _list_leaks(text: str, hosts: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the queries of addresses that would send data to a host which is not among ``hosts``."""
    for found in _ADDRESS.finditer(text):
        before, _, query = found[0].partition("?")
        query = query.partition("#")[0]
        if "=" not in query and len(query) <= _SHORT_QUERY:
            continue
        try:
            host = risk.split_address(before).hostname or ""
        except ValueError:
            host = ""
        if host not in hosts:
            yield found.start() + len(before), found.end()


def _mask_findings(result: CallToolResult, found: Sequence[ResultFinding]) -> CallToolResult:
    if not found:
        return result
    spans: dict[tuple[str, bool], list[ResultFinding]] = {}
    hides = {each.form for each in found}
    for each in sorted(found, key=lambda each: each.start):
        if each.form not in ("hidden", "size"):
            spans.setdefault((each.place, each.is_name), []).append(each)

    def rewrite(place: str, text: str, *, is_name: bool) -> str:
        parts, at = list[str](), 0
        for form, _, start, end, kind, _ in spans.get((place, is_name), ()):
            if end > at:
                parts += [text[at : max(start, at)], _MASKS.get(form, f"[{kind}]")]
                at = end
        text = "".join(parts) + text[at:]
        return replace_hidden(text, lambda _: "") if "hidden" in hides else text

    made = rewrite_texts(result, lambda leaf: rewrite(leaf.place, leaf.text, is_name=leaf.is_name))
    return decode_wire(encode_value(made), CallToolResult)
