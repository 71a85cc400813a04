"""``python -m ftorch.utils.bottleneck script.py``."""

from . import main

if __name__ == "__main__":
    main()
