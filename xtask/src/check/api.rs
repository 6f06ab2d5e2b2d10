//! The functions that `libundolr.so` exports are exactly those that `include/undolr.h` declares.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::build::exported;
use crate::workspace::{Workspace, read};

pub fn check(workspace: &Workspace) -> Result<()> {
    let declared = declared(&read(&workspace.root.join("include/undolr.h"))?);
    let exported = exported(&workspace.stage().join("lib/libundolr.so"))?;
    let differ = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>().join(", ");
    ensure!(
        declared == exported,
        "only in include/undolr.h: [{}]; only in libundolr.so: [{}]",
        differ(&declared, &exported),
        differ(&exported, &declared)
    );
    Ok(())
}

/// Names that begin with `undolr_` and are followed by a parenthesis, outside comments.
fn declared(header: &str) -> BTreeSet<String> {
    let code = without_comments(header);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.match_indices('(')
        .filter_map(|(at, _)| code[..at].trim_end().rsplit(|c| !is_word(c)).next())
        .filter(|name| name.starts_with("undolr_"))
        .map(str::to_owned)
        .collect()
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_and_comments_are_not() {
        let header = "/* undolr_no(1) \n * undolr_no(2) */\ntypedef struct undolr_t *undolr_t;\nint undolr_start(undolr_error_t *e); // undolr_no()\nconst char *\nundolr_get(void);\n";
        assert_eq!(declared(header).into_iter().collect::<Vec<_>>(), ["undolr_get", "undolr_start"]);
    }
}
