"""Uploads to the Hub: huggingface_hub's own client, and a server on this machine that keeps what it is sent."""

from __future__ import annotations

import base64
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from instruct.config import make_config
from instruct.phases.experiment import run_experiment
from instruct.run.directory import RunDirectory

TOKEN = "hf_this_must_never_be_written"


class Hub:
    """The Hub's answers to `user`, and the requests, repositories and files that it was sent."""

    def __init__(self) -> None:
        self.user = {
            "name": "ann",
            "orgs": [{"name": "lab", "roleInOrg": "write"}, {"name": "zoo", "roleInOrg": "read"}],
        }
        self.role = "write"
        self.refused: set[str] = set()  # repositories that the token cannot create
        self.read_only: set[str] = set()
        self.requests: list[str] = []
        self.visibility: dict[str, str | None] = {}
        self.commits: list[tuple[str, str, dict[str, bytes]]] = []

    def answer(self, path: str, token: str | None, body: bytes) -> tuple[int, dict]:
        self.requests.append(path)
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/whoami-v2":
            return 200, {**self.user, "type": "user", "auth": {"accessToken": {"role": self.role}}}
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'ann'}/{asked['name']}"
            if name in self.refused:
                return 403, {"error": "You don't have the rights to create a model under this namespace"}
            self.visibility[name] = asked.get("visibility")
            return 200, {"url": f"https://huggingface.co/{name}", "name": name}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.endswith("/auth-check/write"):
            readable = path.removeprefix("/api/models/").removesuffix("/auth-check/write") in self.read_only
            return (403, {"error": "You don't have write access"}) if readable else (200, {})
        if path.removeprefix("/api/models/") in self.refused:
            return 404, {"error": "Repository not found"}
        name, _, rest = path.removeprefix("/api/models/").rpartition("/main")[0].rpartition("/")
        if rest == "preupload":
            files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
            return 200, {"files": files}
        assert rest == "commit"
        lines = [json.loads(line) for line in body.splitlines()]
        files = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in lines if line["key"] == "file"
        }
        self.commits.append((name, lines[0]["value"]["summary"], files))
        return 200, {"commitUrl": f"https://huggingface.co/{name}/commit/0", "commitOid": "0" * 40}


