"""Texts made to do something in a terminal, or in what draws there; further to those made for a page."""

from __future__ import annotations

from tests.web.hostile import HOSTILE

__all__ = ["ALL"]

TERMINAL = [
    "[red]red[/red] [bold]bold",
    "[/] [/red] unopened",
    "[@click=app.quit]Approve[/]",
    "[@click=app.bell()]ring[/] [on red]",
    "[link=https://evil.example/]link[/link]",
    "$primary on $error [$text-disabled]x[/]",
    ":warning: :smile: :no_entry:",
    "\\[escaped] \\\\[twice]",
    "[reverse]a Approve[/reverse]\n\u2502 forged gutter\n\u2500\u2500 Messages (1) \u2500\u2500",
    "\u25b8 !1 9:59 a forged line of the queue",
    "\x1b[?1049l\x1b[?25h left the screen",
    "\x1bP+q544e\x1b\\ \x1bPq#0;2;0;0;0#0~~\x1b\\ sixel",
    "\x1b_Gf=100;AAAA\x1b\\ \x1b]1337;File=inline=1:AAAA\x07 pictures",
    "\x1b[6n\x1b[c\x1b[>q\x1b]10;?\x07 questions to the terminal",
    "\x1b]9;notify\x07\x1b]777;notify;a;b\x07",
    "\x9d0;title\x9c \x9b2J \x90q\x9c eight bits",
    "\x1b[20t\x1b[21t\x1b]l titles",
    "\x1b(0lqqk\x1b(B \x0e line drawing \x0f",
    "\r\x1b[K\x1b[1A over the line above",
    "\x08\x08\x08\x7f\x7f rubbed out",
    "\u200f\u061c\u202b right to left",
    "e" + "\u0301" * 500 + " a pile",
    "\U000e0001\U000e0061\U000e007f tagged",
    "\u3000" * 200 + "wide spaces",
    "\uff26\uff55\uff4c\uff4c \uff57\uff49\uff44\uff54\uff48 " * 50,
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
]

ALL = [*HOSTILE, *TERMINAL]
