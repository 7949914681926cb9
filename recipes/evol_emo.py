"""The same experiment on Recycled Evol-Instruct (EMO paper, Appendix C, Table 10), judged by AlpacaEval alone.

    python recipes/evol_emo.py                                     # with a GPU: Llama-2-7B, LoRA; without: the demo
    python recipes/evol_emo.py --config paper/llama2_7b_evol       # as in the paper

Its answers are long, and the authors found that Auto-J and PandaLM cannot tell long answers apart.
"""

from __future__ import annotations

from alpaca_emo import main
from study import run_recipe

if __name__ == "__main__":
    run_recipe(lambda: main("evol_emo", __doc__))
