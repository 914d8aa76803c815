//! A tour: from the first limiter to tests with a clock of one's own.
