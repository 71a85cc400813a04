"""Values without behaviour: dtypes, devices, schemas, geometries, declarations of ops."""
