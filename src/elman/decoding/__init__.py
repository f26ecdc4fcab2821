"""logits → ids → text: filters, one draw, a generation that is a value, and text as it grows."""
