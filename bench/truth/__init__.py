"""What `otel_itl` says of a stream beside what its server did, and beside what others say."""
