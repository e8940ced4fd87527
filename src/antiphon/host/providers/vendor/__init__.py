"""Vendors of models, by the model layer of pydantic-ai-slim. Loaded on first use only.

Modules here may import pydantic-ai at the top, so importing one of them loads it.
"""
