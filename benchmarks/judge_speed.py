"""How long judging AlpacaEval's 805 pairs takes, compared with alpaca_eval 0.6.6 on the same server.

    python -m benchmarks.judge_speed

The server runs in its own process and takes 50 ms for every reply, regardless of the number of requests. Contenders:
our loop with 64 concurrent requests, and alpaca_eval with its default of 5 and with 64. In each round every contender
runs once, in a fresh process, with nothing stored. `seconds` and `cpu_ms_a_request` (CPU time of the process,
including the openai client) measure judging, without process start and imports (one pair is judged before). How long
the commands take, many_rows and report_speed say.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import SHARED, Server, alternate, fresh, ratios, real_rows, write_results

JUDGE, CANDIDATE, BASELINE = "alpaca_eval_gpt4", "alpaca-7b", "text_davinci_003"
PAIRS, AT_ONCE, LATENCY = 805, 64, 0.05
WARM_UP = "What is loaded but once?"
Sides = dict[str, list[dict[str, Any]]]
RATIOS = ("alpaca_eval/ours", "alpaca_eval_64/ours")


def write_answers(folder: Path, pairs: int) -> str:
    """Write both systems' answers; returns their source: AlpacaEval's, or those of other rows, one beside the next."""
    files = {CANDIDATE: "alpaca-7b.model_outputs.json", BASELINE: "reference_text_davinci_003.json"}
    places = {name: SHARED / "alpaca_eval" / file for name, file in files.items()}
    if all(path.is_file() for path in places.values()):
        sides, source = (
            {name: json.loads(path.read_text("utf-8")) for name, path in places.items()},
            "AlpacaEval's answers",
        )
    else:
        rows, source = real_rows()
        sides = {
            name: [
                {
                    "dataset": "none",
                    "instruction": f"{k}: {rows[k % len(rows)]['instruction']}",
                    "output": other["output"],
                }
                for k in range(pairs)
                for other in [rows[(k + shift) % len(rows)]]
            ]
            for shift, name in enumerate(files)
        }
    for name, side in sides.items():
        kept = [{key: row[key] for key in ("dataset", "instruction", "output")} for row in side[:pairs]]
        (folder / f"{name}.json").write_text(json.dumps([{**row, "generator": name} for row in kept]), encoding="utf-8")
    return source


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


def in_a_process(name: str, folder: Path, server: Server, found: list[dict[str, float]]) -> Callable[[], None]:
    """A function that runs a contender once in a fresh process and records its times."""
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    environment.pop("OPENAI_MAX_CONCURRENCY", None)
    if name == "alpaca_eval_64":
        environment["OPENAI_MAX_CONCURRENCY"] = str(AT_ONCE)

    def run() -> None:
        before = len(server.requests())
        times = fresh("judge_speed", name, folder, server.url, environment=environment)
        asked = [request for request in server.requests()[before:] if WARM_UP not in json.dumps(request["body"])]
        assert len({json.dumps(request["body"]) for request in asked}) == len(asked)  # nothing was asked twice
        found.append({**times, "requests": len(asked), "at_once": max(request["at_once"] for request in asked)})

    return run


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
    with tempfile.TemporaryDirectory() as temporary, Server(Path(temporary), LATENCY) as server:
        folder = Path(temporary)
        source = write_answers(folder, arguments.pairs)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
        alternate({name: in_a_process(name, folder, server, found[name]) for name in CONTENDERS}, arguments.rounds)
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
        print(
            "{contender:15} {requests} requests, {seconds} s, {cpu_ms_a_request} ms of CPU a request".format(**rows[-1])
        )
    summary = {
        **ratios(seconds, RATIOS),
        "cpu_ms_a_verdict": next(row["cpu_ms_a_request"] for row in rows if row["contender"] == "ours"),
    }
    print(f"cpu_ms_a_verdict: {summary['cpu_ms_a_verdict']}")
    if not arguments.no_write:
        about = {"pairs": arguments.pairs, "answers": source, "at_once": AT_ONCE, "latency_seconds": LATENCY}
        write_results("judge-speed", rows, rounds=arguments.rounds, **about, summary=summary)


if __name__ == "__main__":
    main()
