"""The workflows where the project is published: pinned, with the least rights, and in line with the rest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [ROOT / name for name in ("CODE_OF_CONDUCT.md", "GOVERNANCE.md", "SUPPORT.md", "SECURITY.md")]


def read_workflow(path: Path) -> Any:
    """Parse a workflow."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def list_steps(path: Path) -> list[dict[str, Any]]:
    """List the steps of all jobs of a workflow."""
    return [step for job in read_workflow(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path):
    """A tag of an action can be moved; a commit cannot. The comment beside it names the version for people."""
    used = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # \S+$", line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_has_the_rights_it_names(path: Path):
    """A workflow begins with no rights; a job names its own, and none may write to the repository."""
    workflow = read_workflow(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"].get("contents", "read") == "read", name
        assert job["timeout-minutes"] <= 120, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_expression_is_pasted_into_a_shell(path: Path):
    """The text of a branch or title could be commands."""
    assert [step["run"] for step in list_steps(path) if "${{" in step.get("run", "")] == []


def test_promised_pythons_are_tried():
    """Each Python that the package's classifiers name runs the suite."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = {line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)}
    tried = read_workflow(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["systems"]["strategy"]["matrix"][
        "python"
    ]
    assert promised
    assert promised <= set(tried)


def test_scripts_that_workflows_run_exist():
    """A step calls a script of the repository, or a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [step["run"] for path in WORKFLOWS for step in list_steps(path) if "run" in step]
    scripts = {name for command in commands for name in re.findall(r"bash (\S+)", command)}
    targets = {name for command in commands for name in re.findall(r"make (\S+)", command)}
    assert [name for name in scripts if not (ROOT / name).is_file()] == []
    assert [name for name in targets if f"\n{name}:" not in makefile] == []
    assert {*scripts, *targets} == {".ci/run", "dist"}


def test_forms_are_complete():
    """Each form for issues has a name, a description, and fields with ids that differ."""
    paths = set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"}
    assert paths
    for path in paths:
        form = read_workflow(path)
        ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert form["name"], path
        assert form["description"], path
        assert ids, path
        assert len(ids) == len(set(ids)), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_for_contributors_link_to_what_exists(page: Path):
    """Each relative link of a page at the root leads to a file."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []
