"""The files around the code agree with it: version, make targets, tools."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from instruct import __version__

ROOT = Path(__file__).resolve().parent.parent
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert re.search(rf"^## .*\b{re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/ci.yml"])
def test_make_targets_exist(page):
    """Commands start a line, follow `run:` or `step`, or stand in backticks."""
    calls = re.findall(r"(?:^|run: |step |`)make ((?:[a-z-]+ ?)+)", (ROOT / page).read_text(), re.MULTILINE)
    assert calls
    assert {target for call in calls for target in call.split()} <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_state_that_they_have_never_run(path):
    text = path.read_text()
    assert text.startswith("# NEVER RUN YET")
    actions = re.findall(r"uses: *(.*)", text)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action) for action in actions)  # a tag can move
    assert all("runs-on" in job and job["steps"] for job in yaml.safe_load(text)["jobs"].values())


def test_commit_hooks_call_tools_that_make_lint_calls():
    makefile = (ROOT / "Makefile").read_text()
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{tool}" in makefile


def test_issue_forms_are_valid():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        assert {"name", "description", "body"} <= set(form)
        assert all(field["attributes"]["label"] for field in form["body"])


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f"- {page}\n" not in navigation] == []


def test_the_slowest_tests_of_two_runs_are_listed(tmp_path):
    """As `.ci/run` does at its end, also if only one run has ended."""
    (tmp_path / "test_times.py").write_text(
        "import time, pytest\n"
        "@pytest.mark.parametrize('tenths', range(12))\n"
        "def test_it(tenths): time.sleep(tenths / 10 if tenths > 9 else 0)\n"
    )
    pytest_call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    subprocess.run([*pytest_call, f"--junitxml={tmp_path}/a.xml", tmp_path], check=True, cwd=tmp_path)
    call = [sys.executable, ROOT / ".ci" / "slowest.py", tmp_path / "a.xml", tmp_path / "none.xml"]
    title, *lines = subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()
    assert title == "== the ten slowest tests, with their setups"
    assert len(lines) == 10
    assert [line.split("::")[1] for line in lines[:2]] == ["test_it[11]", "test_it[10]"]
    assert lines[0].endswith(" s  test_times.py::test_it[11]")
    assert subprocess.run([*call[:2], tmp_path / "none.xml"], capture_output=True, check=True).stdout == b""


@pytest.mark.slow
def test_one_process_runs_the_tests_of_a_group_and_those_that_share_a_fixture(tmp_path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    for name, mark in {
        "named": "@pytest.mark.xdist_group('all')\n",
        "other": "@pytest.mark.xdist_group('all')\n",
        "shared": "",
    }.items():
        (tmp_path / f"test_{name}.py").write_text(
            "import os, pytest, time\n"
            "@pytest.fixture(scope='module')\n"
            f"def shared(): open('made_{name}', 'a').write('x')\n"
            f"{mark}@pytest.mark.parametrize('n', range(4))\n"
            f"def test_it(shared, n): time.sleep(.05); open('{name}', 'a').write(f'{{os.getpid()}} ')\n"
        )
    call = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", f"--rootdir={tmp_path}"]
    done = subprocess.run([*call, "-p", "no:cacheprovider"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    ran = {name: (tmp_path / name).read_text().split() for name in ("named", "other", "shared")}
    assert all(len(processes) == 4 for processes in ran.values())
    assert len({*ran["named"], *ran["other"]}) == len({*ran["shared"]}) == 1
    assert all((tmp_path / f"made_{name}").read_text() == "x" for name in ran)
