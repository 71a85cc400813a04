"""Methods of tensors that are no ops, and what tensors become: arrays, text, pickles."""
