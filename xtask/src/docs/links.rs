//! Every link and picture on the pages leads to a file, and to a heading in it, that are there.
//!
//! I1. A page of the book links only within the book: what lies beside `docs` is not in it.
//! I2. Links to the web are not followed: their servers are not ours to test.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::pages;
use crate::workspace::{Workspace, read};

pub fn check(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for page in pages(workspace)? {
        for target in targets(&read(&page)?) {
            if let Err(error) = check_target(workspace, &page, &target) {
                wrong.push(format!("{}: {target}: {error}", page.strip_prefix(&workspace.root)?.display()));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn check_target(workspace: &Workspace, page: &Path, target: &str) -> Result<()> {
    if target.contains("://") {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let file = if file.is_empty() { page.to_owned() } else { page.with_file_name(file) };
    ensure!(file.exists(), "there is no such file");
    let docs = workspace.root.join("docs").canonicalize()?;
    ensure!(!page.starts_with(&docs) || file.canonicalize()?.starts_with(&docs), "it is not in the book");
    let Some(heading) = heading else { return Ok(()) };
    let known = headings(&read(&file)?);
    if !known.iter().any(|known| known == heading) {
        bail!("there is no such heading; there are {}", known.join(", "));
    }
    Ok(())
}

fn parser(page: &str) -> Parser<'_> {
    Parser::new_ext(page, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES)
}

/// Where links and pictures lead.
fn targets(page: &str) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
        _ => None,
    };
    parser(page).filter_map(target).collect()
}

/// The headings' names in links: small letters, `-` for blanks, nothing else but letters, digits and `_`; the second of a name ends in `-1`.
fn headings(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut heading: Option<String> = None;
    for event in parser(page) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), Some(text)) => {
                let name = text.trim().to_lowercase().replace(char::is_whitespace, "-");
                let name: String = name.chars().filter(|&c| c.is_alphanumeric() || c == '-' || c == '_').collect();
                let is_same = |known: &&String| known.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with("-"));
                let earlier = found.iter().filter(is_same).count();
                found.push(if found.contains(&name) { format!("{name}-{earlier}") } else { name });
                heading = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pictures_are_found_and_code_is_not() {
        let page = "See [this](a.md#b) and ![that](c.svg).\n\n| [x](d) |\n|---|\n| `[n](o)` |\n\n```\n[n](o)\n```\n";
        assert_eq!(targets(page), ["a.md#b", "c.svg", "d"]);
    }

    #[test]
    fn headings_are_named_as_renderers_do() {
        let page = "# What `it` is\n## C API, version 2\n## Same\n## Same\n```\n# no heading\n```\n";
        assert_eq!(headings(page), ["what-it-is", "c-api-version-2", "same", "same-1"]);
    }
}
