"""The one way to every model vendor: pydantic-ai-slim's model layer. Loaded at first use, and only then.

Each file here may import pydantic-ai at its top; whoever imports a file of this package pays for it.
"""
