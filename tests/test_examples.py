"""Every example runs, prints what it should, and is short."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import Client

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
PRINTED = {
    "client.py": "42\n",
    "elicitation.py": "Friday: a table for 4 at the garden\nNothing was booked.\n",
    "host_policy.py": (
        "20 [echo] Write about autumn.\n200 [echo] Write about autumn.\n600 refused: user\n5000 refused: policy\n"
        "policy allow\npolicy ask\nreview approve\npolicy ask\nreview deny\npolicy deny\n"
    ),
    "over_http.py": "ann, at revision 2025-11-25\nann, at revision 2026-07-28\nwithout a token: 401\n",
    "progress.py": (
        "log: the oven is hot\nprogress: 1 2 minute 1\nprogress: 2 2 minute 2\na cake\nthe soup was given up\n"
    ),
    "protected.py": (
        "without a token: 401\ntea, cups: for ann, who may orders:read\nrefused: 403\n"
        "tea, cups: for ann, who may orders:read, orders:write\nsugar is ordered\n"
    ),
    "pydantic_ai_agent.py": (
        "price: a scarf costs 20 EUR\norder: the policy of this host refuses it\ndone\npolicy allow\npolicy deny\n"
    ),
    "resources.py": (
        "resources: ['book://index']\ntemplates: ['book://{title}/text']\nindex: emma, ulysses\n"
        "a book: Emma Woodhouse, handsome, clever, and rich...\nprompts: ['discuss']\n"
        "prompt: Let us talk about emma, in a curious mood.\ncompleted: ['ulysses']\n"
    ),
    "sampling.py": 'Sweaters, at last. (by unnamed)\n["Tea, at last.","Scarves, at last."]\n',
    "sampling_tools.py": (
        "3 x hat, after 3 turns\nthe tool said: We do not sell coat. We sell: hat, scarf\nthe tool said: 3\n"
    ),
    "structured_output.py": (
        "forecast ['city', 'days'] -> ['celsius', 'city', 'warning']\n"
        "{'city': 'Oslo', 'celsius': [10.5, 11.5], 'warning': None}\nTrue There is no weather below the sea.\n"
    ),
    "subscriptions.py": "resource sensor://room -> 23 degrees\ntools -> ['cool', 'heat', 'install']\n",
}


def test_every_example_is_known():
    """A new one needs its output here and a line in the folder's page."""
    assert {*PRINTED, "server.py"} == set(PROGRAMS)
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in PROGRAMS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_should(name: str):
    """And nothing on standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(PRINTED[name])


WITHOUT_EXTRAS = """
import runpy, sys
for name in ("joserfc", "keyring", "filelock", "tomlkit", "ruamel", "pydantic_ai", "genai_prices", "httpx2",
             "sqlalchemy", "alembic", "starlette", "jinja2", "asyncpg", "redis", "opentelemetry"):
    sys.modules[name] = None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_says_which_extra_it_needs(name: str):
    """At its head and in the folder's page; the others run with nothing but the package itself."""
    run = [sys.executable, "-c", WITHOUT_EXTRAS, EXAMPLES / name]
    needs = subprocess.run(run, capture_output=True, timeout=60, check=False).returncode != 0
    [line] = (row for row in (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines() if f"| `{name}`" in row)
    assert ("Needs the extra" in (ast.get_docstring(ast.parse((EXAMPLES / name).read_text())) or "")) is needs
    assert ("needs `[" in line) is needs


async def test_the_server_is_called_over_stdio():
    """As a host would start it."""
    async with Client(EXAMPLES / "server.py") as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_short_and_says_what_it_shows(name: str):
    """80 lines; the first two keep the promise of their first line."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip()]
    prose = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert prose
    assert len(text.splitlines()) <= 80
    assert len(lines) - len(prose) <= {"server.py": 15, "client.py": 10}.get(name, 80)
