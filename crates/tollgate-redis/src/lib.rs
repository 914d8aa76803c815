//! Counters in Redis or Valkey, shared by any number of processes.
