"""Own chats, own prompts, own YAML: preview, run, report and gate."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow

CHATS = [
    {
        "messages": [
            {"role": "user", "content": f"What is {n} plus {n}?"},
            {"role": "assistant", "content": f"It is {2 * n}."},
            {"role": "user", "content": "Are you sure?"},
            {"role": "assistant", "content": "Yes."},
        ]
    }
    for n in range(12)
]
CONFIG = """\
name: mine
model: {{name: {model}, dtype: float32}}
data: {{files: chats.jsonl}}
lora: {{r: 2}}
train: {{max_steps: 2, per_device_train_batch_size: 4, report_to: none}}
systems:
  mle: {{objective: mle}}
  emo: {{objective: emo}}
answers:
  files: customer_questions.txt
  generation: {{engine: transformers, max_new_tokens: 8, temperature: 0.7, seed: 3}}
judges: smollm2_score
comparisons: [emo, mle]
"""


def test_own_chats_from_preview_to_gate(user, says, tiny_model_folder, smollm2):
    user.writes("chats.jsonl", CHATS)
    user.writes("customer_questions.txt", "What is 3 plus 4?\nWho are you?\n\nName a color.\n")
    user.writes("mine.yaml", CONFIG.format(model=tiny_model_folder))

    shown = user.types("preview", "mine.yaml", "--rows", 1)
    says(shown, "12 rows read", "⟦It is 0.<|end|>⟧", "24 answers of chats, each trained on with its end token")

    planned = user.types("run", "mine.yaml", "--dry-run")
    says(planned, "run       runs/mine", "train     mle, emo: ")
    says(
        planned,
        "answer    customer_questions: 3 prompts, at most 8 tokens",
        "judge     smollm2_score",
        "1 comparison\n",
    )
    assert not (user.folder / "runs").exists()

    ran = user.types("run", "mine.yaml")
    says(ran, "smollm2_score: ", "emo", "mle", "page: runs/mine/report/report.html")
    assert re.search(r"too few pairs to compare emo with mle: \d won, \d tied, \d lost \(n = 3", ran)
    assert "starter_eval" not in ran
    again = user.types("run", "mine.yaml")
    assert "%|" not in again  # nothing is trained or answered again

    report = user.reads("runs/mine/report/report.json")
    says(report, "customer_questions (3 prompts), at most 8 tokens, temperature 0.7")
    assert "starter_eval" not in report
    user.reads("runs/mine/report/report.html")
    user.reads("runs/mine/adapters/emo/README.md")

    passed = user.types("report", "runs/mine", "--fail-under", 0, "--allow-weak-judge")
    says(passed, "win_rate is at least 0: smollm2_score on emo against mle")
    failed = user.types("report", "runs/mine", "--fail-under", 100, code=4)
    says(failed, "instruct: below --fail-under 100: smollm2_score on emo against mle: win_rate is ")
    says(user.types("list", "runs"), "runs/mine", "train/mle, train/emo, answers, judge/smollm2_score/emo_vs_mle")
