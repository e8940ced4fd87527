"""The stages of an answer, in their order."""
