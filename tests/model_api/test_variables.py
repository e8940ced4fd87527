"""The variables of a process that uses the model API."""

from __future__ import annotations

from antiphon.model_api.endpoint import GIVEN, equip_environment


def test_keys_of_the_vendors_are_replaced_or_taken_out():
    """The process gets our address and token, and nothing by which it could reach the vendor itself."""
    real = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_AUTH_TOKEN": "t", "Azure_OpenAI_API_Key": "k", "PATH": "/bin"}
    real |= {"openai_api_key": "sk-1", "Anthropic_Api_Key": "t"}
    env = equip_environment(real, address="http://127.0.0.1:1", token="sk-antiphon-x")
    assert {env[name] for name in GIVEN} == {"http://127.0.0.1:1/v1", "http://127.0.0.1:1", "sk-antiphon-x"}
    assert env["PATH"] == "/bin"
    assert not {"sk-1", "t", "k"} & set(env.values())


def test_no_proxy_sees_what_stays_on_this_machine():
    """Exceptions of both spellings are kept, and the machine itself is added once."""
    env = equip_environment(
        {"NO_PROXY": "a.example, localhost", "no_proxy": "b.example"}, address="http://x", token="t"
    )
    assert env["NO_PROXY"] == env["no_proxy"] == "a.example,localhost,b.example,127.0.0.1"
