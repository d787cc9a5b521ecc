"""The command ``fredfw libra``: the bandwidth of each dimension for the least time, or the least time x cost."""

fredfw_contract = 2
