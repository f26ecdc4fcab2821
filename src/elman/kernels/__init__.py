"""(x_t, state) → state over all of time, faster: the fast twins, and the choice among them."""
