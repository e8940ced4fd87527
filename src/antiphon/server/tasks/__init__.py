"""Tasks: calls that outlive their request, their connection and their process (extension, from 2026-07-28)."""
