"""model + batch → gates, gradients: what a recurrent model does at each step, and why.

Nothing here changes a model, its mode or a random stream: steps are run again by the readable
equations of the cells, which the fast kernels are held to.
"""
