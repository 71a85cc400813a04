"""What test suites of libraries take from PyTorch's own: test cases, parameters, skips, dtypes, devices."""
