"""Finds texts of a tool's definition that give orders to the model instead of saying what the tool does.

Pure. A description reaches the model as it is, so a hostile server writes there what the model should do with other
tools, or hide from the person. The patterns are those of published attacks; each takes linear time. They point
something out to a person, and decide nothing.
"""

from __future__ import annotations

import re

__all__ = ["first_instruction"]

_OLD = r"(?:previous|prior|above|earlier|preceding|all other|existing)"
_ORDERS = r"(?:instruction|rule|prompt|message|guideline|direction)"
_HUMAN = r"(?:the |your )?(?:user|human|person|operator)"
_TELL = r"(?:tell|mention|inform|reveal|notify|show)(?:ing)?"
_INJECTION = (
    rf"\b(?:ignore|disregard|forget|override) (?:(?:all|any|the|your|of|my) ){{0,4}}{_OLD} (?:\w{{1,20}} )?{_ORDERS}"
)
_SECRECY = rf"\b(?:do not|don'?t|never|must not|without) (?:\w{{1,20}} ){{0,2}}?{_TELL}\b[^.\n]{{0,20}}?\b{_HUMAN}\b"
_RANK = r"<\s?/?\s?(?:important|system|instructions?|secret|critical|assistant)\s?>"
_MARKUP = r"<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[/?INST\]|<<SYS>>"
_ROLE = r"\bsystem prompt\b|\byou are now\b|\bnew instructions?\s?:"
_SHADOW = (
    r"\b(?:before|after|whenever|instead of) (?:you )?(?:use|using|call|calling|invoking) "
    r"(?:any|every|all|other|another|these|those|the)\b[^.\n]{0,30}?\btools?\b"
)
_ORDER = r"\byou (?:must|have to|shall|need to) (?:\w{1,20} )?(?:always|first|never|not|send|include)\b"
_THEFT = r"\.ssh/|aws/credentials|\bid_rsa\b|\bid_ed25519\b|/\.env\b|\bmcp\.json\b"
_CHINESE = r"忽略|无视|不要(?:告诉|告知|提醒|通知|透露)|(?:系统|先前|之前|以上|上述)的?(?:提示词|指令|指示)|必须先"
_PATTERNS = (_INJECTION, _SECRECY, _RANK, _MARKUP, _ROLE, _SHADOW, _ORDER, _THEFT, _CHINESE)
"""In this order: cancelling earlier instructions, hiding something from the person, posing as a system prompt, steering
the use of other tools, orders, files with keys; and most of these in Chinese."""
_INSTRUCTION = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS), re.IGNORECASE)


def first_instruction(text: str) -> tuple[int, int] | None:
    """Return where the first order to the model stands in a text, or ``None``.

    Args:
        text: a text of a tool's definition, decoded.
    """
    found = _INSTRUCTION.search(text)
    return None if found is None else found.span()
