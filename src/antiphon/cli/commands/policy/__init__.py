"""``antiphon policy``: what is allowed beforehand, why an ask would be, and what people allowed or blocked since."""
