"""Servers made from OpenAPI documents: each operation becomes a tool, or a resource."""
