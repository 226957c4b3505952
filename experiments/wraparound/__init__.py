"""What the paper's multiplication does to padded numbers, and what the exact ring does (paper IV-A).

The paper's "Retrieval" proposition says that c x = c (x + r) - c r + O(2^-f), where a product is
floor(a b 2^-f) mapped onto Z_<k>. Let x + r leave Z_<k>: what is stored is x + r -+ 2^k, its product with c is off by
-+c 2^(k-f), and that is no multiple of 2^k, so neither the map nor the subtraction of c r removes it. The chance is
|x| / 2^(k-f) for a number. A Gram matrix of d = 2000 features has four million of them, and each wrong one spoils a
whole row of X'X e, in every epoch. This script counts them:

1. one device: its padded Gram matrix X'X + Xi (eq. 7) under many pads, and its product with e under the worst one;
2. coded answers: some devices add alpha padded matrices each, with the coefficients of the random real code (eq. 9),
   and multiply by e; the server subtracts the same done to the keys. That order favours the paper: b (Xi e) is not
   (b Xi) e in this arithmetic, and a server that took them for equal (step (b) of IV-C) would retrieve nothing;
3. the total that the server decodes (eq. 11), for each choice of D - alpha + 1 of those answers;
4. cases 1 and 3 on the exact ring (``codedfl.exact.ring``), against int64 arithmetic that knows neither ring nor pads.

A row counts as spoilt when its error exceeds what truncation and the rounded code can explain: a proven bound, see
``PaperAnswer.tolerance`` and ``decode_paper``. The constant part C_i (eq. 8) is left out: it has d c numbers, not d^2.

    python -m experiments.wraparound --out results/wraparound
"""
