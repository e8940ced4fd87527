"""What travels: the messages of every protocol revision as msgspec structs, without behaviour."""
