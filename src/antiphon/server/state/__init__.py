"""The state of a call between its requests: sealed for the client, or kept in a store that processes share."""
