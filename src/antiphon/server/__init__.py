"""Tools, resources, prompts and completion from plain functions, and one way to ask the client back."""