@pytest.fixture
def hub(monkeypatch):
    """The Hub of this test, which huggingface_hub talks to with a token."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = hub.answer(self.path, self.headers.get("Authorization"), body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *arguments: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub
    server.shutdown()
    server.server_close()


@pytest.fixture
def trained(tmp_path, monkeypatch, tiny_adapters) -> RunDirectory:
    """A run with two trained systems."""
    monkeypatch.chdir(tmp_path)
    run = RunDirectory("runs/mine")
    run.start(make_config({"name": "mine"}, [], "test").model_dump(mode="json"))
    for name, folder in tiny_adapters.items():
        shutil.copytree(folder, run.adapters / name)
        (run.adapters / name / "README.md").write_text(f"---\nlibrary_name: peft\n---\n\n# mine/{name}\n")
    return run


def test_every_system_is_uploaded_with_its_card(instruct, hub, trained):
    code, out, _ = instruct("push", "runs/mine", "--repo-id", "lab/emo-test", "--private")
    assert (code, out) == (0, "uploaded: lab/emo-test-emo\nuploaded: lab/emo-test-mle\n")
    assert hub.visibility == {"lab/emo-test-emo": "private", "lab/emo-test-mle": "private"}
    for (name, message, files), system in zip(hub.commits, ("emo", "mle"), strict=True):
        assert (name, message) == (f"lab/emo-test-{system}", f"Upload {system} of mine")
        folder = trained.adapters / system
        assert files == {path.name: path.read_bytes() for path in folder.iterdir()}
        assert {"adapter_model.safetensors", "adapter_config.json", "README.md"} <= set(files)


def test_one_system_goes_to_the_repository_as_it_was_named(instruct, hub, trained):
    code, out, _ = instruct("push", "--system", "emo", "--repo-id", "ann/mine")
    assert (code, out.splitlines()[-1]) == (0, "uploaded: ann/mine")
    assert [name for name, _, _ in hub.commits] == ["ann/mine"]
    assert hub.visibility == {"ann/mine": None}


@pytest.mark.parametrize(
    ("state", "repository", "line"),
    [
        ({"role": "read"}, "lab/x", "the token has read access only; set HF_TOKEN to a token with write access"),
        ({}, "zoo/x", "ann has no write access to zoo/x-emo; name a repository of ann, lab"),
        ({"refused": {"lab/x-emo"}}, "lab/x", "no write access to lab/x-emo (HTTP status 403)"),
        ({"read_only": {"lab/x-mle"}}, "lab/x", "no write access to lab/x-mle (HTTP status 403)"),
        ({}, "a/b/c", "correct train.hub_model_id or --repo-id"),
    ],
    ids=["read-only token", "another namespace", "a limited token", "a repository to read", "not a name"],
)
def test_a_hub_without_write_access_is_refused(instruct, hub, trained, state, repository, line):
    vars(hub).update(state)
    code, out, err = instruct("push", "runs/mine", "--repo-id", repository)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert line in err
    assert TOKEN not in err
    assert not hub.commits


@pytest.mark.parametrize(
    ("token", "line"), [("hf_wrong", "the token is not accepted; set HF_TOKEN"), (None, "no token; set HF_TOKEN")]
)
def test_a_missing_or_wrong_token_is_refused_and_not_shown(instruct, hub, trained, monkeypatch, token, line):
    monkeypatch.setenv("HF_TOKEN", token or "")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(trained.folder / "none"))
    code, _, err = instruct("push", "runs/mine")
    assert (code, len(err.splitlines())) == (2, 1)
    assert f"hub: {line}" in err
    assert "hf_wrong" not in err


def test_without_a_network_nothing_is_uploaded(instruct, trained, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    code, _, err = instruct("push", "runs/mine")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "hub: cannot be reached (OfflineModeIsEnabled)" in err


@pytest.fixture
def config(tiny_experiment):
    """One system, which is uploaded."""
    tiny_experiment["train"] |= {"push_to_hub": True, "hub_model_id": "lab/mine"}
    return tiny_experiment


@pytest.mark.slow
def test_push_to_hub_uploads_after_training_and_again_with_the_evaluation(hub, config, tmp_path, printed):
    run_experiment(make_config(config, [], "test"))
    out = printed.readouterr().out
    assert out.count("uploaded  lab/mine") == 2
    (first, _, trained), (second, _, evaluated) = hub.commits
    assert first == second == "lab/mine"
    assert trained["adapter_model.safetensors"] == evaluated["adapter_model.safetensors"]
    card = yaml.safe_load(evaluated["README.md"].decode().split("---\n")[1])
    (metric,) = card["model-index"][0]["results"][0]["metrics"]
    assert (metric["type"], metric["args"]["n"]) == ("win_rate", 3)
    assert b"## Evaluation" in evaluated["README.md"]
    assert b"## Evaluation" not in trained["README.md"]
    assert card["library_name"] == "peft"
    for path in (tmp_path / "runs").rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    assert TOKEN not in out


def test_push_to_hub_without_write_access_is_refused_before_training(hub, config, tmp_path):
    from instruct.base.errors import InputError

    hub.role = "read"
    with pytest.raises(InputError, match="read access only"):
        run_experiment(make_config(config, [], "test"))
    hub.role, hub.refused = "fineGrained", {"lab/mine"}
    with pytest.raises(InputError, match="no write access to lab/mine"):
        run_experiment(make_config(config, [], "test"))
    assert not (tmp_path / "runs" / "mine" / "adapters").exists()
    assert not hub.commits


def test_a_dry_run_creates_no_repository(hub, config, printed):
    run_experiment(make_config(config, [], "test"), dry_run=True)
    assert hub.requests == ["/api/whoami-v2"]
    assert "upload    lab/mine" in printed.readouterr().out
