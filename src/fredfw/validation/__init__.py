"""How far predictions are from hardware: tables of measured times, predictions of them, and scores.

``tables`` and ``nccl_tests`` read measurements, ``systems`` says which fabric stands for which machine, ``collectives``
predicts, ``splits`` says what a transport was fitted to, and ``validate`` puts it together. Whatever is measured is a
``Point``; each kind of points has a module that predicts it.
"""
