"""One cell: a workload on a fabric, simulated, with all that is kept between simulations."""
