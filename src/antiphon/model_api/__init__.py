"""The model API: an endpoint on this machine by which programs that call a vendor's API ask the host instead."""
