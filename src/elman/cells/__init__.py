"""(x_t, state) → state: one step of recurrence; the equations live here, one cell a file."""
