"""The command ``fredfw comet``: splits of a model on clusters, with and without expanded memory."""

fredfw_contract = 2
