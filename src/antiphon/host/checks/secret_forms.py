"""The forms of secrets: vendors' keys, and names whose value is a password.

The corpus of ``tests/host/checks/secret_corpus.py`` measures how well they find; docs/topics/security.md has the
figures, and docs/design/dependencies.md says why no library is used.

Each pattern takes time proportional to the text. It can begin only at the start of a word, and repetitions are bounded
or possessive (without backtracking).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["FORMS", "Form", "is_password", "names_password"]


class Form(NamedTuple):
    """One kind of secret."""

    kind: str
    """Its name, for people."""
    signs: tuple[str, ...]
    """In lower case. A text without any of them cannot match, which is much faster to check."""
    pattern: re.Pattern[str]
    """``fits`` examines the group named ``value``, if there is one."""
    fits: Callable[[str], bool] | None = None
    """Examines a match, since not everything of this form is a secret."""


_NO_WORD = r"(?<![A-Za-z0-9])"
_NO_KEY = r"(?<![A-Za-z0-9_-])"

_PASSWORD_NAMES = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|credentials?"
    r"|(?:api|access|account|auth|client|encryption|master|private|secret|service|shared|signing|storage)[_-]?key"
    r"|(?:access|api|auth|bearer|bot|id|oauth|refresh|session|user)[_-]?token"
)
_PASSWORD_NAME = re.compile(
    rf"(?i)(?:{_PASSWORD_NAMES})(?:[_-]?(?:\d{{1,3}}|id|key|value|text|hash|old|new))?$|^token$"
)
# Placeholders: a variable, a gap to fill in, the name of a type, a meaningless word.
_NO_PASSWORD = re.compile(
    r"(?i)[$<{%*\[(]|(?:your|my|the|an?|some|new|old|example|insert|enter)[_ -]|x{4,}|\.{3}"
    r"|[\w.]+[(\[]|[\w]+\.\w+\.\w+$"
    r"|(?:string|str|number|integer|boolean|bool|bytes|required|optional|nullable|undefined|unknown|change_?me|redacted|hidden"
    r"|masked|secret|password|expired|invalid|missing|incorrect|correct|disabled|enabled|protected|placeholder|process|environ)"
    r"[.!?)\]}]{0,3}$"
)


def names_password(name: str) -> bool:
    """Tell whether a member of this name holds a password or a key: ``password``, ``dbPassword``, ``X_API_KEY``."""
    return _PASSWORD_NAME.search(name[-100:]) is not None


def is_password(value: str) -> bool:
    """Tell whether a text may be a password, and is no placeholder for one."""
    return 6 <= len(value) <= 1_000 and "\n" not in value and _NO_PASSWORD.match(value) is None


def _is_token(value: str) -> bool:
    """Distinguish a token from a word: tokens have digits, or capitals in the middle."""
    return any(char.isdigit() for char in value) or any(char.isupper() for char in value[1:])


def _is_pair(value: str) -> bool:
    """Tell whether it is base64 of a name, a colon and a password (RFC 7617)."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded[1:-1] and decoded.isascii()


def _is_unquoted(value: str) -> bool:
    return is_password(value) and (_is_token(value) or not value.isalpha())


def _form(kind: str, signs: str, pattern: str, fits: Callable[[str], bool] | None = None) -> Form:
    return Form(kind, tuple(signs.split("|")), re.compile(pattern), fits)


