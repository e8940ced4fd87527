"""The stages of answering an ask, in their order."""
