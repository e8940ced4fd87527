"""The model API from the host's side: what a host offers to it, and that other hosts load none of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from antiphon.host import Host, Scripted
from tests.host.asks import Person, approve, origin, request


async def test_host_without_a_model_api_equips_nobody():
    """Servers then start as they always did."""
    host = Host("echo", review="never")
    assert await host.equip(origin) is None
    assert host.model_names(origin()) == ("echo",)


async def test_completion_says_what_was_used_and_by_whom():
    """The same stages as for any ask; the usage comes along."""
    host = Host(Scripted(["Yes."]), review="never")
    done = await host.answer(request(), origin(door="model-api"))
    assert done.result.text == "Yes."
    assert done.usage is not None
    assert [record.outcome for record in host.audit.records() if record.step == "received"] == ["model-api"]


async def test_the_reviewer_ends_although_the_model_api_cannot():
    """A host that closes leaves no page open."""

    class Stuck:
        async def equip(self, origin: object) -> Any:
            raise NotImplementedError

        async def aclose(self) -> None:
            raise OSError("stuck")

    class Page(Person):
        servers = None
        ended = False

        async def aclose(self) -> None:
            self.ended = True

    page = Page(approve)
    with pytest.raises(OSError, match="stuck"):
        async with Host(Scripted([]), reviewer=page, model_api=lambda _: Stuck()):
            pass
    assert page.ended


def test_other_hosts_load_no_model_api():
    """What nobody wants costs nothing at the start."""
    code = "import sys; from antiphon.host import Host; Host('echo'); print('antiphon.model_api' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip() == "False"
