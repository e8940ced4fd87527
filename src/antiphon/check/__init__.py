"""Is a server right, and safe to use? ``checkup`` tries it, ``rules/*.toml`` say what is wrong and how to mend it."""
