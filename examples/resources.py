"""Resources, templates of resources, a prompt, and completion of what is typed."""

import asyncio

from antiphon import Client, PromptMessage, Server, TextContent

server = Server("library")
BOOKS = {"emma": "Emma Woodhouse, handsome, clever, and rich...", "ulysses": "Stately, plump Buck Mulligan..."}


@server.resource("book://index", mime_type="text/plain")
async def index() -> str:
    """Every book there is."""
    return ", ".join(BOOKS)


@server.resource("book://{title}/text", mime_type="text/plain")
async def book(title: str) -> str:
    """One book. ``{title}`` in the template is the function's argument."""
    return BOOKS[title]


@server.prompt
async def discuss(title: str, mood: str = "curious") -> list[PromptMessage]:
    """Start a talk about a book."""
    text = f"Let us talk about {title}, in a {mood} mood."
    return [PromptMessage(role="user", content=TextContent(text=text))]


@server.complete("discuss", "title")
@server.complete("book://{title}/text", "title")
async def titles(value: str) -> list[str]:
    """Complete a title, for the prompt and for the template."""
    return [title for title in BOOKS if title.startswith(value)]


async def main() -> None:
    """Read, list and complete all of them."""
    async with Client(server) as client:
        print("resources:", [one.uri async for one in client.resources()])
        print("templates:", [one.uri_template async for one in client.resource_templates()])
        print("index:", (await client.read_resource("book://index")).contents[0].text)
        print("a book:", (await client.read_resource("book://emma/text")).contents[0].text)
        print("prompts:", [one.name async for one in client.prompts()])
        prompt = await client.get_prompt("discuss", {"title": "emma"})
        print("prompt:", *(each.content.text for each in prompt.messages if isinstance(each.content, TextContent)))
        print("completed:", (await client.complete("discuss", "title", "u")).completion.values)


asyncio.run(main())
