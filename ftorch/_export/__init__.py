"""What libraries use of ``torch._export``: exceptions, and switches of its passes."""
