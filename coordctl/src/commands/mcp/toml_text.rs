//! A change to one table of a TOML file. Comments, order and spaces of all else stay (`toml_edit`).

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TomlError {
    #[error("it is not TOML: {0}")]
    NoToml(String),
    #[error("`{0}` in it is not a table")]
    NoTable(String),
}

/// The file's text with the table `container.name` set to these texts, lists and tables of texts,
/// or taken out for none.
pub(super) fn with_entry(
    text: &str,
    container: &str,
    name: &str,
    entry: Option<&Value>,
) -> Result<String, TomlError> {
    let mut document = parse(text)?;
    let Some(entry) = entry else {
        let of = document.get_mut(container).and_then(Item::as_table_like_mut);
        if let Some(of) = of {
            of.remove(name);
        }
        let is_ours = |it: &Item| it.as_table().is_some_and(|it| it.is_implicit() && it.is_empty());
        if document.get(container).is_some_and(is_ours) {
            document.remove(container);
        }
        return Ok(document.to_string());
    };
    let of = document.entry(container).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let no_table = |name: &str| TomlError::NoTable(name.to_owned());
    let of = of.as_table_like_mut().ok_or_else(|| no_table(container))?;
    let table = of.entry(name).or_insert_with(|| Item::Table(Table::new()));
    let table = table.as_table_like_mut().ok_or_else(|| no_table(name))?;
    for (key, given) in entry.as_object().into_iter().flatten() {
        let item = match given {
            Value::String(text) => value(text.as_str()),
            Value::Array(list) => value(list.iter().filter_map(Value::as_str).collect::<Array>()),
            Value::Bool(flag) => value(*flag),
            Value::Object(texts) => {
                let texts = texts.iter().filter_map(|(key, it)| Some((key, it.as_str()?)));
                value(texts.collect::<InlineTable>())
            }
            Value::Null | Value::Number(_) => continue,
        };
        table.insert(key, item);
    }
    Ok(document.to_string())
}

/// The entry as it is, as far as it is texts, lists and tables of texts, and flags.
pub(super) fn entry(text: &str, container: &str, name: &str) -> Result<Option<Value>, TomlError> {
    let document = parse(text)?;
    let of = document.get(container).and_then(Item::as_table_like);
    let Some(found) = of.and_then(|it| it.get(name)).and_then(Item::as_table_like) else {
        return Ok(None);
    };
    let mut entry = serde_json::Map::new();
    for (key, item) in found.iter() {
        let list = |it: &Array| it.iter().filter_map(|it| it.as_str()).map(Value::from).collect();
        let given = item
            .as_str()
            .map(Value::from)
            .or_else(|| item.as_bool().map(Value::from))
            .or_else(|| item.as_array().map(|it| Value::Array(list(it))))
            .or_else(|| item.as_table_like().map(texts));
        entry.insert(key.to_owned(), given.unwrap_or_default());
    }
    Ok(Some(Value::Object(entry)))
}

fn texts(table: &dyn TableLike) -> Value {
    let texts = table.iter().filter_map(|(key, it)| Some((key.to_owned(), it.as_str()?.into())));
    Value::Object(texts.collect())
}

fn parse(text: &str) -> Result<DocumentMut, TomlError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        TomlError::NoToml(error.message().lines().collect::<Vec<_>>().join(" "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "# mine\nmodel = \"m\"   # the best\n\n[mcp_servers.other]\ncommand = 'x'\n\n[profiles.a]\nk = 1\n";

    fn put(text: &str) -> Result<String, TomlError> {
        let entry = json!({ "command": "c", "args": ["mcp", "--as", "peer"] });
        with_entry(text, "mcp_servers", "coordd", Some(&entry))
    }

    #[test]
    fn l4_a_table_is_put_in_and_taken_out_and_comments_stay() {
        let after = put(FILE).unwrap();
        for line in FILE.lines().filter(|line| !line.is_empty()) {
            assert!(after.contains(line), "{line}: {after}");
        }
        assert!(
            after.contains(
                "[mcp_servers.coordd]\ncommand = \"c\"\nargs = [\"mcp\", \"--as\", \"peer\"]\n"
            ),
            "{after}"
        );
        assert_eq!(with_entry(&after, "mcp_servers", "coordd", None).unwrap(), FILE);
        let new = put("").unwrap();
        assert_eq!(
            new,
            "[mcp_servers.coordd]\ncommand = \"c\"\nargs = [\"mcp\", \"--as\", \"peer\"]\n"
        );
        assert_eq!(with_entry(&new, "mcp_servers", "coordd", None).unwrap(), "");
        let inline = put("mcp_servers = { other = { command = \"x\" } }\n").unwrap();
        assert!(inline.contains("other = { command = \"x\" }"), "{inline}");
    }

    #[test]
    fn l4_what_is_not_understood_is_left_alone() {
        assert!(matches!(put("a = "), Err(TomlError::NoToml(_))));
        assert_eq!(put("mcp_servers = 3\n"), Err(TomlError::NoTable("mcp_servers".to_owned())));
        let found = entry(&put(FILE).unwrap(), "mcp_servers", "coordd").unwrap().unwrap();
        assert_eq!(found, json!({ "command": "c", "args": ["mcp", "--as", "peer"] }));
        assert_eq!(entry(FILE, "mcp_servers", "coordd"), Ok(None));
    }
}
