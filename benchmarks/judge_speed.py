"""How long judging AlpacaEval's 805 pairs takes, compared with alpaca_eval 0.6.6 on the same server.

    python -m benchmarks.judge_speed

The server runs in its own process and takes 50 ms for every reply, regardless of the number of requests. Contenders:
our loop with 64 concurrent requests, and alpaca_eval with its default of 5 and with 64. In each round every contender
runs once, in a fresh process, with nothing stored. `seconds` and `cpu_ms_a_request` (CPU time of the process,
including the openai client) measure judging, without process start and imports (one pair is judged before). Then the
commands are measured from process start: `instruct judge`, the same with everything stored, and `instruct report`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, alternate, ratio, write_results

JUDGE, CANDIDATE, BASELINE = "alpaca_eval_gpt4", "alpaca-7b", "text_davinci_003"
PAIRS, AT_ONCE, LATENCY = 805, 64, 0.05
WARM_UP = "What is loaded but once?"
Sides = dict[str, list[dict[str, Any]]]
SPEED_AIM, CPU_AIM, RESUME_AIM = 5.0, 2.0, 2.0  # times, milliseconds a verdict, seconds


def write_answers(folder: Path, pairs: int) -> str:
    """Write both systems' answers; returns their source: real answers, or words of the same length."""
    shared = Path(os.environ.get("INSTRUCT_SHARED_DATA", ROOT.parent / "shared" / "data")) / "alpaca_eval"
    files = {CANDIDATE: shared / "alpaca-7b.model_outputs.json", BASELINE: shared / "reference_text_davinci_003.json"}
    sides = {}
    if all(path.is_file() for path in files.values()):
        sides = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items()}
    else:
        draw = random.Random(0)

        def text(characters: float) -> str:  # log-normal about AlpacaEval's median, with its spread
            words = max(2, round(draw.lognormvariate(math.log(characters), 0.7) / 6))
            return " ".join("".join(draw.choices("etaoinshrdlu", k=5)) for _ in range(words))

        prompts = [f"{text(130)} {index}?" for index in range(pairs)]
        for name, characters in ((CANDIDATE, 355), (BASELINE, 380)):
            sides[name] = [{"dataset": "none", "instruction": p, "output": text(characters)} for p in prompts]
    for name, rows in sides.items():
        kept = [{key: row[key] for key in ("dataset", "instruction", "output")} for row in rows[:pairs]]
        (folder / f"{name}.json").write_text(json.dumps([{**row, "generator": name} for row in kept]), encoding="utf-8")
    return "AlpacaEval's answers" if files[CANDIDATE].is_file() else "words in answers of AlpacaEval's length"


def ours(sides: Sides, url: str, work: Path) -> None:
    from instruct.judging.asking import Judge
    from instruct.judging.options import JudgeOptions
    from instruct.judging.presentations import Answers, plan_comparison
    from instruct.judging.store import JudgmentStore
    from instruct.judging.work import judge_plan

    judge = Judge(JudgeOptions(card=JUDGE, base_url=url, engine="server", concurrency=AT_ONCE))
    candidate, baseline = (Answers(name, rows) for name, rows in sides.items())
    with JudgmentStore(work / "judgments.sqlite") as store, judge.open() as engine:
        counts = judge_plan(judge, plan_comparison(judge, candidate, baseline, engine), store, engine)
    assert sum(counts.verdicts.values()) == len(candidate.rows)
    assert not {"failed", "unparsed"} & set(counts.verdicts)


def alpaca_eval(sides: Sides, url: str, work: Path) -> None:
    """`alpaca_eval.evaluate` with its cache and results in `work` instead of site-packages."""
    clients = work / "clients.yaml"
    clients.write_text(f"default:\n  - api_key: none\n    base_url: {url}\n")
    os.environ["OPENAI_CLIENT_CONFIG_PATH"] = str(clients)  # read when the package is imported: the warm-up's, then
    from alpaca_eval import evaluate

    _, annotations = evaluate(
        model_outputs=sides[CANDIDATE],
        reference_outputs=sides[BASELINE],
        annotators_config=JUDGE,
        name=CANDIDATE,
        output_path=str(work),
        precomputed_leaderboard=None,
        is_cache_leaderboard=False,
        is_return_instead_of_print=True,
        fn_metric="get_winrate",
        sort_by="win_rate",
        caching_path=work / "cache.json",
    )
    assert len(annotations) == len(sides[CANDIDATE])


CONTENDERS = {"ours": ours, "alpaca_eval": alpaca_eval, "alpaca_eval_64": alpaca_eval}


def run_one(name: str, folder: Path, url: str) -> None:
    """Judge once in this process, after one pair as a warm-up; print seconds and CPU seconds."""
    row = {"dataset": "none", "instruction": WARM_UP}
    first = {name: [{**row, "output": name, "generator": name}] for name in (CANDIDATE, BASELINE)}
    sides = {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in first}
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as work:
        CONTENDERS[name](first, url, Path(cold))
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        CONTENDERS[name](sides, url, Path(work))
        seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu}))


