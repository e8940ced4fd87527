"""What the tests of the host ask with: an origin, a request, a reviewer that decides as told."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.errors import Rejected
from antiphon.host import Host
from antiphon.host.review.review import Answer, Approve, Decision, ElicitItem, ReviewItem, ToolItem, digest
from antiphon.identity import identity_of
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.origin import Origin, OriginCall
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

CHOICES = frozenset({"approve", "edit", "deny", "answer", "grant"})
SERVER = ["python", "catalogue.py"]


def origin(ask: str = "1", *, call: str | None = "call-1", command: list[str] | None = None, **more) -> Origin:
    """Say who asks: by default a server of ours, for a call of ours."""
    target = command or SERVER
    made = None if call is None else OriginCall(id=call, method="tools/call", name="describe", arguments={"sku": 7})
    return Origin(id=ask, identity=identity_of(target), target=" ".join(target), call=made, **more)


def says(text: str, role: str = "user") -> SamplingMessage:
    """Make a message of one text."""
    return SamplingMessage(role=role, content=TextContent(text=text))


def request(text: str = "Describe a sweater", *, max_tokens: int = 100, **more) -> CreateMessageRequestParams:
    """Make a request of one message."""
    more.setdefault("messages", [says(text)])
    return CreateMessageRequestParams(max_tokens=max_tokens, **more)


def approve(item: ReviewItem | ToolItem) -> Decision:
    """Approve what is shown."""
    return Approve(digest=digest(getattr(item, "result", None) or item.params))


class Person:
    """A reviewer that decides as told, and remembers what it was shown."""

    def __init__(
        self,
        *decide: Callable[[ReviewItem], Decision],
        fill: ElicitResult | Exception | None = None,
        available: bool = True,
    ) -> None:
        self.available = available
        self.shown: list[ReviewItem] = []
        self.forms: list[ElicitItem] = []
        self._decide = list(decide)
        self._fill = fill

    async def review(self, item: ReviewItem) -> Decision:
        self.shown.append(item)
        decide = self._decide.pop(0) if len(self._decide) > 1 else self._decide[0]
        return decide(item)

    async def confirm(self, item: ToolItem) -> Decision:
        return await self.review(item)

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        self.forms.append(item)
        if isinstance(self._fill, Exception):
            raise self._fill
        return self._fill or ElicitResult(action="cancel")


def write(text: str) -> Callable[[ReviewItem], Decision]:
    """Answer in person."""
    return lambda item: Answer(result=text)


async def host_reason(host: Host, asked: Origin, params: CreateMessageRequestParams | None = None) -> str | None:
    """Return why a host refuses; ``None`` if it answers."""
    try:
        await host(params or request(), asked)
    except Rejected as error:
        return error.data["reason"]
    return None
