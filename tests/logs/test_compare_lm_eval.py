"""`instruct compare` on logs that lm-evaluation-harness writes here: means, differences, other shots, other limits."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from lm_eval_runs import SUBJECTS, evaluate, write_tasks
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from instruct import compare_logs
from instruct.base.errors import InputError

DATA = os.environ.get("INSTRUCT_SHARED_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="INSTRUCT_SHARED_DATA does not name the published data sets"),
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory, tiny_model_folder):
    """Folders of logs: of a model, of the same with other weights, with other demonstrations, and of fewer rows."""
    pytest.importorskip("lm_eval")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("lm_eval")
    write_tasks(folder, Path(DATA or ""))
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
    for weight in model.parameters():
        weight.data = torch.randn_like(weight) * 0.05
    model.save_pretrained(folder / "tuned")
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(folder / "tuned")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_DATASETS_CACHE", str(folder / "cache"))
        found = {}
        for name, model_folder, options in (
            ("base", tiny_model_folder, {}),
            ("tuned", folder / "tuned", {}),
            ("shots", folder / "tuned", {"num_fewshot": 2}),
            ("fewer", folder / "tuned", {"limit": 4}),
        ):
            evaluate(["mmlu_all", "gsm8k_some"], folder, str(model_folder), folder / name, **options)
            found[name] = folder / name
        return found


def values(compared, system, task, metric="acc"):
    (log,) = [each for each in compared.found if (each.system, each.task) == (system, task)]
    return np.array(log.values[metric])


def test_differences_are_those_of_scipy_and_statsmodels(logs):
    compared = compare_logs({name: logs[name] for name in ("base", "tuned")})
    claims = {(claim.task, claim.measure): claim for claim in compared.claims}
    assert {claim.task for claim in compared.main} == {"mmlu_all", "gsm8k_some"}
    subjects = [f"mmlu_{subject}" for subject in SUBJECTS]
    gains = [values(compared, "tuned", task) - values(compared, "base", task) for task in subjects]
    for task, gain in zip(subjects, gains, strict=True):
        above, below = int((gain > 0).sum()), int((gain < 0).sum())
        claim = claims[task, "acc"]
        assert claim.value == pytest.approx(100 * gain.mean(), abs=1e-9)
        if above + below:
            assert claim.p == pytest.approx(mcnemar([[0, above], [below, 0]], exact=True).pvalue)
    whole = np.concatenate(gains)
    assert claims["mmlu_all", "acc"].value == pytest.approx(100 * whole.mean(), abs=1e-9)
    assert claims["mmlu_two", "acc"].value == pytest.approx(50 * (gains[0].mean() + gains[1].mean()), abs=1e-9)
    permuted = stats.permutation_test((whole,), np.mean, permutation_type="samples", n_resamples=20_000, rng=0)
    assert claims["mmlu_all", "acc"].p == pytest.approx(permuted.pvalue, abs=0.02)


def test_other_demonstrations_are_refused_by_name(logs):
    pair = {name: logs[name] for name in ("base", "shots")}
    with pytest.raises(InputError, match=r"other prompts of the task .* \(shots: 2, not 1\); .*\(allow: shots\)"):
        compare_logs(pair, metrics=["acc"])
    compared = compare_logs(pair, metrics=["acc"], allow=["shots"])
    assert any("the prompts differ (shots: 2, not 1)" in caution.text for caution in compared.cautions)


def test_other_limits_are_compared_on_shared_rows(logs):
    compared = compare_logs({name: logs[name] for name in ("base", "fewer")}, metrics=["acc"])
    by_task = {claim.task: claim.n for claim in compared.claims}
    assert by_task["mmlu_all"] == 12
    lacking = sum(SUBJECTS.values()) - 12
    texts = [caution.text for caution in compared.cautions if "fewer lacks" in caution.text]
    assert len(texts) == len(SUBJECTS)
    assert sum(int(text.partition("fewer lacks ")[2].split()[0]) for text in texts) == lacking
    assert any(setting.setting == "limit" for setting in compared.settings)