# Of two that begin at the same place the earlier form is reported, so more specific ones come first. Lengths are
# minima, so that a truncated key is found, too.
FORMS: tuple[Form, ...] = (
    _form(
        "private key",
        "private key",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]{0,20000}+-----END[A-Z0-9 ]{0,60}+(?:-----)?)?",
    ),
    _form(
        "AWS access key",
        "akia|asia|abia|acca|a3t",
        _NO_WORD + r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    ),
    _form("Anthropic API key", "sk-ant-", _NO_KEY + r"sk-ant-[A-Za-z0-9_-]{16,}+"),
    _form("API key", "sk-", _NO_KEY + r"sk-[A-Za-z0-9_-]{16,}+", _is_token),
    _form("Google API key", "aiza", _NO_KEY + r"AIza[0-9A-Za-z_-]{35}"),
    _form("Google token", "ya29.|gocspx-", _NO_KEY + r"(?:ya29\.|GOCSPX-)[0-9A-Za-z_-]{20,}+"),
    _form(
        "GitHub token",
        "ghp_|gho_|ghu_|ghs_|ghr_|github_pat_",
        _NO_KEY + r"(?:gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+)",
    ),
    _form(
        "GitLab token",
        "glpat-|gldt-|glft-|glsoat-|glrt-|glcbt-|glimt-|glptt-|glagent-|gloas-|glffct-|gr1348941",
        _NO_KEY + r"(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-|GR1348941)[A-Za-z0-9_.-]{16,}+",
    ),
    _form("Hugging Face token", "hf_|api_org_", _NO_KEY + r"(?:hf_|api_org_)[A-Za-z0-9]{20,}+"),
    _form("npm token", "npm_|_authtoken", _NO_KEY + r"npm_[A-Za-z0-9]{30,}+|:_authToken\s{0,4}=\s{0,4}[^\s\"']{8,}+"),
    _form("PyPI token", "pypi-", _NO_KEY + r"pypi-[A-Za-z0-9_-]{40,}+"),
    _form("Stripe key", "_live_|_test_|whsec_", _NO_KEY + r"(?:(?:sk|rk)_(?:live|test)_|whsec_)[A-Za-z0-9+/=]{16,}+"),
    _form(
        "Slack token",
        "xox|xapp-|hooks.slack.com",
        _NO_KEY + r"(?:xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+)"
        r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}+",
    ),
    _form(
        "Azure key",
        "accountkey=|sharedaccesskey=|accesskey=|sig=|q~",
        r"(?i:\b(?:AccountKey|SharedAccessKey|AccessKey)=)[A-Za-z0-9+/=]{32,}+|[?&](?i:sig)=[A-Za-z0-9%+/=_-]{40,}+"
        r"|(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}+",
    ),
    _form("SendGrid key", "sg.", _NO_KEY + r"SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,}+"),
    _form("Telegram token", ":aa", r"(?<![A-Za-z0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    _form("Twilio key", "sk", _NO_KEY + r"SK[0-9a-f]{32}(?![0-9a-zA-Z])"),
    _form(
        "vendor token",
        "gsk_|xai-|r8_|pplx-|hvs.|hvb.|dop_v1_|doo_v1_|shpat_|shpss_|shpca_|shppa_|dapi|dckr_pat_|lin_api_|ntn_|glsa_"
        "|glc_|pat-na|sq0|eaa|age-secret-key-1|ops_|tvly-|nvapi-|fig|phc_|phx_|atatt3|rubygems_|sntrys_",
        _NO_KEY
        + r"(?:gsk_|xai-|r8_|pplx-|hvs\.|hvb\.|dop_v1_|doo_v1_|shp(?:at|ss|ca|pa)_|dapi(?=[0-9a-f]{32})|dckr_pat_"
        r"|lin_api_|ntn_|glsa_|glc_|pat-na[0-9]-|sq0(?:atp|csp|idp)-|EAAA(?=[A-Za-z0-9_-]{50})|AGE-SECRET-KEY-1|ops_(?=eyJ)"
        r"|tvly-|nvapi-|fig[dou]_|ph[cx]_|ATATT3|rubygems_|sntrys_)[A-Za-z0-9_=-]{20,}+",
        _is_token,
    ),
    _form(
        "JSON web token",
        "eyj",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.(?:eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+|[A-Za-z0-9_-]*+\.[A-Za-z0-9_-]++"
        r"\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]++)",
    ),
    _form("bearer token", "bearer", r"(?i)\bbearer\s{1,4}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)", _is_token),
    _form("password in a header", "basic", r"(?i)\bbasic\s{1,4}+(?P<value>[A-Za-z0-9+/]{8,}+={0,2})", _is_pair),
    _form(
        "password in a URL",
        "://",
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}+://[^\s/:@?#]{0,100}+:(?P<value>[^\s/@\"'<>]{1,200}+)@",
        lambda value: value[0] not in "$<{*[",
    ),
    _form(
        "key in a URL",
        "key=|token=|secret=|password=|passwd=|signature=",
        r"(?i)[?&](?:api_?key|access_?key|access_?token|auth_?token|token|key|client_?secret|secret|password|passwd|x-amz-signature)"
        r"=(?P<value>[^\s&#\"'<>]{8,}+)",
        is_password,
    ),
    _form(
        "password",
        "passw|passp|passc|pwd|secret|key|token|credential",
        rf"(?i)(?:{_PASSWORD_NAMES})(?:[_-]?(?:\d{{1,3}}|id|key|value|text|old|new))?[\"'`\]]{{0,2}}+"
        rf"[ \t]{{0,4}}+(?::=|=>|[:=])[ \t]{{0,4}}+[\"'`]{{0,3}}+(?P<value>[^\s\"'`,;]{{6,}}+)",
        _is_unquoted,
    ),
)
