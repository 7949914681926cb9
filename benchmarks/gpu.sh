#!/usr/bin/env bash
# Every GPU figure of docs/performance.md, in under ten minutes on one GPU of 80 GB. From the repository's root:
#
#   bash benchmarks/gpu.sh
#
# Needs torch, triton, transformers, datasets, peft, trl and accelerate as pinned in requirements/gpu.txt, and the peers
# liger-kernel==0.8.5, cut-cross-entropy and EMOLoss==0.0.3 (pure Python wheels: `pip install --no-deps`).
# No model, no data set and no network are asked for.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=. PYTHONUNBUFFERED=1
python3 -m pytest -q tests/objectives/triton_kernel_checks.py tests/objectives/test_linear.py
python3 -m benchmarks.objective_speed --device cuda --rounds 5
python3 -m benchmarks.memory --device cuda
python3 -m benchmarks.step_speed --device cuda --rounds 5
