"""The model API: servers that call a vendor's API themselves ask the host instead, at an endpoint on this machine."""
