"""Elman: recurrent sequence models on your own text, exact, fast, safe and open to the eye.

text → ids → batches → states → logits → loss | decoding.
"""

__version__ = "0.1.0"
