"""Faults that would make a user publish a wrong sentence, train or answer with something else, lose work or leak a key.

Each is one replacement in one file, with the test of `make test` that must catch it. Where the code has changed, write
the fault anew; where the test has gone, name another one.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """What is wrong, in plain words; where; the text that is right, once in that file, and the wrong one; the test."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


FAULTS = [
    # What is trained.
    Fault(
        "the cost's gradient has another sign",
        "instruct/objectives/torch_kernels.py",
        "at_target -= b * statistics.q_target * statistics.cost",
        "at_target += b * statistics.q_target * statistics.cost",
        "tests/objectives/test_family.py::test_every_member_equals_the_dense_reference",
    ),
    Fault(
        "a block takes the costs of another",
        "instruct/objectives/torch_kernels.py",
        "row_of[block], out=",
        "row_of[: len(product[block])], out=",
        "tests/objectives/test_linear.py::test_a_label_may_end_anywhere_in_a_chunk_and_a_block",
    ),
    Fault(
        "all chunks but the first are dropped",
        "instruct/objectives/linear.py",
        "for chunk in group.chunks:\n                own",
        "for chunk in group.chunks[:1]:\n                own",
        "tests/objectives/test_linear.py::test_a_label_may_end_anywhere_in_a_chunk_and_a_block",
    ),
    Fault(
        "EMO's variants are exchanged",
        "instruct/objectives/built_in.py",
        'if self.variant == "official" else token.cost',
        'if self.variant == "paper" else token.cost',
        "tests/objectives/test_family.py::test_every_member_equals_the_dense_reference",
    ),
    Fault(
        "the loss mask is off by one",
        "instruct/training/head.py",
        "functional.pad(own_labels[:, 1:], (0, 1), value=-100)",
        "functional.pad(own_labels[:, :-1], (0, 1), value=-100)",
        "tests/training/test_like_trl.py::test_arguments_train_like_trl[max_length]",
    ),
    Fault(
        "token weights are off by one",
        "instruct/training/head.py",
        "functional.pad(weights[:, 1:], (0, 1), value=1).flatten()",
        "weights.flatten()",
        "tests/training/test_token_weights.py::"
        "test_the_loss_is_the_weighted_mean_however_rows_are_batched[mle-one batch-0.3]",
    ),
    Fault(
        "prompts are trained",
        "instruct/data/tokens.py",
        "if number % 2 else (self._context, False)",
        "if number % 2 else (1.0, False)",
        "tests/data/test_data_template_grid.py::test_each_answer_is_trained_after_the_prompt_of_a_server[qwen3]",
    ),
    Fault(
        "a plain answer's end token is not trained",
        "instruct/data/tokens.py",
        "[*answer, self.tokenizer.eos_token_id]]",
        "answer]",
        "tests/data/test_data_tokens.py::test_a_plain_prompt_gets_the_start_token_but_no_end_token",
    ),
    Fault(
        "a chat's end token is not trained",
        "instruct/data/masks.py",
        "return rest.removesuffix(end.after) + end.learned",
        "return rest.removesuffix(end.after)",
        "tests/data/test_data_chats.py::test_every_answer_with_its_end_token_is_trained_on_and_nothing_else",
    ),
    Fault(
        "the tokenizer adds special tokens to the template's",
        "instruct/data/masks.py",
        'tokenizer(list(texts), add_special_tokens=False)["input_ids"]',
        'tokenizer(list(texts))["input_ids"]',
        "tests/data/test_data_tokens.py::test_a_plain_prompt_gets_the_start_token_but_no_end_token",
    ),
    Fault(
        "a row's weight is ignored",
        "instruct/data/tokens.py",
        '(1.0 if self.prompt_weight is None else row.get("weight", 1.0))',
        "1.0",
        "tests/data/test_data_weights.py::test_every_format_takes_a_weight",
    ),
    Fault(
        "a turn's weight is ignored",
        "instruct/data/masks.py",
        "weights[index] = weight, True",
        "weights[index] = 1.0, True",
        "tests/data/test_data_weights.py::test_prompts_of_completions_are_weighed_and_their_own_answers_as_context",
    ),
    Fault(
        "bad rows are dropped in silence",
        "instruct/data/bad_rows.py",
        'if self.choice == "stop" or (self.choice is None and self.malformed):',
        "if False:",
        "tests/data/test_data_bad_rows.py::test_malformed_rows_stop_together_or_are_left_out",
    ),
    Fault(
        "packed rows may see each other",
        "instruct/training/checks.py",
        "if moved <= 4 * torch.finfo(narrow or model.dtype).eps * largest:",
        "if moved <= largest:",
        "tests/training/test_checks.py::test_packing_is_refused_where_a_row_sees_the_one_before_it[bloom]",
    ),
    Fault(
        "micro-batches are averaged, not their tokens",
        "instruct/training/emo_trainer.py",
        "self.model_accepts_loss_kwargs = True",
        "self.model_accepts_loss_kwargs = False",
        "tests/training/test_numbers.py::test_a_step_does_not_depend_on_its_micro_batches_if_the_model_takes_no_loss_arguments",
    ),
    Fault(
        "the tokens of other processes are not counted",
        "instruct/training/emo_trainer.py",
        "total = self.accelerator.gather(total).sum()",
        "self.accelerator.gather(total)",
        "tests/training/test_batches.py::test_the_loss_is_divided_by_the_tokens_of_all_processes",
    ),
    Fault(
        "every epoch has the same order",
        "instruct/training/batches.py",
        "manual_seed(self._seed + self._epoch)",
        "manual_seed(self._seed)",
        "tests/training/test_batches.py::test_each_epoch_has_an_order_of_its_own_which_a_resumed_training_repeats",
    ),
    # What answers.
    Fault(
        'the canary always says "checked"',
        "instruct/generation/replies.py",
        "    if plan.kept.engine == version and plan.kept.work.weights:",
        '    return "checked"\n    if plan.kept.engine == version and plan.kept.work.weights:',
        "tests/training/test_canary.py::test_weights_that_are_not_those_of_training_do_not_answer",
    ),
    Fault(
        "another system's adapter is merged",
        "instruct/training/merge.py",
        "adapter = run.adapters / name\n",
        "adapter = run.adapters / next(iter(config.trained))\n",
        "tests/training/test_train.py::test_each_systems_own_adapter_is_merged",
    ),
    Fault(
        "the base answers for its adapter",
        "instruct/engines/transformers.py",
        "if adapter is not None:\n            self._switch_on(str(adapter))",
        "if adapter is not None:\n            adapter = None",
        "tests/engines/test_transformers_adapters.py::test_adapters_share_one_base_and_leave_it_unchanged",
    ),
    Fault(
        "the first adapter answers for all",
        "instruct/engines/transformers.py",
        "self._peft.set_adapter(self._adapters[adapter])",
        'self._peft.set_adapter("adapter0")',
        "tests/engines/test_transformers_adapters.py::test_adapters_share_one_base_and_leave_it_unchanged",
    ),
    Fault(
        "padding is attended to",
        "instruct/engines/transformers.py",
        "[[0] * pad + [1] * (longest - pad) for pad in pads]",
        "[[1] * longest for pad in pads]",
        "tests/engines/test_transformers_adapters.py::test_adapters_share_one_base_and_leave_it_unchanged",
    ),
    Fault(
        "answers that are decoded otherwise are not made again",
        "instruct/generation/replies.py",
        "[*identities, work.identities, *work.identity, decoding]",
        "[*identities, work.identities, *work.identity]",
        "tests/generation/test_answers.py::test_a_change_that_affects_answers_starts_from_scratch",
    ),
    # What a stranger's files may do, and what leaves this machine.
    Fault(
        "code beside a model's weights is run",
        "instruct/base/networks.py",
        "model, revision=revision, trust_remote_code=trust_remote_code\n    )\n    network,",
        "model, revision=revision, trust_remote_code=True\n    )\n    network,",
        "tests/base/test_networks.py::test_code_beside_the_weights_is_not_run",
    ),
    Fault(
        "a pickle is read that nobody allowed",
        "instruct/engines/weights.py",
        "    if not options.allow_pickle:",
        "    if False:",
        "tests/engines/test_transformers.py::test_a_pickle_is_refused_unless_the_card_allows_it",
    ),
    Fault(
        "a key is printed",
        "instruct/engines/server_replies.py",
        'return re.sub(re.escape(api_key()), "(the key)", text, flags=re.IGNORECASE)',
        "return text",
        "tests/engines/test_server.py::test_an_error_of_any_shape_is_shown_without_the_key",
    ),
    Fault(
        "a page's texts are markup",
        "instruct/reporting/render/html.py",
        "autoescape=True",
        "autoescape=False",
        "tests/reporting/test_compare_logs.py::test_a_comparison_is_written_in_every_form_and_escaped",
    ),
    Fault(
        "control characters reach the terminal",
        "instruct/base/errors.py",
        'c if c.isprintable() else " " for c',
        "c for c",
        "tests/reporting/test_report_text.py::test_hostile_names_are_escaped_on_the_terminal",
    ),
    # What a run keeps, asks again and ends with.
    Fault(
        "replies before a stop are lost",
        "instruct/run/replies.py",
        '            self._insert(replies)\n            self._db.execute("UPDATE work',
        '            self._db.execute("UPDATE work',
        "tests/generation/test_server.py::test_a_server_that_breaks_keeps_what_it_replied",
    ),
    Fault(
        "a judge's replies are lost at a kill",
        "instruct/run/replies.py",
        "            self._insert((key, reply) for key, reply, _ in replies)\n",
        "",
        "tests/judging/test_judge.py::test_after_a_kill_only_uncommitted_requests_are_asked",
    ),
    Fault(
        "a resumed reply is asked again",
        "instruct/generation/kept.py",
        "if reply is None or (isinstance(reply, Failure) and not reply.permanent)",
        "if not (isinstance(reply, Failure) and reply.permanent)",
        "tests/generation/test_kept.py::test_replies_in_any_order_are_resumed",
    ),
    Fault(
        "a step is done whatever it was made from",
        "instruct/run/directory.py",
        'and record["status"] == "done" and record["inputs"] == inputs',
        'and record["status"] == "done"',
        "tests/run/test_directory.py::test_a_step_is_done_only_for_its_own_inputs",
    ),
    Fault(
        "a changed option needs no redo",
        "instruct/phases/steps.py",
        "if made_with != options and (record",
        "if made_with is None and (record",
        "tests/phases/test_steps.py::test_every_change_that_is_refused_is_listed",
    ),
    Fault(
        "what is spent does not count",
        "instruct/judging/money.py",
        "        self.spent += usd\n",
        "",
        "tests/judging/test_judge.py::test_nothing_is_sent_past_the_budget_and_a_larger_one_resumes",
    ),
    Fault(
        "what is in flight does not count",
        "instruct/judging/money.py",
        "self.spent + others + attempts * request.usd > self.limit",
        "self.spent + attempts * request.usd > self.limit",
        "tests/judging/test_judge.py::test_nothing_is_sent_past_the_budget_and_a_larger_one_resumes",
    ),
    Fault(
        "a command that failed ends with 0",
        "instruct/base/output.py",
        "return error.exit_code",
        "return 0",
        "tests/command/test_main.py::test_a_wrong_call_is_refused_with_exit_code_2",
    ),
    Fault(
        "the gate is reversed",
        "instruct/reporting/gate.py",
        "if value < fail_under:",
        "if value > fail_under:",
        "tests/reporting/test_gate.py::test_the_exit_code_tells_whether_every_leading_figure_passes",
    ),
    # What a verdict is.
    Fault(
        "a failed reply is a loss",
        "instruct/judging/verdicts.py",
        'return Reading("failed", reason=reply.reason)',
        'return Reading("second")',
        "tests/judging/test_judge.py::test_failures_are_kept_until_retried",
    ),
    Fault(
        "a missing verdict is a tie",
        "instruct/analysis/outcomes.py",
        "POINTS.get(outcome), 1.0",
        "POINTS.get(outcome, 0.5), 1.0",
        "tests/analysis/test_averaged.py::test_a_missing_verdict_is_no_tie",
    ),
    Fault(
        "where the candidate was shown is ignored",
        "instruct/analysis/outcomes.py",
        'return "win" if judgment.verdict == judgment.position else "loss"',
        'return "win" if judgment.verdict == "first" else "loss"',
        "tests/analysis/test_outcomes.py::test_a_judge_that_always_prefers_the_first_position_is_detected",
    ),
    Fault(
        "one order decides",
        "instruct/analysis/outcomes.py",
        'return one if one == other else "tie"',
        "return one",
        "tests/analysis/test_outcomes.py::test_policies_on_every_pair_of_verdicts_equal_a_table_made_by_hand",
    ),
    Fault(
        "AlpacaEval's preference is inverted",
        "instruct/analysis/outcomes.py",
        'return 2.0 - preference if judgment.position == "first" else preference - 1.0',
        'return 2.0 - preference if judgment.position == "second" else preference - 1.0',
        "tests/analysis/test_outcomes.py::test_a_preference_is_converted_to_the_candidates_side",
    ),
    Fault(
        "Auto-J's verdicts are exchanged",
        "instruct/judging/verdicts.py",
        '"response 1": "first", "response 2": "second"',
        '"response 1": "second", "response 2": "first"',
        "tests/judging/test_verdicts.py::test_autoj_verdicts_are_read",
    ),
    Fault(
        "PandaLM's tie is a win",
        "instruct/judging/verdicts.py",
        '"2": "second", "tie": "tie"}',
        '"2": "second", "tie": "first"}',
        "tests/judging/test_verdicts.py::test_pandalm_verdicts_are_read",
    ),
    Fault(
        "a judge is shown one order twice",
        "instruct/judging/presentations.py",
        'in_order = (ours, theirs) if position == "first" else (theirs, ours)',
        "in_order = (ours, theirs)",
        "tests/judging/test_judge.py::test_both_orders_are_asked_once_and_never_again",
    ),
    # What is claimed.
    Fault(
        "the loser wins",
        "instruct/scores/claims.py",
        'return "candidate" if gain > 0 else "baseline"',
        'return "candidate" if gain < 0 else "baseline"',
        "tests/scores/test_claims.py::test_the_test_decides",
    ),
    Fault(
        "the sentence has its sides exchanged",
        "instruct/reporting/text.py",
        "first, second = (theirs, ours) if baseline_first(made) else (ours, theirs)",
        "first, second = (ours, theirs) if baseline_first(made) else (theirs, ours)",
        "tests/test_winner.py::test_clusters_leave_the_winner",
    ),
    Fault(
        "where lower is better, higher wins",
        "instruct/analysis/results.py",
        'return -gain if self.better == "lower" else gain',
        "return gain",
        "tests/reporting/test_compare_logs.py::test_a_metric_that_is_better_lower_is_told_so",
    ),
    Fault(
        "Holm's correction is left out",
        "instruct/scores/claims.py",
        "min(1.0, (len(known) - rank) * p)",
        "min(1.0, p)",
        "tests/scores/test_claims.py::test_undefined_tests_do_not_count",
    ),
    Fault(
        "p is one-sided",
        "instruct/analysis/inference.py",
        "min(1.0, 2 * min(self.tests(self.null, sign)",
        "min(1.0, min(self.tests(self.null, sign)",
        "tests/analysis/test_inference.py::test_wins_ties_and_losses_have_the_exact_sign_test",
    ),
    Fault(
        "a 95 % interval is one of 90 %",
        "instruct/analysis/inference.py",
        "tail = (1 - level) / 2",
        "tail = 1 - level",
        "tests/analysis/test_inference.py::test_values_without_bounds_have_students_interval_and_fewer_than_twenty_none",
    ),
    Fault(
        "trainings are rows",
        "instruct/analysis/inference.py",
        "errors = np.sqrt(pivots + max(of_units - of_rest, 0.0) + fixed)",
        "errors = np.sqrt(0 * pivots + max(of_units - of_rest, 0.0) + fixed)",
        "tests/analysis/test_inference.py::test_the_interval_over_seeds_and_prompts_is_that_of_drawn_pivots",
    ),
    Fault(
        "clusters are ignored",
        "instruct/scores/scores.py",
        "numbered(row if self.clusters[row] is None else self.clusters[row] for row in rows)",
        "numbered(rows)",
        "tests/reporting/test_compare_logs.py::test_right_or_wrong_is_mcnemars_test_also_of_clusters[5]",
    ),
    Fault(
        "bounds leave missing verdicts out",
        "instruct/scores/claims.py",
        "weakest(estimate, [sample.at(0.0), sample.at(1.0)])",
        "weakest(estimate, [])",
        "tests/reporting/test_gate.py::test_pairs_without_a_verdict_count_against_the_worst_case",
    ),
    Fault(
        "a missing value in a log is 0",
        "instruct/scores/scores.py",
        "np.bincount(self.of_row, values) / np.bincount(self.of_row)",
        "np.bincount(self.of_row, np.nan_to_num(values)) / np.bincount(self.of_row)",
        "tests/reporting/test_compare_logs.py::test_missing_values_are_bounded",
    ),
    Fault(
        "logs of other questions are compared",
        "instruct/scores/join.py",
        "if len(different.get(part, ())):",
        "if False:",
        "tests/logs/test_align.py::test_other_rows_under_the_same_ids_are_refused",
    ),
    Fault(
        "lm-eval's filters are exchanged",
        "instruct/logs/lm_eval.py",
        "rows_of[unit] = filters[number], number + 1",
        "rows_of[unit] = filters[-1 - number], number + 1",
        "tests/logs/test_lm_eval.py::test_each_filter_has_its_metrics_also_where_rows_do_not_name_it",
    ),
    Fault(
        "a table's bad rows are dropped in silence",
        "instruct/logs/tables.py",
        'unit = _name(row, columns.unit, "unit")',
        "if not (unit := _word(row, columns.unit)):\n            continue",
        "tests/logs/test_tables.py::test_a_table_that_cannot_be_read_is_refused_with_its_place",
    ),
    Fault(
        "power is planned at 10 %",
        "instruct/reporting/power.py",
        "_LEVEL, _POWER = 0.05, 0.8",
        "_LEVEL, _POWER = 0.1, 0.8",
        "tests/reporting/test_power.py::test_units_are_statsmodels",
    ),
    Fault(
        "people's labels correct the wrong way",
        "instruct/scores/prediction_powered.py",
        "float((labels - weight * judged).mean())",
        "float((labels + weight * judged).mean())",
        "tests/scores/test_prediction_powered.py::test_estimate_equals_ppi_python_and_its_interval_is_wider",
    ),
    Fault(
        "kappa does not correct for chance",
        "instruct/analysis/agreement.py",
        "(observed - expected) / (n * n - expected)",
        "observed / (n * n)",
        "tests/validation/test_agreement.py::test_undefined_figures_are_none",
    ),
    # What is measured of texts.
    Fault(
        "perplexity counts tokens that are not scored",
        "instruct/measuring/predictions.py",
        "tokens[place] += len(values)",
        "tokens[place] += len(row.ids)",
        "tests/measuring/test_predictions.py::test_perplexity_equals_a_token_by_token_reference",
    ),
    Fault(
        "precision and recall of texts are exchanged",
        "instruct/measuring/mauve.py",
        "np.exp(-SCALE * rel_entr(q, r).sum(axis=-1))\n        curve[..., index, 1] = np.exp(-SCALE * rel_entr(p, r)",
        "np.exp(-SCALE * rel_entr(p, r).sum(axis=-1))\n        curve[..., index, 1] = np.exp(-SCALE * rel_entr(q, r)",
        "tests/measuring/test_mauve.py::test_known_histograms_have_the_values_of_mauve_text",
    ),
    Fault(
        "ROUGE is recall alone",
        "instruct/measuring/words.py",
        "return 2 * precision * recall / (precision + recall)",
        "return recall",
        "tests/measuring/test_words.py::test_rouge_of_known_texts",
    ),
]
