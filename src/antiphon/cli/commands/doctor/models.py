"""Checks that each configured model answers, by asking for one word or one vector. This costs a fraction of a cent.

Owns the question, and the texts about answers and failures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from antiphon.cli.commands.doctor.local import DoctorFinding
from antiphon.cli.host_options import read_configuration
from antiphon.errors import AntiphonError
from antiphon.host.budget import convert_to_nano, format_dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.models import Models
from antiphon.host.providers.api_keys import missing_key
from antiphon.host.providers.base import Usage
from antiphon.host.providers.persistence import RetryPatience
from antiphon.host.providers.vectors import EmbeddingParams
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage

_DEADLINE = 30.0
"""Seconds for an answer, since a local model may have to be loaded first."""
_QUESTION = "Answer with the one word: ready"
_MOST_TOKENS = 200
"""Most tokens of the answer; reasoning models need some before their first word."""
_SHOWN = 40
"""Characters of the answer that are shown."""


async def check_models(config: Path | None, environ: Mapping[str, str]) -> list[DoctorFinding]:
    """Ask each model for one word, all concurrently; findings are in the order of the configuration."""
    found = await asyncio.to_thread(read_configuration, config, environ)
    return await asyncio.gather(*(_ask_model(model, environ) for model in found.catalogue()))


async def _ask_model(model: Model, environ: Mapping[str, str]) -> DoctorFinding:
    missing = missing_key(model, environ)
    if missing is not None:
        return DoctorFinding("failed", model.name, f"{missing}: set it, or take the model out of the configuration")
    models = Models(ModelCatalogue((model,)), environ, patience=RetryPatience(attempts=1, deadline=_DEADLINE))
    began = time.monotonic()
    try:
        said, usage = await _try_model(models, model)
    except AntiphonError as error:
        return DoctorFinding("failed", model.name, str(error))
    finally:
        await models.aclose()
    cost = None if usage is None else models.cost(model.name, usage)
    paid = "" if not cost else f", {format_dollars(convert_to_nano(cost))}"
    return DoctorFinding("ok", model.name, f"{said} in {time.monotonic() - began:.1f} s{paid}")


async def _try_model(models: Models, model: Model) -> tuple[str, Usage | None]:
    """Use a model once; return what it did, and what that took."""
    if model.embeddings:
        made = await models.embed(EmbeddingParams.of([_QUESTION]), model=model.name)
        return f"made a vector of {len(made.vectors[0]) // 4} numbers", made.usage
    message = SamplingMessage(role="user", content=TextContent(text=_QUESTION))
    request = CreateMessageRequestParams(messages=[message], max_tokens=_MOST_TOKENS)
    answer = await models.generate(request, model=model.name)
    return f'answered "{inert_line(answer.result.text.strip()[:_SHOWN])}"', answer.usage
