"""The commands ``fredfw trace``: what execution traces hold, and statistical twins of them."""

fredfw_contract = 2
