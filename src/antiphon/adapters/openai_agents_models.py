"""The OpenAI Agents SDK's models as a host's provider: ``Host(from_openai_agents(model))``.

Needs ``antiphon[openai-agents]``.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
from agents import FunctionTool, Model, ModelSettings, ModelTracing
from agents.tool_context import ToolContext
from openai import APIStatusError, AsyncOpenAI
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from antiphon.adapters.pydantic_ai import from_pydantic_ai
from antiphon.host.providers.base import Provider
from antiphon.model_api.dialects.openai import make_blank_response

__all__ = ["from_openai_agents"]


def from_openai_agents(model: Model) -> Provider:
    """Make a provider of a host from a model of the OpenAI Agents SDK: ``Host(from_openai_agents(model))``.

    Args:
        model: the model.
    """
    name = str(getattr(model, "model", None) or type(model).__name__)

    async def ask(request: httpx2.Request) -> httpx2.Response:
        body: dict[str, Any] = json.loads(request.content)
        try:
            answer = await model.get_response(
                body.get("instructions"),
                body["input"],
                _read_settings(body),
                [_make_tool(tool) for tool in body.get("tools", ())],
                None,
                [],
                ModelTracing.DISABLED,
                previous_response_id=None,
                conversation_id=None,
                prompt=None,
            )
        except APIStatusError as error:
            return httpx2.Response(error.status_code, json={"error": {"message": "", "code": error.code}})
        used = answer.usage
        usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "total_tokens": 0}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        output = [item.model_dump(mode="json") for item in answer.output]
        made = {"status": "completed", "output": output, "usage": {**usage, **details}}
        return httpx2.Response(200, json={**make_blank_response(answer.response_id or "", name), **made})

    # The SDK's models speak in the items of the Responses API, for which pydantic-ai has the translation.
    sender = httpx2.AsyncClient(transport=httpx2.MockTransport(ask))
    client = AsyncOpenAI(api_key="none", base_url="http://model.invalid", http_client=sender, max_retries=0)
    return from_pydantic_ai(OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client)))


def _read_settings(body: dict[str, Any]) -> ModelSettings:
    choice: Any = body.get("tool_choice")
    chosen: Any = choice if isinstance(choice, str | None) else choice["name"]
    return ModelSettings(
        max_tokens=body.get("max_output_tokens"), temperature=body.get("temperature"), tool_choice=chosen
    )


def _make_tool(given: dict[str, Any]) -> FunctionTool:
    async def refuse(context: ToolContext[Any], arguments: str) -> str:
        raise NotImplementedError("the server that asks uses its tools itself")

    return FunctionTool(
        name=given["name"],
        description=given.get("description") or "",
        params_json_schema=given["parameters"],
        on_invoke_tool=refuse,
        strict_json_schema=False,
    )
