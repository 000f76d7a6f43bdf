//! Markdown as plain text for a terminal, for the part of Markdown that the guide uses: headings,
//! paragraphs, lists, tables, fenced code. Text is wrapped to the terminal's width; code is left as
//! it is.

use crate::terminal::width;

/// Columns that a cell of the left side of a table may take before its row is put on lines of its
/// own.
const LEFT_MAX: usize = 28;

/// Columns of a line below which a table's two sides stand one below the other.
const SIDE_BY_SIDE_MIN: usize = 60;

/// How far code, and what belongs to an entry, is moved in.
const INDENT: usize = 4;

/// The page as plain text, wrapped to `columns`.
pub(crate) fn render(markdown: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            for code in lines.by_ref().take_while(|code| !code.starts_with("```")) {
                push_line(&mut out, &format!("{}{code}", " ".repeat(INDENT)));
            }
        } else if let Some(title) = line.strip_prefix("# ") {
            heading(&mut out, title, "=");
        } else if let Some(title) = line.strip_prefix("## ") {
            heading(&mut out, title, "-");
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
                rows.push(cells(row));
            }
            table(&mut out, &rows, columns);
        } else if line.trim().is_empty() {
            out.push('\n');
        } else {
            let mut text = line.trim().to_owned();
            while let Some(more) = lines.next_if(|more| continues(more)) {
                text.push(' ');
                text.push_str(more.trim());
            }
            paragraph(&mut out, &inline(&text), columns);
        }
    }
    out
}

/// Whether a line belongs to the paragraph or list item above it.
fn continues(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(['#', '|', '`']) && bullet(line).is_none()
        || line.starts_with('`') && !line.starts_with("```")
}

/// Columns of the mark of a list item, as of `- ` or `12. `.
fn bullet(line: &str) -> Option<usize> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let mark = line.get(digits..)?;
    match digits {
        0 => mark.starts_with("- ").then_some(2),
        _ => mark.starts_with(". ").then_some(digits + 2),
    }
}

fn heading(out: &mut String, title: &str, underline: &str) {
    let title = inline(title);
    push_line(out, &title);
    push_line(out, &underline.repeat(width(&title)));
}

fn paragraph(out: &mut String, text: &str, columns: usize) {
    let hanging = bullet(text).unwrap_or(0);
    for (at, line) in wrap(text, columns.saturating_sub(hanging)).iter().enumerate() {
        let indent = if at == 0 { 0 } else { hanging };
        push_line(out, &format!("{}{line}", " ".repeat(indent)));
    }
}

/// The cells of a row, as text. `\|` is a bar inside of a cell.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_matches('|').replace("\\|", "\u{0}");
    row.split('|').map(|cell| inline(&cell.trim().replace('\u{0}', "|"))).collect()
}

/// Two columns stand side by side; more become an entry with a line for each. The first row is the
/// heading.
fn table(out: &mut String, rows: &[Vec<String>], columns: usize) {
    let (Some(heading), Some(body)) = (rows.first(), rows.get(2..)) else { return };
    let widest = body.iter().filter_map(|row| row.first()).map(|cell| width(cell)).max();
    let left = widest.unwrap_or(0).min(LEFT_MAX) + 2;
    let is_pairs = heading.len() == 2 && columns >= SIDE_BY_SIDE_MIN;
    for row in body {
        let Some((first, rest)) = row.split_first() else { continue };
        match rest {
            [second] if is_pairs => pair(out, (first, second), left, columns),
            rest => {
                for line in wrap(first, columns) {
                    push_line(out, &line);
                }
                for (title, cell) in heading.iter().skip(1).zip(rest) {
                    entry(out, title, cell, columns, rest.len() > 1);
                }
            }
        }
    }
}

fn pair(out: &mut String, (first, second): (&str, &str), left: usize, columns: usize) {
    let mut lines = wrap(second, columns.saturating_sub(left));
    if width(first) + 2 > left {
        for line in wrap(first, columns) {
            push_line(out, &line);
        }
    } else {
        let line = if lines.is_empty() { String::new() } else { lines.remove(0) };
        let gap = " ".repeat(left - width(first));
        push_line(out, &format!("{first}{gap}{line}"));
    }
    for line in lines {
        push_line(out, &format!("{}{line}", " ".repeat(left)));
    }
}

/// One cell below the first of its row, after the heading of its column where there are several.
fn entry(out: &mut String, title: &str, cell: &str, columns: usize, is_titled: bool) {
    if cell.is_empty() {
        return;
    }
    let text = match title {
        title if is_titled && !title.is_empty() => format!("{title}: {cell}"),
        _ => cell.to_owned(),
    };
    for line in wrap(&text, columns.saturating_sub(INDENT)) {
        push_line(out, &format!("{}{line}", " ".repeat(INDENT)));
    }
}

/// A text without links and emphasis. What stands between backticks stays as it is.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_code = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((label, after)) = link(rest).filter(|_| !is_code) {
            out.push_str(label);
            rest = after;
            continue;
        }
        is_code ^= c == '`';
        if c != '*' || is_code {
            out.push(c);
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    out
}

/// The label of a link at the beginning of a text, and what follows the link.
fn link(text: &str) -> Option<(&str, &str)> {
    let (label, target) = text.strip_prefix('[')?.split_once("](")?;
    if label.contains(['[', ']', '`']) {
        return None;
    }
    let (_, after) = target.split_once(')')?;
    Some((label, after))
}

/// Lines of at most so many columns; a longer word has a line of its own.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::TOPICS;

    const PAGE: &str = "# A *page*\n\nSome words with `a*b` and [a link](x.md)\nthat go on.\n\n- first of\n  two\n- second\n\n\
                        ```sh\n$ long code line that is left as it is\n```\n\n\
                        | name | means |\n| --- | --- |\n| `a\\|b` | one or the other, said in many words |\n";

    #[test]
    fn a_page_is_wrapped_and_code_is_not() {
        let want = "A page\n======\n\nSome words with\n`a*b` and a link\nthat go on.\n\n- first of two\n- second\n\n\
                    \x20   $ long code line that is left as it is\n\n`a|b`\n    one or the\n    other, said\n    in many\n    words\n";
        assert_eq!(render(PAGE, 16), want);
    }

    #[test]
    fn two_columns_stand_side_by_side_where_there_is_room() {
        let page = "| a | b |\n| --- | --- |\n| x | one |\n| longer | two |\n";
        assert_eq!(render(page, 80), "x       one\nlonger  two\n");
        assert_eq!(render(page, 40), "x\n    one\nlonger\n    two\n");
        let wide = "| a | b | c |\n| --- | --- | --- |\n| x | one |  |\n| y | two | three |\n";
        assert_eq!(render(wide, 80), "x\n    b: one\ny\n    b: two\n    c: three\n");
    }

    #[test]
    fn no_line_of_the_guide_is_wider_than_the_terminal_and_no_word_is_lost() {
        for (topic, columns) in TOPICS.iter().flat_map(|topic| [(topic, 60), (topic, 100)]) {
            let page = render(topic.text, columns);
            for line in page.lines().filter(|line| !line.starts_with("    ")) {
                // A word that has no room beside the left side of a table stands out.
                let last = line.split_whitespace().next_back().map_or(0, width);
                let fits = width(line) <= columns || last + LEFT_MAX + 2 > columns;
                assert!(fits, "{} at {columns}: {line}", topic.name);
            }
            let last = topic.text.split_whitespace().rfind(|word| word.len() > 6);
            let last = inline(last.unwrap().trim_matches('|'));
            assert!(page.contains(&last), "{} at {columns} ends before {last}", topic.name);
        }
    }
}