class Server:
    """The local judge server as a process: its URL and its number of requests."""

    def __init__(self, folder: Path, latency: float = LATENCY) -> None:
        self._log, port = folder / "requests.jsonl", folder / "port"
        script = ROOT / "tests" / "engines" / "fake_server.py"
        arguments = [str(port), str(self._log), "{}", str(latency)]
        self._process = subprocess.Popen([sys.executable, str(script), *arguments])
        while not port.exists():
            assert self._process.poll() is None
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port.read_text()}/v1"

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def in_a_process(name: str, folder: Path, server: Server, found: list[dict[str, float]]) -> Callable[[], None]:
    """A function that runs a contender once in a fresh process and records its times."""
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    environment.pop("OPENAI_MAX_CONCURRENCY", None)
    if name == "alpaca_eval_64":
        environment["OPENAI_MAX_CONCURRENCY"] = str(AT_ONCE)
    command = [sys.executable, "-m", "benchmarks.judge_speed", "--one", name, str(folder), server.url]

    def run() -> None:
        before = len(server.requests())
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        asked = [request for request in server.requests()[before:] if WARM_UP not in json.dumps(request["body"])]
        assert len({json.dumps(request["body"]) for request in asked}) == len(asked)  # nothing was asked twice
        most = max(request["at_once"] for request in asked)
        found.append({**json.loads(done.stdout.splitlines()[-1]), "requests": len(asked), "at_once": most})

    return run


def commands(folder: Path, server: Server, rounds: int) -> dict[str, list[float]]:
    """Seconds of the commands: judging with nothing stored, with everything stored, and the report."""
    from instruct.run.directory import RunDirectory

    seconds: dict[str, list[float]] = {"judge": [], "judge_again": [], "report": []}
    for index in range(rounds):
        run = RunDirectory(folder / "runs" / str(index))
        run.start({"name": "speed"})
        run.outputs.mkdir()
        for name in (CANDIDATE, BASELINE):
            (run.outputs / f"{name}.json").write_bytes((folder / f"{name}.json").read_bytes())
        pair = ["--candidate", CANDIDATE, "--baseline", BASELINE]
        judge = ["judge", str(run.folder), "--judge", JUDGE, "--base-url", server.url, *pair]
        asked = [len(server.requests())]
        for verb, arguments in {"judge": judge, "judge_again": judge, "report": ["report", str(run.folder)]}.items():
            begun = time.perf_counter()
            done = subprocess.run([sys.executable, "-m", "instruct", *arguments], capture_output=True, text=True)
            seconds[verb].append(time.perf_counter() - begun)
            assert done.returncode == 0, done.stderr[-2000:]
            asked.append(len(server.requests()))
        assert asked[1] > asked[0]
        assert asked[1:] == [asked[1]] * 3  # what is stored is not asked again
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--no-write", action="store_true", help="leave benchmarks/results as it is")
    parser.add_argument("--one", nargs=3, metavar=("CONTENDER", "FOLDER", "URL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, folder, url = arguments.one
        return run_one(name, Path(folder), url)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = write_answers(folder, arguments.pairs)
        server = Server(folder)
        try:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
            runs = {name: in_a_process(name, folder, server, found[name]) for name in CONTENDERS}
            alternate(runs, arguments.rounds)
            whole = commands(folder, server, arguments.rounds)
        finally:
            server.end()
    rows: list[dict[str, Any]] = []
    seconds = {}
    for name, each in found.items():
        each = each[1:]  # the first is the one that alternate() does not count
        seconds[name] = [one["seconds"] for one in each]
        cpu = [1000 * one["cpu_seconds"] / one["requests"] for one in each]
        rows.append(
            {
                "contender": name,
                "requests": round(statistics.median(one["requests"] for one in each)),
                "most_at_once": round(max(one["at_once"] for one in each)),
                "seconds": round(statistics.median(seconds[name]), 3),
                "cpu_ms_a_request": round(statistics.median(cpu), 3),
                "seconds_each": [round(value, 3) for value in seconds[name]],
            }
        )
    summary = {
        "alpaca_eval/ours": ratio(seconds, "alpaca_eval", "ours"),
        "alpaca_eval_64/ours": ratio(seconds, "alpaca_eval_64", "ours"),
        "cpu_ms_a_verdict": next(row["cpu_ms_a_request"] for row in rows if row["contender"] == "ours"),
        "seconds_of_commands": {verb: round(statistics.median(values), 2) for verb, values in whole.items()},
    }
    for row in rows:
        print("{contender:15} {requests} requests, {seconds} s, {cpu_ms_a_request} ms of CPU a request".format(**row))
    for name, value in summary.items():
        print(f"{name}: {value}")
    print(f"aims: {SPEED_AIM} times, {CPU_AIM} ms, {RESUME_AIM} s")
    if not arguments.no_write:
        about = {"pairs": arguments.pairs, "answers": source, "at_once": AT_ONCE, "latency_seconds": LATENCY}
        write_results("judge-speed", rows, rounds=arguments.rounds, **about, summary=summary)


if __name__ == "__main__":
    main()
