"""Skills of a server, as a client loads them: fetched when they are asked for, and verified before they are returned.

Source: the extension ``io.modelcontextprotocol/skills`` (SEP-2640), Integrity and Verification.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from urllib.parse import quote, unquote

from antiphon.errors import SkillInvalid, TooCostly
from antiphon.json_schema.validator import is_same_json
from antiphon.machine.front_matter import read_untrusted_front_matter
from antiphon.wire import skills
from antiphon.wire.resources import ReadResourceResult


class RemoteSkill:
    """A skill of a server. Get some with ``Client.skills`` and ``Client.skill``.

    What a skill says is text of its server, and no more to be trusted than a result of a tool. The same digests prove
    that entry and files agree, not that either is harmless.

    Args:
        entry: its entry, as the server sent it.
        fetch: reads a resource of its server.
    """

    def __init__(self, entry: skills.Skill, fetch: Callable[[str], Awaitable[ReadResourceResult]]) -> None:
        self.entry = entry
        """Its entry, as the server sent it. ``allowed-tools`` in its front matter allows nothing by itself."""
        self.problem = skills.find_entry_problem(entry)
        """Why it cannot be loaded, as far as its entry says; ``None`` if it can be."""
        self._fetch = fetch
        self._read: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"RemoteSkill({self.uri!r})"

    @property
    def uri(self) -> str:
        """URI of its ``SKILL.md``; it identifies the skill within its server."""
        return self.entry.uri

    @property
    def name(self) -> str:
        """Its name; skills of other servers, and of other folders, may have the same."""
        return str(self.entry.frontmatter.get("name", ""))

    @property
    def description(self) -> str:
        """What it is for."""
        return str(self.entry.frontmatter.get("description", ""))

    @property
    def files(self) -> Sequence[skills.SkillResource] | Literal["dynamic"]:
        """All its files with size and digest; ``"dynamic"`` if they are generated, and cannot be verified."""
        return self.entry.resources

    async def read(self, path: str = skills.SKILL_FILE) -> bytes:
        """Fetch a file, once, and verify it: size and digest, and of ``SKILL.md`` the front matter.

        Args:
            path: path of the file in the skill's folder, or its URI; by default ``SKILL.md``.

        Raises:
            SkillInvalid: the file is not as the entry says, is none of the skill's, or the entry cannot be used. If the
                server has changed the skill, ``Client.skill(uri)`` returns its present entry.
            PeerError: the server refused the request.
        """
        if self.problem is not None:
            raise SkillInvalid(f"The skill {self.uri} cannot be loaded: {self.problem}")
        root = skills.find_skill_root(self.uri)
        plain = path if path.startswith(f"{root}/") else f"{unquote(root)}/{posixpath.normpath(path)}"
        files = () if self.files == "dynamic" else self.files
        file = next((file for file in files if plain in (file.uri, unquote(file.uri))), None)
        uri = path if plain == path else f"{root}/{quote(posixpath.normpath(path))}"
        uri = uri if file is None else file.uri
        if file is None and (self.files != "dynamic" or not skills.is_within_skill(uri, root)):
            raise SkillInvalid(f"{path!r} is not a file of the skill {self.uri}")
        if uri not in self._read:
            result = await self._fetch(uri)
            if len(result.contents) != 1:
                raise SkillInvalid(f"{uri} is {len(result.contents)} resources, and not one file")
            try:
                data = result.contents[0].bytes
            except ValueError:
                raise SkillInvalid(f"{uri} is neither text nor base64") from None
            if (problem := await self._find_problem(uri, data, file)) is not None:
                raise SkillInvalid(f"{uri} is not as the skill's entry says: {problem}")
            self._read[uri] = data
        return self._read[uri]

    async def text(self, path: str = skills.SKILL_FILE) -> str:
        """Fetch and verify a file of text; see ``read``.

        Args:
            path: path of the file in the skill's folder, or its URI; by default ``SKILL.md``.

        Raises:
            SkillInvalid: see ``read``; or the file is not UTF-8.
        """
        try:
            return (await self.read(path)).decode()
        except UnicodeDecodeError:
            raise SkillInvalid(f"{path} of the skill {self.uri} is not UTF-8") from None

    async def _find_problem(self, uri: str, data: bytes, file: skills.SkillResource | None) -> str | None:
        """Return how the bytes of a file differ from what the entry says; ``None`` if they do not."""
        if file is None and sum(map(len, self._read.values())) + len(data) > skills.MAX_BYTES:
            return f"the skill has more than {skills.MAX_BYTES:,} bytes"
        if file is not None and len(data) != file.size:
            return f"it has {len(data):,} bytes, and not {file.size:,}"
        if file is not None and skills.compute_file_digest(data) != file.digest:
            return "its SHA-256 digest is not that of its entry"
        if uri == self.uri:
            try:
                is_same = is_same_json(await read_untrusted_front_matter(data), self.entry.frontmatter)
                return None if is_same else "its front matter is not that of the entry"
            except (ValueError, TooCostly) as error:
                return str(error)
        return None
