"""A small hub on localhost: enough of the Hugging Face API for `datasets.load_dataset` and `hf_hub_download`."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(http.server.BaseHTTPRequestHandler):
    """Data set repositories with one commit, which is also `main`; `gated` ones refuse every request."""

    server: LocalHub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "datasets"]:
            self._api("/".join(parts[2:4]), parts[4:], body)
        elif parts[0] == "datasets" and parts[3:4] == ["resolve"]:
            self._file("/".join(parts[1:3]), parts[4], "/".join(parts[5:]))
        else:
            self._send(404, b"", {})

    do_POST = do_HEAD = do_GET

    def _refused(self, repo: str, revision: str) -> bool:
        if repo in self.server.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        elif repo not in self.server.repositories:
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif revision not in ("main", COMMIT):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"No {revision}"})
        else:
            return False
        return True

    def _api(self, repo: str, rest: list[str], body: bytes) -> None:
        verb = rest[0] if rest else "info"
        revision = rest[1] if len(rest) > 1 else "main"
        if self._refused(repo, revision):
            return
        files = self.server.repositories[repo]
        if verb in ("info", "revision"):
            siblings = [{"rfilename": name} for name in files]
            self._json({"id": repo, "sha": COMMIT, "private": False, "gated": False, "tags": [], "siblings": siblings})
            return
        entries = [
            {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for name, content in files.items()
        ]
        if verb == "paths-info":
            wanted = json.loads(body)["paths"]
            entries = [entry for entry in entries if entry["path"] in wanted]
        elif rest[2:]:  # a folder of the tree: these repositories have none
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        self._json(entries)

    def _file(self, repo: str, revision: str, name: str) -> None:
        if self._refused(repo, revision):
            return
        content = self.server.repositories[repo].get(name)
        if content is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            return
        etag = hashlib.sha1(content).hexdigest()
        self._send(200, content, {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'})

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Tests print nothing."""


class LocalHub(http.server.ThreadingHTTPServer):
    """A hub that serves `repositories` (id -> file -> bytes), and a process that reads from it."""

    daemon_threads = True

    def __init__(self, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.requests: list[str] = []
        self.home = home

    def run(self, code: str, **variables: str) -> str:
        """What `code` prints in a fresh Python that has this hub as HF_ENDPOINT, and an empty cache at first."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        environment |= {
            "HF_ENDPOINT": f"http://127.0.0.1:{self.server_port}",
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def hub(tmp_path):
    """A running LocalHub without repositories."""
    server = LocalHub(tmp_path / "hf_home")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def write(tmp_path):
    """Write a test file and give its path: rows as JSON lines in a .jsonl, text and bytes as they are, else JSON."""

    def written(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return written


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2):
    """The embedded model's own tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2)
