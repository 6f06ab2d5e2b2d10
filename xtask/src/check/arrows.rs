//! Crates use each other only as the table in `docs/architecture.md` says. The table is read, not repeated here, so page and check cannot differ.
//!
//! I1. A row's last column names the crates it may use, and each of them has its own row above (`–` for none).
//! I2. `replay-guest`, the replayer's half in the replay process, may use what the replayer may.
//! I3. Nothing may use `xtask` or `tests`; `tests` may use everything.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::workspace::{Workspace, read};

type Table = BTreeMap<String, Vec<String>>;

pub fn check(workspace: &Workspace) -> Result<()> {
    let mut table = parse(&read(&workspace.root.join("docs/architecture.md"))?)?;
    if let Some(replayer) = table.get("replayer").cloned() {
        table.insert("replay-guest".into(), replayer);
    }
    table.insert("xtask".into(), Vec::new());
    table.insert("tests".into(), workspace.packages.iter().map(|package| package.name.clone()).filter(|name| name != "xtask").collect());
    let arrows = workspace.packages.iter().flat_map(|package| package.uses.iter().map(move |used| (package.name.as_str(), used.as_str())));
    let wrong = wrong_arrows(&table, arrows);
    ensure!(wrong.is_empty(), "not in docs/architecture.md: {}", wrong.join(", "));
    Ok(())
}

fn wrong_arrows<'a>(table: &Table, arrows: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    arrows
        .filter(|(from, to)| !table.get(*from).is_some_and(|allowed| allowed.iter().any(|name| name == to)))
        .map(|(from, to)| format!("{from} uses {to}"))
        .collect()
}

/// Reads rows of the form `` | `crate` | what it is | uses | ``.
fn parse(page: &str) -> Result<Table> {
    let mut table = Table::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, .., uses, ""] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let uses: Vec<String> = uses.split(',').map(|used| used.trim().to_owned()).filter(|used| used != "–").collect();
        for used in &uses {
            ensure!(table.contains_key(used), "docs/architecture.md: {name} uses {used}, which is not above it in the table");
        }
        table.insert(name.to_owned(), uses);
    }
    ensure!(!table.is_empty(), "docs/architecture.md has no table of crates");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| crate | what it is | uses |
|---|---|---|
| `log` | a file | – |
| `engine` | runs `code` | – |
| `recorder` | records | engine, log |
";

    #[test]
    fn arrows_of_the_table_are_fine() {
        let table = parse(PAGE).unwrap();
        assert!(wrong_arrows(&table, [("recorder", "engine"), ("recorder", "log")].into_iter()).is_empty());
    }

    #[test]
    fn other_arrows_are_named() {
        let table = parse(PAGE).unwrap();
        let wrong = wrong_arrows(&table, [("engine", "log"), ("recorder", "log"), ("new", "log")].into_iter());
        assert_eq!(wrong, ["engine uses log", "new uses log"]);
    }

    #[test]
    fn a_table_with_an_arrow_upwards_is_refused() {
        assert!(parse("| `a` | first | b |\n| `b` | second | – |\n").is_err());
    }
}
