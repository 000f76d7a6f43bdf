//! The programs that plainly only read, each with the options that it may have.

/// What a program's words may be besides its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    None,
    /// Files that it reads, or whose names it shows.
    Files,
    /// Files, of which none may be a folder: it would read what lies in it.
    FilesAlone,
    /// Words that are no paths.
    Words,
    /// A pattern, then files.
    PatternAndFiles,
}

/// A program that can neither write nor run anything with the options listed here.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Letters of options without a value.
    pub(super) letters: &'static str,
    /// Letters of options with a value.
    pub(super) valued: &'static str,
    /// Long options without a value.
    pub(super) long: &'static [&'static str],
    /// Long options with `=value`.
    pub(super) long_valued: &'static [&'static str],
    /// Takes `-5` for a count of lines.
    pub(super) counts: bool,
    pub(super) operands: Operands,
}

const fn program(
    name: &'static str,
    letters: &'static str,
    valued: &'static str,
    operands: Operands,
) -> Program {
    Program { name, letters, valued, long: &[], long_valued: &[], counts: false, operands }
}

pub(super) const PROGRAMS: [Program; 28] = [
    Program {
        long: &[
            "--all",
            "--almost-all",
            "--human-readable",
            "--recursive",
            "--reverse",
            "--directory",
        ],
        long_valued: &["--color", "--sort", "--time", "--time-style"],
        ..program("ls", "1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ", "", Operands::Files)
    },
    Program {
        long: &["--number", "--show-all"],
        ..program("cat", "AbeEnstTuv", "", Operands::Files)
    },
    Program {
        counts: true,
        long_valued: &["--lines", "--bytes"],
        ..program("head", "qvz", "nc", Operands::Files)
    },
    Program {
        counts: true,
        long_valued: &["--lines", "--bytes"],
        ..program("tail", "qvz", "nc", Operands::Files)
    },
    Program {
        long: &["--lines", "--words", "--bytes"],
        ..program("wc", "clLmw", "", Operands::Files)
    },
    Program {
        counts: true,
        long: &[
            "--ignore-case",
            "--line-number",
            "--count",
            "--recursive",
            "--invert-match",
            "--word-regexp",
            "--only-matching",
        ],
        long_valued: &[
            "--include",
            "--exclude",
            "--exclude-dir",
            "--color",
            "--max-count",
            "--context",
        ],
        ..program("grep", "EFGivwxclLnHhoqsaIrz", "eABCm", Operands::PatternAndFiles)
    },
    Program {
        long: &[
            "--files",
            "--hidden",
            "--no-ignore",
            "--line-number",
            "--ignore-case",
            "--fixed-strings",
            "--count",
            "--no-heading",
        ],
        long_valued: &["--glob", "--type", "--color", "--max-count", "--context"],
        ..program("rg", "nNilcowvFSsuHI.qU", "egtTABCm", Operands::PatternAndFiles)
    },
    program("stat", "Lft", "c", Operands::Files),
    program("basename", "az", "s", Operands::Words),
    program("dirname", "z", "", Operands::Words),
    program("realpath", "emsz", "", Operands::Files),
    program("readlink", "femnz", "", Operands::Files),
    program("which", "a", "", Operands::Words),
    program("cut", "sz", "bcdf", Operands::Files),
    program("tr", "cCdst", "", Operands::Words),
    program("nl", "", "bnsvw", Operands::Files),
    program("cmp", "bls", "", Operands::Files),
    Program {
        long: &["--brief", "--unified"],
        long_valued: &["--unified", "--color"],
        ..program("diff", "abBcdiNqstuwy", "UC", Operands::FilesAlone)
    },
    Program {
        long: &["--summarize", "--human-readable"],
        long_valued: &["--max-depth"],
        ..program("du", "abchkmsx", "d", Operands::Files)
    },
    program("df", "hkmT", "", Operands::Files),
    program("id", "ugnGr", "", Operands::None),
    program("whoami", "", "", Operands::None),
    program("hostname", "", "", Operands::None),
    program("uname", "asnrvmpio", "", Operands::None),
    program("sha256sum", "bt", "", Operands::Files),
    program("md5sum", "bt", "", Operands::Files),
    Program {
        long: &["--reverse", "--unique", "--numeric-sort", "--human-numeric-sort"],
        long_valued: &["--key"],
        ..program("sort", "bdfghiMnrVcCsuz", "kt", Operands::Files)
    },
    // No operand: the second one would be written.
    program("uniq", "cdDuiz", "fsw", Operands::None),
];

impl Program {
    /// The operands, if every option is listed.
    pub(super) fn operands(&self, arguments: &[String]) -> Option<Vec<String>> {
        let mut operands = Vec::new();
        let mut words = arguments.iter();
        let mut has_pattern = arguments.iter().any(|word| word == "--files");
        while let Some(word) = words.next() {
            if word == "--" {
                operands.extend(words.by_ref().cloned());
            } else if word.starts_with("--") {
                let (name, value) = word.split_once('=').unzip();
                match name {
                    None if self.long.contains(&word.as_str()) => {}
                    Some(name) if value.is_some() && self.long_valued.contains(&name) => {}
                    Some(_) | None => return None,
                }
            } else if let Some(letters) =
                word.strip_prefix('-').filter(|letters| !letters.is_empty())
            {
                if self.counts && letters.bytes().all(|byte| byte.is_ascii_digit()) {
                    continue;
                }
                if !self.lists(letters) {
                    return None;
                }
                let valued = letters.find(|letter| self.valued.contains(letter));
                let value = valued.and_then(|at| letters.get(at..)).unwrap_or_default();
                has_pattern |= value.starts_with('e');
                if value.len() == 1 {
                    // Its value is the next word.
                    words.next()?;
                }
            } else {
                operands.push(word.clone());
            }
        }
        match self.operands {
            Operands::None if !operands.is_empty() => return None,
            Operands::Words => operands.clear(),
            Operands::PatternAndFiles if !has_pattern && !operands.is_empty() => {
                operands.remove(0);
            }
            Operands::None | Operands::Files | Operands::FilesAlone | Operands::PatternAndFiles => {
            }
        }
        Some(operands)
    }

    /// Whether these letters are listed, up to one that takes a value.
    fn lists(&self, letters: &str) -> bool {
        let ends = |letter: char| self.valued.contains(letter);
        let alone = letters.find(ends).map_or(letters, |at| letters.get(..at).unwrap_or_default());
        alone.chars().all(|letter| self.letters.contains(letter))
    }
}
