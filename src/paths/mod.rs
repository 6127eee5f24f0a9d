//! Path managers: which paths exist.
