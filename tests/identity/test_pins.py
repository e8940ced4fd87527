"""Whether the command line of a package runner names one version, and whose rules it follows."""

from __future__ import annotations

import pytest

from antiphon.identity.command_lines import is_pinned, runner_of, without_version

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "line",
    [
        "npx -y pkg@1.2.3 --root .",
        "npx @scope/pkg@1.2.3-rc.1",
        "npx -y -p pkg@1.2.3 -p other@1.0.0 command",
        "npx --package=pkg@1.2.3 -- command arg",
        "npm exec pkg@1.2.3",
        "pnpm dlx pkg@1.2.3",
        f"npx github:who/what#{COMMIT}",
        "npx ./local",
        "bunx pkg@1.2.3",
        "uvx pkg==1.2.3",
        "uvx pkg@1.2",
        "uvx --from pkg[extra]==1.2.3 command",
        "uvx --python 3.12 --from pkg==1.0 --with other==2.0 command",
        f"uvx --from git+https://example.com/pkg@{COMMIT} command",
        "uv tool run pkg==1.2.3",
        "pipx run --spec pkg==1.0 command",
        "python server.py",
    ],
)
def test_an_exact_version_is_pinned(line: str):
    """A version in full, a commit, or a folder of this disk."""
    assert is_pinned(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "npx",
        "npx -y pkg",
        "npx -y pkg@latest",
        "npx pkg@^1.2.3",
        "npx pkg@1",
        "npx pkg@1.x",
        "npx @scope/pkg",
        "npx -p pkg@1.2.3 -p other command",
        "npx -c 'pkg@1.2.3'",
        "npx --registry pkg@1.2.3 other",
        "npx github:who/what",
        "npx github:who/what#main",
        "uvx pkg",
        "uvx pkg@latest",
        "uvx 'pkg>=1'",
        "uvx --with other pkg==1.0",
        "uvx --index pkg==1.0 other",
        "uvx --from git+https://example.com/pkg@main command",
        "pipx run pkg",
        "uv tool run pkg",
        "yarn dlx pkg",
    ],
)
def test_whatever_is_newest_is_not_pinned(line: str):
    """No version, a range, a tag, a branch; nor where an option hides what is fetched."""
    assert not is_pinned(line.replace("'", "").split())


def test_runners_are_known_by_their_first_words():
    """Others fetch nothing."""
    assert (runner_of(["bunx", "pkg"]), runner_of(["uv", "tool", "run"]), runner_of(["uv", "run"])) == (
        "npx",
        "uvx",
        None,
    )


def test_a_version_is_taken_from_a_package_only():
    """What has none stays."""
    assert without_version("@scope/pkg@1.2.3") == "@scope/pkg"
    assert without_version("pkg[extra]>=1.0") == "pkg[extra]"
    assert without_version("--port") == "--port"


DIGEST = "ghcr.io/who/what@sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "line",
    [
        f"docker run {DIGEST}",
        f"docker run -i --rm -e KEY -v /a:/b --network=none {DIGEST} --verbose",
        f"podman container run -it --name x {DIGEST}",
    ],
)
def test_an_image_is_pinned_by_its_digest(line: str):
    """It is the same for ever."""
    assert is_pinned(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "docker run -i --rm mcp/fetch",
        "docker run -i --rm mcp/fetch:latest",
        "docker run -i --rm mcp/fetch:1.2.3",
        f"docker run -e IMAGE={DIGEST} mcp/fetch",
        f"docker run -e {DIGEST} mcp/fetch",
        f"docker run mcp/fetch {DIGEST}",
        "docker run what@sha256:0123",
        "docker exec -i running server",
        "docker compose run server",
        f"docker run --unknown {DIGEST}",
        "docker run",
        "docker",
    ],
)
def test_an_image_without_a_digest_is_not(line: str):
    """A tag moves, even one that looks like a version; a running container may be any."""
    assert not is_pinned(line.split())
