"""The server side of authorization: verifies access tokens, and tells clients where to obtain them."""
