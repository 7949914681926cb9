"""What the `instruct` command takes: its verbs and their flags. It imports nothing that takes time."""

from __future__ import annotations

import argparse

# Here again, since emo_config.py takes TRL's seconds to import; a test holds the two to each other.
OBJECTIVES = ("mle", "emo", "mixce", "tailr", "dft", "goldfish", "ent")
OVERRIDES = "Any key of the config is a flag: --train.learning_rate 1e-4, --data.files my.jsonl, --lora.r 32."


def make_parser() -> argparse.ArgumentParser:
    """The command's parser; `verb` names what was called."""
    parser = argparse.ArgumentParser(
        prog="instruct",
        description="Instruction-tune a model with an objective beyond cross-entropy, and find out if it got better.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=text, allow_abbrev=False)

    for name, text in [
        ("preview", "show what would be trained on: rows, the mask, lengths, memory, one step"),
        ("train", "train every system of a config (or one, by flags alone)"),
    ]:
        sub = verb(name, text)
        sub.epilog = OVERRIDES
        sub.add_argument("config", nargs="?", metavar="CONFIG", help="a YAML file, or the name of a packaged config")
        sub.add_argument("--model", metavar="M", help="the base model: a hub id or a local folder")
        sub.add_argument("--objective", choices=OBJECTIVES, help="train this one objective")
        sub.add_argument("--name", help="the run's name: results go to runs/NAME")
        if name == "preview":
            sub.add_argument("--rows", type=int, default=3, metavar="N", help="how many rows to show (default 3)")

    sub = verb("generate", "answer the evaluation prompts with every system of a run")
    sub.epilog = OVERRIDES
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with trained systems)")

    sub = verb("judge", "let a judge compare answers, and write the report")
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with answers)")
    sub.add_argument("--judge", required=True, action="append", metavar="J", help="a judge; may be repeated (a panel)")
    sub.add_argument("--candidate", metavar="A", help="a system of the run, or a model_outputs.json")
    sub.add_argument("--baseline", metavar="B", help="a system of the run, `baseline`, or a model_outputs.json")
    sub.add_argument("--orders", choices=["both", "one"], help="how often a pair is shown (default: the card's)")
    sub.add_argument("--replay", metavar="FILE", help="take the replies from an export as JSON lines; ask nobody")
    sub.add_argument("--reparse", action="store_true", help="read the verdicts again from stored replies; ask nothing")
    _add_asking_flags(sub)
    _length_control_flags(sub)

    sub = verb("validate", "hold a judge against human labels")
    sub.add_argument("--judge", required=True, metavar="J", help="a judge: see `instruct list judges`")
    sub.add_argument("--against", required=True, metavar="SET", help="pandalm, autoj, or a file of labelled pairs")
    sub.add_argument("--replay", metavar="FILE", help="score these verdicts and ask nothing")
    sub.add_argument("--replay-swapped", metavar="FILE", help="the same with the second answer shown first")
    sub.add_argument("--limit", type=int, metavar="N", help="the first N pairs only, to try it out")
    sub.add_argument("--output", metavar="DIR", help="where the files go (default: runs/validate-JUDGE-SET)")
    sub.add_argument("--write-card", action="store_true", help="put the figures into the judge's card")
    _add_asking_flags(sub)

    sub = verb("report", "write the report of a run again, or that of verdicts from elsewhere")
    sub.epilog = (
        "Beside report.md, in the run's report/exports, stand the same figures for others to read: figures.csv, "
        "tables.tex (LaTeX), leaderboard-*.csv (AlpacaEval's) and model-card-*.md (the Hub's)."
    )
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with verdicts)")
    sub.add_argument("--annotations", metavar="FILE", help="verdicts from elsewhere: AlpacaEval's annotations.json")
    sub.add_argument("--output", metavar="DIR", help="with --annotations: the run directory to make")
    sub.add_argument("--outputs", metavar="FILE", help="the candidate's answers, where the annotations have none")
    sub.add_argument("--reference", metavar="FILE", help="the baseline's answers, where the annotations have none")
    _length_control_flags(sub)
    sub.add_argument("--fail-under", type=float, metavar="X", help="exit 4 where a leading figure is below X percent")
    sub.add_argument(
        "--metric",
        choices=["win_rate", "win_rate_low"],
        help="of --fail-under: the win rate (default), or its interval's lower end",
    )
    sub.add_argument("--judge", metavar="J", help="of --fail-under: this judge alone (default: every one)")
    sub.add_argument("--candidate", metavar="A", help="of --fail-under: this system alone (default: every one)")

    sub = verb("compare", "the same judges' figures of several runs side by side, and how far they compare")
    sub.add_argument("runs", nargs="+", metavar="RUN", help="run directories; the others are held against the first")
    sub.add_argument("--output", action="append", metavar="FILE", help="FILE.md or FILE.csv to write; may be repeated")

    sub = verb("export", "write a judge's verdicts as AlpacaEval's annotations.json, or as JSON lines")
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with verdicts)")
    sub.add_argument("--judge", required=True, metavar="J", help="whose verdicts, by the judge's name in the report")
    sub.add_argument("--format", choices=["annotations", "jsonl"], default="annotations", help="default: annotations")
    sub.add_argument("--output", required=True, metavar="FILE", help="the file to write")
    sub.add_argument("--candidate", metavar="A", help="which comparison, where the judge made several")
    sub.add_argument("--baseline", metavar="B", help="which comparison, where the judge made several")

    sub = verb("import", "read verdicts from elsewhere into a run directory, to report on them")
    sub.add_argument("file", metavar="FILE", help="AlpacaEval's annotations.json, or the JSON lines of `export`")
    sub.add_argument("--output", required=True, metavar="RUN", help="the run directory, made if need be")
    sub.add_argument("--outputs", metavar="FILE", help="the candidate's answers, where the annotations have none")
    sub.add_argument("--reference", metavar="FILE", help="the baseline's answers, where the annotations have none")
    for flag, field in [("judge", "annotator"), ("candidate", "generator_2"), ("baseline", "generator_1")]:
        sub.add_argument(f"--{flag}", metavar="NAME", help=f"the name to give the {flag} (default: the file's {field})")

    sub = verb("merge", "fold a run's adapters into their base model")
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with adapters)")
    sub.add_argument("--system", metavar="NAME", help="one system only")

    sub = verb("list", "list data sets, judges or runs, and where each was found")
    sub.add_argument("what", choices=["data", "judges", "runs"])

    verb("doctor", "check the installation: packages, GPU, memory, disk, network, keys")
    return parser


def _add_asking_flags(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--judge-model", metavar="M", help="ask another model with the judge's prompt, under its own name")
    sub.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server (key: OPENAI_API_KEY)")
    sub.add_argument(
        "--engine", choices=["vllm", "transformers", "server"], help="who is asked (default: what is here)"
    )
    sub.add_argument(
        "--concurrency", type=int, default=64, metavar="N", help="requests at once to a server (default 64)"
    )
    sub.add_argument("--trim", action="store_true", help="cut answers that do not fit the judge's context, both alike")
    sub.add_argument("--budget-usd", type=float, metavar="X", help="what the run may cost; beyond it nothing is sent")
    sub.add_argument("--yes", action="store_true", help="ask a judge that costs money without a budget")
    sub.add_argument("--retry-failed", action="store_true", help="ask again what failed")


def _length_control_flags(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--instruction-difficulty", metavar="FILE", help="AlpacaEval's difficulties, for its length-controlled rate"
    )
    sub.add_argument(
        "--difficulty-prompts", metavar="FILE", help="the prompts in that file's order, where it has only their places"
    )
