use super::*;

fn raws(command: &str) -> Vec<String> {
    let script = parse(command);
    assert_eq!(script.opaque, None, "{command}");
    script.parts.iter().map(Part::raw).collect()
}

fn words(command: &str) -> Vec<Word> {
    parse(command).parts.remove(0).words
}

#[test]
fn parts_and_words() {
    assert_eq!(raws("a && b|c ; d & e |& f || g"), ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(raws("git   log\t-1\nls"), ["git log -1", "ls"]);
    assert_eq!(raws("echo 'a; b' \"c | d\" e\\;f"), ["echo 'a; b' \"c | d\" e\\;f"]);
    let text = |word: &Word| word.text();
    assert_eq!(
        words("echo 'a; b'\"c\"\\ d").iter().map(text).collect::<Vec<_>>(),
        ["echo", "a; bc d"]
    );
    assert_eq!(raws("echo $HOME ${HOME} $1 $?"), ["echo $HOME ${HOME} $1 $?"]);
    assert_eq!(raws("# why\nls # all\n# done"), ["ls"]);
    assert_eq!(raws("ls \\\n  -la"), ["ls -la"]);
    assert_eq!(raws("! time -p ls"), ["ls"]);
    assert_eq!(raws("echo a#b '#c'"), ["echo a#b '#c'"]);
    assert_eq!(words("x '' \"\" ''y").len(), 4);
    let piped: Vec<bool> =
        parse("a | b || c |& d |\n e; f").parts.iter().map(|part| part.is_piped).collect();
    assert_eq!(piped, [false, true, false, true, true, false]);
}

#[test]
fn redirections_are_no_words() {
    use Flow::{Copy, Read, ReadWrite, Text, Write};
    for (command, words, flows) in [
        ("a > f", "a", vec![(Write, "f")]),
        ("a 2>>f b", "a b", vec![(Write, "f")]),
        ("a &>f", "a", vec![(Write, "f")]),
        ("a >&f", "a", vec![(Write, "f")]),
        ("a >&2f", "a", vec![(Write, "2f")]),
        ("a >|f", "a", vec![(Write, "f")]),
        ("a <f", "a", vec![(Read, "f")]),
        ("a <>f", "a", vec![(ReadWrite, "f")]),
        ("a 2>&1 b", "a b", vec![(Copy, "1")]),
        ("a >&- b", "a b", vec![(Copy, "-")]),
        ("a >& 0", "a", vec![(Copy, "0")]),
        ("a 2>/dev/null", "a", vec![(Write, "/dev/null")]),
        ("a1>f", "a1", vec![(Write, "f")]),
        ("a <<<'x y'", "a", vec![(Text, "x y")]),
        ("a <<'E' >f\nx $(y)\nE", "a", vec![(Text, "x $(y)\n"), (Write, "f")]),
        ("a <<E\nx\nE\n", "a", vec![(Text, "x\n")]),
        ("a <<-\"E\"\n\tx\n\tE", "a", vec![(Text, "x\n")]),
        ("a <<'E'\nE", "a", vec![(Text, "")]),
    ] {
        let script = parse(command);
        assert_eq!(script.opaque, None, "{command}");
        assert_eq!(script.parts.len(), 1, "{command}");
        assert_eq!(script.parts[0].raw(), words, "{command}");
        let found: Vec<_> = script.parts[0]
            .redirects
            .iter()
            .map(|redirect| (redirect.flow, redirect.target.text()))
            .collect();
        let expected: Vec<_> =
            flows.iter().map(|(flow, text)| (*flow, (*text).to_owned())).collect();
        assert_eq!(found, expected, "{command}");
    }
}

#[test]
fn several_here_documents_keep_their_order() {
    let script = parse("a <<'X' | b <<'Y'\n1\nX\n2\nY\nc");
    assert_eq!(script.opaque, None);
    let texts: Vec<_> = script
        .parts
        .iter()
        .flat_map(|part| &part.redirects)
        .map(|redirect| redirect.target.text())
        .collect();
    assert_eq!(texts, ["1\n", "2\n"]);
    assert_eq!(script.parts[2].raw(), "c");
}

/// fP17: a message is as good as its text.
#[test]
fn fp17_a_message_in_a_here_document_is_a_text() {
    let command = "git commit -m \"$(cat <<'EOF'\nIt's (done) $(rm x)\nEOF\n)\"";
    let script = parse(command);
    assert_eq!(script.opaque, None);
    assert_eq!(script.parts[0].words[3].text(), "It's (done) $(rm x)");
    for command in [
        "git commit -m \"$(cat <<EOF\n$(rm x)\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'; rm x\nEOF\n)\"",
        "git commit -m \"$(cat f <<'EOF'\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF' >f\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF)\"",
        "git commit -m $(cat <<'EOF'\nx --amend\nEOF\n)",
        "git commit -m \"$(PATH=. cat <<'EOF'\nx\nEOF\n)\"",
    ] {
        assert!(parse(command).opaque.is_some(), "{command}");
    }
}

#[test]
fn what_is_not_understood_is_opaque() {
    for command in [
        "echo $(id)",
        "echo \"$(id)\"",
        "echo `id`",
        "echo \"`id`\"",
        "cat <(id)",
        "cat >(id)",
        "cat <<EOF\n$(id)\nEOF",
        "cat <<EOF\nx",
        "cat <<EOF",
        "cat <<$x\n$x",
        "(id)",
        "f() { id; }",
        "{ id; }",
        "if id; then id; fi",
        "for i in 1; do id; done",
        "! { id; }",
        "time { id; }",
        "echo 'x",
        "echo \"x",
        "echo x\\",
        "echo x\\\ny",
        "echo >\\\ny",
        "echo \"x\\\ny\"",
        "echo $\\\nHOME",
        "echo $\"x\"",
        "echo $'\\x00'",
        "echo $'\\cx'",
        "echo ${x@P}",
        "echo ${x:-$(id)}",
        "echo ${!x}",
        "echo $[1]",
        "echo $((1))",
        "a=(1 2)",
        "((x=1))",
        "coproc id",
        "echo !(x)",
        "echo \u{1}x",
        "ls\r",
        "ls\u{a0}x",
        "[[ -v x ]]",
        "a >",
        "a > > b",
        "a <&f",
        "case x in x) id;; esac",
    ] {
        assert!(parse(command).opaque.is_some(), "{command:?}");
    }
}

#[test]
fn what_is_expanded_is_noticed() {
    let literal =
        |command: &str| -> Vec<bool> { words(command).iter().map(Word::is_literal).collect() };
    assert_eq!(
        literal("a* -[d]x 'a*' \"b?\" c\\* {a,b} x{1,2}"),
        [false, false, true, true, true, false, false]
    );
    assert_eq!(
        literal("a $a '$a' \"$a\" ~/a 'a'b $? $$x $!"),
        [true, false, true, false, false, true, true, true, false]
    );
    assert_eq!(
        literal("a~ ~me ~'x' a=~/x b:~ \\~ '~'"),
        [true, false, false, false, false, true, true]
    );
    assert_eq!(words("$'r\\x6d\\t\\''x")[0].text(), "rm\t'x");
}

#[test]
fn nested_scripts_are_read_too() {
    for command in [
        "echo $(rm x)",
        "echo \"a$(rm x)b\"",
        "echo `rm x`",
        "echo \"`rm x`\"",
        "cat <(rm x) y",
        "cat <<EOF\n$(rm x)\nEOF",
        "echo ${x:-$(rm x)}",
        "echo $(echo $(rm x))",
        "echo $((1 + $(rm x)))",
        "a=$(rm x) b",
        "(rm x)",
        "f() { rm x; }",
    ] {
        let script = parse(command);
        let found = script.all_parts().iter().any(|part| {
            let words: Vec<String> = part.words.iter().map(Word::text).collect();
            words.ends_with(&["rm".to_owned(), "x".to_owned()])
        });
        assert!(found, "{command}: {script:?}");
    }
}

#[test]
fn depth_is_bounded() {
    for text in ["$(", "`", "(", "<(", "${x:-", "\"$("] {
        assert!(parse(&text.repeat(20_000)).opaque.is_some());
    }
}

#[test]
fn assignments() {
    for (word, expected) in [
        ("A=b", Some("A")),
        ("_a1+=", Some("_a1")),
        ("a[1]=x", Some("a")),
        ("=x", None),
        ("1a=x", None),
        ("a-b=c", None),
        ("'A'=b", None),
    ] {
        assert_eq!(assigned_name(word), expected, "{word}");
    }
    let part = parse("A=1 B='x y' make C=2").parts.remove(0);
    assert_eq!((part.assignments.len(), part.raw().as_str()), (2, "make C=2"));
    assert_eq!(part.raw_with_assignments(), "A=1 B='x y' make C=2");
}
