"""What is shown to people: tables, pictures, progress; shared by the command, the claims and the benchmarks."""
