"""How far predictions are from hardware: tables of measured times, predictions of them, and scores.

``tables`` and ``nccl_tests`` read measurements; whatever is measured is one of ``points``, each kind of which has a
module that predicts it, and ``prediction`` puts it together.
"""
