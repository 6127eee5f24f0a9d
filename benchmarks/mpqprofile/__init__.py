"""What `ci/profile` counts: instructions of one process under callgrind, by where they are spent."""
