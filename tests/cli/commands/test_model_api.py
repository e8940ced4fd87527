"""``antiphon model-api``: a program that knows nothing of MCP, run under the host."""

from __future__ import annotations

import sys

from tests.cli.program import in_process

ASKS = (
    "import openai, os, sys\n"
    "try:\n"
    "    with openai.OpenAI() as client:\n"
    "        said = client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'hello'}])\n"
    "except openai.PermissionDeniedError as error:\n"
    "    print(error.code)\n"
    "    sys.exit(7)\n"
    "print(said.choices[0].message.content, 'real' in os.environ.get('OPENAI_API_KEY', ''))\n"
)


def test_program_gets_answers_without_a_key():
    """The vendor's own client, unmodified; the key that was there is not."""
    command = ("model-api", "--yes", "--provider", "echo", "--as", "notes", "--", sys.executable, "-c", ASKS)
    done = in_process(*command, env={"OPENAI_API_KEY": "sk-real"})
    assert (done.code, done.out) == (0, "[echo] hello False\n")


def test_refusal_and_exit_code_are_the_programs_own():
    """The program sees the vendor's error, and what it exits with is the exit code."""
    done = in_process("model-api", "--deny", "--", sys.executable, "-c", ASKS)
    assert (done.code, done.out) == (7, "refused_policy\n")


def test_program_that_does_not_exist_is_named():
    """A mistake in the command line is a message, not a traceback."""
    done = in_process("model-api", "--yes", "--", "no-such-program-here")
    assert done.code == 2
    assert "no-such-program-here" in done.err
